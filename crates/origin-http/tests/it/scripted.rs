//! A server that answers as a test says, and origins that ask it.

use forebay_origin::{DelegatedCredentials, OriginPath};
use forebay_origin_http::{HttpOrigin, Options, Pool, PoolOptions};
use forebay_telemetry::Metrics;
use forebay_types::Lfn;
use parking_lot::Mutex;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    head: String,
    /// Number of the request, and of the connection it came over; from 0.
    pub(crate) nth: usize,
    pub(crate) connection: usize,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let named = |line: &&str| line.split(':').next().is_some_and(|found| found.eq_ignore_ascii_case(name));
        self.head.lines().find(named)?.split_once(':').map(|(_, value)| value.trim())
    }

    /// First byte and end of each requested range.
    pub(crate) fn ranges(&self) -> Vec<(usize, usize)> {
        let listed = self.header("range").and_then(|text| text.strip_prefix("bytes="));
        let ranges = listed.into_iter().flat_map(|list| list.split(','));
        let ends = ranges.map(|range| range.split_once('-').unwrap());
        ends.map(|(first, last)| (first.parse().unwrap(), last.parse::<usize>().unwrap() + 1)).collect()
    }

    /// First byte and end of the requested range, if it is one.
    pub(crate) fn range(&self) -> Option<(usize, usize)> {
        <[_; 1]>::try_from(self.ranges()).ok().map(|[range]| range)
    }
}

/// The bytes of an answer, and whether the connection ends behind it.
pub(crate) struct Reply {
    pub(crate) bytes: Vec<u8>,
    pub(crate) closes: bool,
}

impl Reply {
    /// An answer with `headers`, a line each, and a body of the length that they state.
    pub(crate) fn new(status: &str, headers: &str, body: &[u8]) -> Self {
        let headers: String = headers.lines().map(|line| format!("{}\r\n", line.trim())).collect();
        let mut bytes = format!("HTTP/1.1 {status}\r\n{headers}\r\n").into_bytes();
        bytes.extend_from_slice(body);
        Self { bytes, closes: false }
    }

    pub(crate) fn and_close(self) -> Self {
        Self { closes: true, ..self }
    }
}

type Script = dyn Fn(&Seen) -> Reply + Send + Sync;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start(script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into(), script).await
    }

    pub(crate) async fn start_at(address: SocketAddr, script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let (script, log): (Arc<Script>, _) = (Arc::new(script), Arc::clone(&seen));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            for connection in 0.. {
                let (socket, _) = listener.accept().await.unwrap();
                connections.spawn(serve(socket, connection, Arc::clone(&script), Arc::clone(&log)));
            }
        });
        Self { address, seen, _tasks: tasks }
    }

    pub(crate) fn origin(&self) -> HttpOrigin {
        origin_of(&[self.address])
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.seen.lock().iter().map(|seen| format!("{} {}", seen.method, seen.target)).collect()
    }
}

async fn serve(mut socket: TcpStream, connection: usize, script: Arc<Script>, log: Arc<Mutex<Vec<Seen>>>) {
    let mut received = Vec::new();
    loop {
        while !received.ends_with(b"\r\n\r\n") {
            let Ok(byte) = socket.read_u8().await else { return };
            received.push(byte);
        }
        let head = String::from_utf8(std::mem::take(&mut received)).unwrap();
        let mut line = head.split(' ');
        let (method, target) = (line.next().unwrap().to_owned(), line.next().unwrap().to_owned());
        let seen = {
            let mut log = log.lock();
            let seen = Seen { method, target, nth: log.len(), connection, head };
            log.push(seen.clone());
            seen
        };
        let Reply { bytes, closes } = script(&seen);
        if socket.write_all(&bytes).await.is_err() || closes {
            return;
        }
    }
}

/// An origin of these servers, which tries again at once. A busy machine takes no server from it.
pub(crate) fn origin_of(servers: &[SocketAddr]) -> HttpOrigin {
    origin_with(servers, options())
}

pub(crate) fn options() -> Options {
    Options {
        first_byte_timeout: Duration::from_secs(60),
        stall_timeout: Duration::from_secs(60),
        back_off_min: Duration::from_millis(1),
        read_attempts: 3,
        attempts: 3,
        ..Options::default()
    }
}

pub(crate) fn origin_with(servers: &[SocketAddr], options: Options) -> HttpOrigin {
    let mut servers = servers.iter().map(|address| format!("http://{address}/base").parse().unwrap());
    HttpOrigin::new(
        servers.next().unwrap(),
        servers.collect(),
        options,
        Pool::anonymous(PoolOptions::default()),
        &Metrics::new(),
    )
}

pub(crate) fn path(lfn: &str) -> OriginPath {
    OriginPath { lfn: Lfn::parse(lfn).unwrap(), cgi: String::new(), delegation: DelegatedCredentials::default() }
}
