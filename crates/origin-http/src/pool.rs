//! Connections to HTTP servers, kept for the next request.

use crate::options::{HEAD_LEN_MAX, HEADERS_MAX, IDLE_MAX, IDLE_PER_SERVER_MAX, PoolOptions};
use bytes::Bytes;
use forebay_auth::CredentialSource;
use forebay_net::{Stream, TlsConnector, TlsError};
use forebay_origin::{OriginError, Redirected, ShownCredentials, reach};
use forebay_types::{Endpoint, OriginId, Scheme};
use http_body_util::Empty;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
};
use tokio::{
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
    idle: Mutex<Idle>,
}

/// Unused connections by server, those used last at the end.
#[derive(Default)]
struct Idle {
    by_server: HashMap<Contact, Vec<Parked>>,
    count: usize,
    is_swept: bool,
}

struct Parked {
    connection: Connection,
    since: Instant,
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
    /// Whether it has answered a request: the server may have closed it since.
    pub(crate) is_reused: bool,
    contact: Contact,
    /// Moves its bytes, and ends with it.
    driver: JoinSet<()>,
}

impl Pool {
    /// A pool that encrypts with `tls` and authenticates with the credentials of `source`.
    #[must_use]
    pub fn new(options: PoolOptions, tls: Option<TlsConnector>, source: Arc<dyn CredentialSource>) -> Arc<Self> {
        let shown = ShownCredentials::new(source, &options.username);
        Arc::new(Self { options, tls, shown, idle: Mutex::default() })
    }

    /// A pool without TLS and without credentials.
    #[must_use]
    pub fn anonymous(options: PoolOptions) -> Arc<Self> {
        let shown = ShownCredentials::anonymous(&options.username);
        Arc::new(Self { options, tls: None, shown, idle: Mutex::default() })
    }

    /// A connection to `server`: an unused one if `may_reuse`, else a new one.
    ///
    /// # Errors
    /// `Unreachable` if there is no server or it does not answer in time, `Tls` if the connection is not safe, and those of
    /// [`reach`].
    pub(crate) async fn connection(
        &self,
        server: &OriginId,
        redirect: Option<&Redirected>,
        may_reuse: bool,
    ) -> Result<Connection, OriginError> {
        let contact = Contact { server: server.clone(), may_be_here: redirect.is_none() };
        let parked = if may_reuse { self.idle.lock().take(&contact, self.options.idle_timeout) } else { None };
        match parked {
            Some(connection) => Ok(connection),
            None => self.dial(contact, redirect).await,
        }
    }

    /// Keeps a connection whose answer was received completely.
    pub(crate) fn park(self: &Arc<Self>, mut connection: Connection) {
        connection.is_reused = true;
        let mut idle = self.idle.lock();
        if idle.count >= IDLE_MAX || connection.sender.is_closed() {
            return;
        }
        let parked = idle.by_server.entry(connection.contact.clone()).or_default();
        if parked.len() < IDLE_PER_SERVER_MAX {
            parked.push(Parked { connection, since: Instant::now() });
            idle.count += 1;
        }
        if !std::mem::replace(&mut idle.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    async fn dial(&self, contact: Contact, redirect: Option<&Redirected>) -> Result<Connection, OriginError> {
        let endpoint = &contact.server.endpoint;
        let limit = self.options.connect_timeout;
        let deadline = Instant::now() + limit;
        let socket = reach(endpoint, limit, &self.options.own, redirect).await?;
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
        Ok(Connection { sender, is_loopback, is_reused: false, contact, driver })
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

impl Idle {
    fn take(&mut self, contact: &Contact, idle_timeout: std::time::Duration) -> Option<Connection> {
        let parked = self.by_server.get_mut(contact)?;
        while let Some(Parked { connection, since }) = parked.pop() {
            self.count -= 1;
            // The last one is the freshest: if it is too old, so are all.
            if since.elapsed() < idle_timeout && !connection.sender.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    /// Closes connections that were not used for `idle_timeout`; returns whether any are left.
    fn close_old(&mut self, idle_timeout: std::time::Duration) -> bool {
        for parked in self.by_server.values_mut() {
            parked.retain(|parked| parked.since.elapsed() < idle_timeout && !parked.connection.sender.is_closed());
        }
        self.by_server.retain(|_, parked| !parked.is_empty());
        self.count = self.by_server.values().map(Vec::len).sum();
        self.is_swept = self.count > 0;
        self.is_swept
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
        if !pool.idle.lock().close_old(pool.options.idle_timeout) {
            return;
        }
    }
}

fn unreachable(endpoint: &Endpoint, reason: &(impl ToString + ?Sized)) -> OriginError {
    OriginError::Unreachable { endpoint: endpoint.clone(), reason: reason.to_string() }
}
