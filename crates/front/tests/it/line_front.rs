//! A second front: a request is the line `GET PATH OFFSET LEN`; its answer is the line `OK LEN` and the bytes, or the line
//! `ERROR KIND TEXT`.

use forebay_auth::Identity;
use forebay_engine::{Caller, Client, Opening, Redirects};
use forebay_front::{
    Connection, ConnectionMemory, Failure, FailureKind, Front, ReadKind, ReadSource, append_segment, report_read,
};
use forebay_types::{ByteRange, RequestPath, Side};
use std::{io, net::SocketAddr, sync::Arc};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream},
    net::{TcpListener, TcpStream},
};

const LINE_LEN_MAX: u64 = 4096;

/// Longest range of one answer, which is assembled in memory.
const RANGE_LEN_MAX: u64 = 1 << 20;

struct Session {
    front: Arc<Front>,
    login: Arc<Caller>,
    connection: Connection,
    memory: ConnectionMemory,
}

/// Serves the clients that connect to `listener`.
pub(crate) async fn serve(front: Arc<Front>, listener: TcpListener) {
    while let Ok((socket, peer)) = listener.accept().await {
        // A connection beyond the limits is closed at once.
        let Ok(places) = front.limits.admit(peer.ip()) else { continue };
        let session = Session::new(Arc::clone(&front), peer);
        // There is no login to wait for.
        drop(places.login);
        let held = (places.in_total, places.of_client);
        tokio::spawn(async move { session.serve(socket).await.map(|()| drop(held)) });
    }
}

impl Session {
    fn new(front: Arc<Front>, peer: SocketAddr) -> Self {
        let host = peer.ip().to_string();
        let identity = Identity::anonymous(&host);
        let client = Client { user: "line".to_owned(), host, peer: Some(peer), ..Client::default() };
        let login = front.logged_in(client, identity, None);
        let memory = ConnectionMemory::new(&front.answer_memory);
        Self { front, login, connection: Connection { peer, is_tls: false }, memory }
    }

    async fn serve(&self, socket: TcpStream) -> io::Result<()> {
        let mut socket = BufStream::new(socket);
        let mut line = String::new();
        while (&mut socket).take(LINE_LEN_MAX).read_line(&mut line).await? > 0 {
            let (head, bytes) = match self.get(&line).await {
                Ok(bytes) => (format!("OK {}\n", bytes.len()), bytes),
                Err(failure) => (format!("ERROR {} {}\n", failure.kind.as_str(), failure.text), Vec::new()),
            };
            socket.write_all(head.as_bytes()).await?;
            socket.write_all(&bytes).await?;
            socket.flush().await?;
            line.clear();
        }
        Ok(())
    }

    async fn get(&self, line: &str) -> Result<Vec<u8>, Failure> {
        let received = forebay_net::clock::monotonic();
        let (path, asked) = parse(line)
            .ok_or_else(|| Failure::new(FailureKind::Invalid, Side::Client, "expected GET PATH OFFSET LEN"))?;
        let request = RequestPath::parse(path.as_bytes())?.into();
        let caller = self.front.admit_open(&request, &self.login, self.connection)?;
        let Opening::File(handle) = self.front.open(&request, &caller, Redirects::Never).await? else {
            return Err(Failure::internal("a redirect that no client can follow"));
        };
        let range = asked.clipped_to(handle.size());
        let mut bytes = Vec::new();
        if range.is_empty() {
            return Ok(bytes);
        }
        let mut memory = self.memory.answer();
        memory.reserve(range.len()).await;
        let (mut stream, outcome) = ReadSource::Handle(handle.clone()).start(range);
        while (bytes.len() as u64) < range.len() {
            let batch = stream.next_batch(&memory, range.len()).await;
            batch.segments.iter().try_for_each(|segment| append_segment(segment, &mut bytes))?;
            batch.failure.map_or(Ok(()), Err)?;
        }
        report_read(&handle, ReadKind::Read, range, received, outcome);
        Ok(bytes)
    }
}

fn parse(line: &str) -> Option<(&str, ByteRange)> {
    let mut words = line.strip_prefix("GET ")?.split_whitespace();
    let (path, offset, len) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse::<u64>().ok()?);
    Some((path, ByteRange::at(offset, len.min(RANGE_LEN_MAX))))
}
