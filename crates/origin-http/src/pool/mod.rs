//! Connections to HTTP servers, kept for the next request.

mod connections;

use crate::options::{HEAD_LEN_MAX, HEADERS_MAX, PoolOptions};
use bytes::Bytes;
use connections::{Connected, Connections};
use forebay_auth::CredentialSource;
use forebay_net::{Stream, TlsConnector, TlsError};
use forebay_origin::{Circuit, OriginError, Redirected, ShownCredentials, reach};
use forebay_types::{Endpoint, OriginId, Scheme};
use http_body_util::Empty;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{
    sync::oneshot,
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};

/// Connections of the whole process, and the credentials that servers are shown.
///
/// A connection carries one request at a time. Credentials go with each request, so connections are shared by all of them.
pub struct Pool {
    options: PoolOptions,
    /// `None` when connections cannot be encrypted.
    tls: Option<TlsConnector>,
    pub(crate) shown: ShownCredentials,
    /// Servers that could not be reached lately.
    pub(crate) circuit: Circuit,
    connections: Mutex<Connections>,
    is_swept: AtomicBool,
}

/// The key of a connection.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Contact {
    server: OriginId,
    /// Whether it may be at an address of this machine.
    may_be_here: bool,
}

/// A connection, with no request under way.
pub(crate) struct Connection {
    pub(crate) sender: SendRequest<Empty<Bytes>>,
    pub(crate) is_loopback: bool,
    /// Whether it was unused for a while: the server may have closed it since.
    pub(crate) is_reused: bool,
    /// Bytes of bodies that it has carried.
    pub(crate) received: u64,
    contact: Contact,
    /// Moves its bytes, and ends with it.
    driver: JoinSet<()>,
}

/// Why there is no connection although no attempt has failed.
const BROKEN_OFF: &str = "the attempt to connect was broken off";

impl Connection {
    /// Whether it is one to `server`, as a request with `redirect` needs it.
    pub(crate) fn is_to(&self, server: &OriginId, redirect: Option<&Redirected>) -> bool {
        self.contact.server == *server && self.contact.may_be_here == redirect.is_none()
    }
}

impl Pool {
    /// A pool that encrypts with `tls` and authenticates with the credentials of `source`.
    #[must_use]
    pub fn new(options: PoolOptions, tls: Option<TlsConnector>, source: Arc<dyn CredentialSource>) -> Arc<Self> {
        let shown = ShownCredentials::new(source, &options.username);
        Self::with(options, tls, shown)
    }

    /// A pool without TLS and without credentials.
    #[must_use]
    pub fn anonymous(options: PoolOptions) -> Arc<Self> {
        let shown = ShownCredentials::anonymous(&options.username);
        Self::with(options, None, shown)
    }

    fn with(options: PoolOptions, tls: Option<TlsConnector>, shown: ShownCredentials) -> Arc<Self> {
        let (connections, is_swept) = Default::default();
        let circuit = Circuit::new(options.circuit_time);
        Arc::new(Self { options, tls, shown, circuit, connections, is_swept })
    }

    /// An unused connection to `server`.
    pub(crate) fn kept(&self, server: &OriginId, redirect: Option<&Redirected>) -> Option<Connection> {
        let contact = Contact { server: server.clone(), may_be_here: redirect.is_none() };
        self.connections.lock().take(&contact, self.options.idle_timeout)
    }

    /// A connection to `server`: an unused one if `may_reuse`, else a new one. While a new one is made, one that becomes unused
    /// serves as well: connecting takes round trips, and a second or more if the first packet is lost.
    ///
    /// # Errors
    /// `Unreachable` if there is no server or it does not answer in time, `Tls` if the connection is not safe, and those of
    /// [`reach`].
    pub(crate) async fn connection(
        self: &Arc<Self>,
        server: &OriginId,
        redirect: Option<&Redirected>,
        may_reuse: bool,
    ) -> Result<Connection, OriginError> {
        let contact = Contact { server: server.clone(), may_be_here: redirect.is_none() };
        if !may_reuse {
            let connected = self.dial(contact.clone(), redirect.cloned()).await;
            self.note_reached(&connected, &contact);
            return connected;
        }
        let (connected, is_to_dial) = {
            let mut connections = self.connections.lock();
            match connections.take(&contact, self.options.idle_timeout) {
                Some(connection) => return Ok(connection),
                None => connections.wait(&contact),
            }
        };
        if is_to_dial {
            self.start_dial(contact.clone(), redirect.cloned());
        }
        let broken_off = Err(unreachable(&contact.server.endpoint, BROKEN_OFF));
        let mut waiting = Waiting { pool: self, contact, connected };
        (&mut waiting.connected).await.unwrap_or(broken_off)
    }

    /// Begins to make connections to `server`, unless there are enough for `count` requests that will be sent soon.
    pub(crate) fn prepare(self: &Arc<Self>, server: &OriginId, redirect: Option<&Redirected>, count: usize) {
        let contact = Contact { server: server.clone(), may_be_here: redirect.is_none() };
        let missing = self.connections.lock().prepare(&contact, count);
        for _ in 0..missing {
            self.start_dial(contact.clone(), redirect.cloned());
        }
    }

