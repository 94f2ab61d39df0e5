//! A `root://` server on the loopback interface that answers and misbehaves as scripted.

mod answer;
mod connection;

use forebay_proto::{ErrorCode, RequestCode, ServerFlags};
use forebay_types::{ByteRange, Endpoint};
use parking_lot::Mutex;
use std::{io, sync::Arc};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

/// A server with one file under every path, filled with [`crate::byte_at`], and one directory. Dropping it closes
/// everything.
pub struct ScriptedOrigin {
    endpoint: Endpoint,
    server: Arc<Server>,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

/// Properties of the server. The defaults are those of a well-behaved data server.
#[derive(Clone, Debug)]
pub struct Facts {
    pub size: u64,
    pub mtime: i64,
    pub flags: ServerFlags,
    /// Whether an open is answered with the file's stat, as it is asked for.
    pub stat_with_open: bool,
    pub names: Vec<String>,
    /// Whether listings carry stats when these are asked for.
    pub stats_in_listing: bool,
    /// Bytes of data in one frame; a multiple of 4096.
    pub frame_len: u64,
}

/// A request as the script sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Seen {
    pub code: RequestCode,
    /// How many requests of this kind came before.
    pub nth: usize,
    /// The path with its opaque data; empty when the request names none.
    pub path: String,
    /// The range of a read; for a vector read that of each element.
    pub ranges: Vec<ByteRange>,
    /// Whether a page read asks for a page that arrived damaged.
    pub retry: bool,
}

/// How a request is answered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reply {
    Good,
    Error(ErrorCode, &'static str),
    /// With the demand to ask again in so many seconds.
    Wait(u32),
    /// With `waitresp`, then as it should be.
    Deferred,
    /// With a redirect to a server, with opaque data.
    Redirect(Endpoint, String),
    RedirectUrl(String),
    Silence,
    /// With as many bytes of the good answer, then the connection is closed.
    CutAfter(usize),
    /// With as many bytes of the good answer, then nothing more comes by this stream.
    StallAfter(usize),
    /// With no more than so many bytes of data, as if the file ended there.
    Short(u64),
    CorruptPage(u64),
    /// Later: once so many requests are held they are answered, the last first.
    Hold(usize),
    /// With these bytes of body in a final frame.
    Body(Vec<u8>),
}

type Script = dyn Fn(&Seen) -> Reply + Send + Sync;

struct Server {
    facts: Facts,
    script: Box<Script>,
    seen: Mutex<Vec<Seen>>,
    sessions: Mutex<u8>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            size: 1 << 20,
            mtime: 1_700_000_000,
            flags: ServerFlags::IS_SERVER.with(ServerFlags::SUPPORTS_PAGES),
            stat_with_open: true,
            names: Vec::new(),
            stats_in_listing: true,
            frame_len: 256 << 10,
        }
    }
}

impl Facts {
    /// A data server without page reads.
    pub fn without_pages() -> Self {
        Self { flags: ServerFlags::IS_SERVER, ..Self::default() }
    }

    pub fn redirector() -> Self {
        Self { flags: ServerFlags::IS_MANAGER, ..Self::default() }
    }
}

impl ScriptedOrigin {
    /// Starts a server on a free port.
    pub async fn start(facts: Facts, script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = Endpoint::new("127.0.0.1", listener.local_addr()?.port());
        let server =
            Arc::new(Server { facts, script: Box::new(script), seen: Mutex::default(), sessions: Mutex::default() });
        let accepting = Mutex::new(Some(spawn(listener, &server)));
        Ok(Self { endpoint, server, accepting })
    }

    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The requests so far, in the order in which they came.
    pub fn seen(&self) -> Vec<Seen> {
        self.server.seen.lock().clone()
    }

    /// How many requests of one kind have come.
    pub fn count(&self, code: RequestCode) -> usize {
        self.server.seen.lock().iter().filter(|seen| seen.code == code).count()
    }

    /// How many connections are open now.
    pub fn connections(&self) -> usize {
        // Each connection holds the server, and so do its acceptor and this handle.
        Arc::strong_count(&self.server).saturating_sub(2)
    }

    /// Closes the port and all connections; the port is free when this returns.
    pub async fn stop(&self) {
        let accepting = self.accepting.lock().take();
        if let Some(accepting) = accepting {
            accepting.abort();
            // It ends by being aborted, which is an error of no interest.
            let _ = accepting.await;
        }
    }

    /// Listens again at the same port.
    pub async fn restart(&self) -> io::Result<()> {
        let listener = TcpListener::bind((self.endpoint.host(), self.endpoint.port())).await?;
        *self.accepting.lock() = Some(spawn(listener, &self.server));
        Ok(())
    }
}

impl Drop for ScriptedOrigin {
    fn drop(&mut self) {
        self.accepting.lock().take().inspect(JoinHandle::abort);
    }
}

impl Server {
    fn judge(&self, mut seen: Seen) -> Reply {
        {
            let mut all = self.seen.lock();
            seen.nth = all.iter().filter(|earlier| earlier.code == seen.code).count();
            all.push(seen.clone());
        }
        (self.script)(&seen)
    }
}

fn spawn(listener: TcpListener, server: &Arc<Server>) -> JoinHandle<()> {
    let server = Arc::clone(server);
    tokio::spawn(async move {
        // Aborting this task drops the set, which aborts the connections.
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(serve(stream, Arc::clone(&server)));
        }
    })
}

async fn serve(stream: TcpStream, server: Arc<Server>) {
    // A connection that breaks is of no interest here: the client's side is under test.
    let _ = connection::serve(stream, server).await;
}