    /// Keeps a connection whose answer was received completely.
    pub(crate) fn park(self: &Arc<Self>, connection: Connection) {
        let is_kept = self.connections.lock().put(connection);
        self.sweep_if(is_kept);
    }

    /// Makes a connection in the background, for the request that waits longest or for one to come: a request that ends, or has got another
    /// connection meanwhile, leaves it to the others.
    fn start_dial(self: &Arc<Self>, contact: Contact, redirect: Option<Redirected>) {
        let mut dial = Dial { pool: Arc::clone(self), contact, has_ended: false };
        tokio::spawn(async move {
            let connected = dial.pool.dial(dial.contact.clone(), redirect).await;
            dial.pool.note_reached(&connected, &dial.contact);
            dial.end(connected);
        });
    }

    fn sweep_if(self: &Arc<Self>, is_kept: bool) {
        if is_kept && !self.is_swept.swap(true, Ordering::Relaxed) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    fn note_reached(&self, connected: &Connected, contact: &Contact) {
        let endpoint = &contact.server.endpoint;
        match connected {
            Ok(_) => self.circuit.close(endpoint),
            Err(OriginError::Unreachable { .. }) => self.circuit.trip(endpoint, Instant::now()),
            Err(_) => {}
        }
    }

    async fn dial(&self, contact: Contact, redirect: Option<Redirected>) -> Result<Connection, OriginError> {
        let endpoint = &contact.server.endpoint;
        let limit = self.options.connect_timeout;
        let deadline = Instant::now() + limit;
        let socket = reach(endpoint, limit, &self.options.own, redirect.as_ref()).await?;
        let address = socket.peer_addr().map_err(|error| unreachable(endpoint, &error))?;
        let mut stream = Stream::from(socket);
        if contact.server.scheme != Scheme::Http {
            let handshake = timeout_at(deadline, self.start_tls(endpoint, &mut stream)).await;
            handshake.map_err(|_| unreachable(endpoint, &format!("no TLS handshake within {limit:?}")))??;
        }
        let mut http = http1::Builder::new();
        // Some servers compare names of headers as text.
        http.max_headers(HEADERS_MAX).max_buf_size(HEAD_LEN_MAX).title_case_headers(true);
        let (sender, connection) =
            http.handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(endpoint, &error))?;
        tracing::debug!(server = %contact.server, "connected to an origin");
        let mut driver = JoinSet::new();
        // Its error reaches the request that is under way.
        driver.spawn(async move { drop(connection.await) });
        let is_loopback = address.ip().to_canonical().is_loopback();
        Ok(Connection { sender, is_loopback, is_reused: false, received: 0, contact, driver })
    }

    async fn start_tls(&self, endpoint: &Endpoint, stream: &mut Stream) -> Result<(), OriginError> {
        let Some(connector) = &self.tls else {
            let reason =
                "there is no directory of trusted CAs; install one, and name it as tls.ca_dir or X509_CERT_DIR";
            return Err(OriginError::Tls { endpoint: endpoint.clone(), reason: reason.to_owned() });
        };
        stream.connect_tls(connector, endpoint.host()).await.map(drop).map_err(|error| match error {
            // A broken connection may be retried; a certificate that is not accepted stays the same.
            TlsError::Connection(_) | TlsError::TimedOut { .. } => unreachable(endpoint, &error),
            error => OriginError::Tls { endpoint: endpoint.clone(), reason: error.to_string() },
        })
    }
}

/// An attempt to make a connection. Its end is reported in any case: requests count on it.
struct Dial {
    pool: Arc<Pool>,
    contact: Contact,
    has_ended: bool,
}

impl Dial {
    fn end(&mut self, connected: Connected) {
        if !std::mem::replace(&mut self.has_ended, true) {
            let is_kept = self.pool.connections.lock().dialled(&self.contact, connected);
            self.pool.sweep_if(is_kept);
        }
    }
}

impl Drop for Dial {
    fn drop(&mut self) {
        self.end(Err(unreachable(&self.contact.server.endpoint, BROKEN_OFF)));
    }
}

/// A request that waits for a connection.
struct Waiting<'a> {
    pool: &'a Arc<Pool>,
    contact: Contact,
    connected: oneshot::Receiver<Connected>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.connected.close();
        // One that came at the last moment.
        if let Ok(Ok(connection)) = self.connected.try_recv() {
            self.pool.park(connection);
        }
        self.pool.connections.lock().forget_ended(&self.contact);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("options", &self.options).finish_non_exhaustive()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_moving = !self.driver.is_empty();
        f.debug_struct("Connection").field("contact", &self.contact).field("is_moving", &is_moving).finish()
    }
}

/// Closes idle connections from time to time, until none are left or the pool is gone.
async fn sweep(pool: Weak<Pool>) {
    loop {
        let Some(pause) = pool.upgrade().map(|pool| pool.options.idle_timeout / 2) else { return };
        sleep(pause).await;
        // A weak reference: this task must not keep the pool alive.
        let Some(pool) = pool.upgrade() else { return };
        let mut connections = pool.connections.lock();
        if !connections.close_old(pool.options.idle_timeout) {
            pool.is_swept.store(false, Ordering::Relaxed);
            return;
        }
    }
}

fn unreachable(endpoint: &Endpoint, reason: &(impl ToString + ?Sized)) -> OriginError {
    OriginError::Unreachable { endpoint: endpoint.clone(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests;
