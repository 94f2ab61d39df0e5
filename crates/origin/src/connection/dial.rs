//! Makes a connection: TCP, handshake, TLS, login or bind.

use super::{
    Connection, OUTSTANDING_MAX, ServerFacts, Shared,
    inlet::{Activity, Inlet},
    outlet::Outlet,
    pending::Pending,
    proof::Proof,
    reader, signed,
    streams::Streams,
};
use crate::{OriginError, PoolOptions};
use bytes::{BufMut, BytesMut};
use forebay_auth::{Credentials, RequestSigner};
use forebay_net::{ConnectError, Stream, TlsConnector, TlsError};
use forebay_proto::{Abilities, ClientError, ClientOptions, ClientPurpose, ClientSession, Peer, Progress, TlsUse};
use forebay_types::Endpoint;
use parking_lot::Mutex;
use std::{
    io,
    sync::{Arc, atomic::AtomicBool},
};
use tokio::{
    sync::{OnceCell, Semaphore},
    time::{Instant, timeout_at},
};

/// What we tell of ourselves at login.
const LOGIN_CGI: &str = concat!("xrd.appname=forebay&xrd.rn=v", env!("CARGO_PKG_VERSION"));

/// What we can do: follow redirects that are a URL. Not: read files on the server's disk, change servers amid a read.
const ABILITIES: Abilities = Abilities::FULL_URL;

/// Makes connections.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    pub(crate) options: PoolOptions,
    /// How connections are encrypted; `None` when they cannot be.
    pub(crate) tls: Option<TlsConnector>,
}

/// Where a connection leads.
#[derive(Clone, Debug)]
pub(super) struct Route {
    /// Where it is made to.
    pub(super) endpoint: Endpoint,
    /// The name that the server must prove to have, when the connection is encrypted.
    pub(super) host: String,
    /// What is done about TLS.
    pub(super) tls: TlsUse,
    /// What the server is shown, should it ask who we are.
    pub(super) credentials: Arc<Credentials>,
}

/// A socket after set-up.
pub(super) struct SetUp {
    pub(super) socket: Arc<Stream>,
    pub(super) inlet: Inlet,
    pub(super) peer: Peer,
    /// What signs requests, where the server wants that.
    pub(super) signer: Option<RequestSigner>,
}

impl Dialer {
    /// Opens a session with `endpoint` within the connect timeout.
    ///
    /// # Errors
    /// `Unreachable` when there is no server or it does not answer in time, `Refused` with its own words, `Tls` when the
    /// connection is not safe, `Authentication` when it does not take our proof, `Protocol` when it wants what this release
    /// cannot do.
    pub(crate) async fn dial(
        &self,
        endpoint: &Endpoint,
        tls: TlsUse,
        credentials: &Arc<Credentials>,
    ) -> Result<Arc<Connection>, OriginError> {
        let username = self.options.username.clone();
        let purpose = ClientPurpose::Login { pid: std::process::id(), username, cgi: LOGIN_CGI.to_owned() };
        let activity = Arc::new(Activity::new());
        let credentials = Arc::clone(credentials);
        let route = Route { endpoint: endpoint.clone(), host: endpoint.host().to_owned(), tls, credentials };
        let SetUp { socket, inlet, peer, signer } = self.set_up(&route, purpose, &activity).await?;
        let shared = Arc::new(Shared {
            endpoint: endpoint.clone(),
            pending: Pending::default(),
            outlet: Outlet::new(Arc::clone(&socket)),
            signer: signer.map(Mutex::new),
            activity,
            tasks: Mutex::default(),
        });
        shared.spawn(reader::run(inlet, Arc::clone(&shared)));
        shared.spawn({
            let shared = Arc::clone(&shared);
            async move {
                let error = shared.outlet.drain().await;
                shared.break_with(&error.to_string());
            }
        });
        let is_manager = peer.is_manager();
        let streams_max = if is_manager { 1 } else { self.options.streams };
        let address = socket.peer_addr().map_err(|error| unreachable(endpoint, &error))?;
        let (page_reads, tls) = (peer.supports_page_reads(), socket.tls().map(|facts| facts.version));
        tracing::debug!(%endpoint, is_manager, page_reads, tls, "connected to an origin");
        Ok(Arc::new(Connection {
            streams: Streams::new(&shared, &route, address, peer.session_id, streams_max, self),
            shared,
            permits: Arc::new(Semaphore::new(OUTSTANDING_MAX)),
            facts: ServerFacts {
                is_manager,
                is_tls: tls.is_some(),
                is_loopback: address.ip().to_canonical().is_loopback(),
            },
            page_reads: AtomicBool::new(page_reads),
            vector_reads: AtomicBool::new(true),
            vector_limits: OnceCell::new(),
        }))
    }

    /// Connects by `route` and goes through set-up within the connect timeout.
    pub(super) async fn set_up(
        &self,
        route: &Route,
        purpose: ClientPurpose,
        activity: &Arc<Activity>,
    ) -> Result<SetUp, OriginError> {
        let limit = self.options.connect_timeout;
        let (deadline, endpoint) = (Instant::now() + limit, &route.endpoint);
        let socket = forebay_net::connect(endpoint, limit).await.map_err(|error| {
            let reason = match error {
                ConnectError::Resolve { source, .. } => format!("its name cannot be resolved: {source}"),
                ConnectError::Refused { address, source, .. } => format!("{address}: {source}"),
                ConnectError::TimedOut { limit, .. } => format!("no answer within {limit:?}"),
            };
            OriginError::Unreachable { endpoint: endpoint.clone(), reason }
        })?;
        let tls = match (route.tls, &self.tls) {
            (TlsUse::Always, None) => return Err(without_tls(endpoint)),
            (TlsUse::WhenDemanded, None) => TlsUse::Never,
            (tls, _) => tls,
        };
        let session = ClientSession::new(ClientOptions { purpose, ability: ABILITIES, tls });
        let handshake = self.exchange(route, socket.into(), session, activity);
        timeout_at(deadline, handshake).await.unwrap_or_else(|_| {
            let reason = format!("it accepts connections but did not log us in within {limit:?}");
            Err(OriginError::Unreachable { endpoint: endpoint.clone(), reason })
        })
    }

    async fn exchange(
        &self,
        route: &Route,
        mut stream: Stream,
        mut session: ClientSession,
        activity: &Arc<Activity>,
    ) -> Result<SetUp, OriginError> {
        let endpoint = &route.endpoint;
        let (mut input, mut output) = (BytesMut::new(), Vec::new());
        let mut proof = Proof::new(endpoint, &route.host, &route.credentials);
        session.start(&mut output);
        loop {
            if !output.is_empty() {
                stream.send_all(&output).await.map_err(|error| unreachable(endpoint, &error))?;
                output.clear();
            }
            let mut progress = session.handle_input(&input, &mut output).map_err(|error| refusal(endpoint, error))?;
            if let Progress::StartTls { consumed } = progress {
                drop(input.split_to(consumed));
                self.start_tls(route, &mut stream).await?;
                progress = session.handle_tls_started(&mut output);
            }
            match progress {
                Progress::NeedMore { at_least } => {
                    // Exactly what set-up needs, so that nothing that follows it is taken.
                    let missing_len = at_least.saturating_sub(input.len());
                    receive(&stream, &mut input, missing_len).await.map_err(|error| unreachable(endpoint, &error))?;
                }
                Progress::Continue { consumed } | Progress::StartTls { consumed } => drop(input.split_to(consumed)),
                Progress::Authenticate { consumed } => {
                    drop(input.split_to(consumed));
                    proof.answer(&mut session, &stream, &mut output).await?;
                }
                Progress::Ready { .. } => {
                    let signer = signed::signer(session.signing(), proof.finish()?);
                    let socket = Arc::new(stream);
                    let inlet = Inlet::new(Arc::clone(&socket), Arc::clone(activity));
                    return Ok(SetUp { socket, inlet, peer: *session.peer(), signer });
                }
            }
        }
    }

    async fn start_tls(&self, route: &Route, stream: &mut Stream) -> Result<(), OriginError> {
        let endpoint = &route.endpoint;
        let connector = self.tls.as_ref().ok_or_else(|| without_tls(endpoint))?;
        stream.connect_tls(connector, &route.host).await.map(drop).map_err(|error| match error {
            TlsError::Connection(_) | TlsError::TimedOut { .. } => unreachable(endpoint, &error),
            error => OriginError::Tls { endpoint: endpoint.clone(), reason: error.to_string() },
        })
    }
}

/// Appends exactly `len` bytes to `target`.
async fn receive(stream: &Stream, target: &mut BytesMut, len: usize) -> io::Result<()> {
    let mut missing_len = len;
    while missing_len > 0 {
        match stream.try_receive(&mut (&mut *target).limit(missing_len))? {
            Some(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
            Some(received_len) => missing_len -= received_len,
            None => stream.readable().await?,
        }
    }
    Ok(())
}

fn without_tls(endpoint: &Endpoint) -> OriginError {
    let reason =
        "there is no directory of trusted CAs; install one, and name it as tls.ca_dir or X509_CERT_DIR".to_owned();
    OriginError::Tls { endpoint: endpoint.clone(), reason }
}

fn unreachable(endpoint: &Endpoint, reason: &(impl ToString + ?Sized)) -> OriginError {
    OriginError::Unreachable { endpoint: endpoint.clone(), reason: reason.to_string() }
}

fn refusal(endpoint: &Endpoint, error: ClientError) -> OriginError {
    let endpoint = endpoint.clone();
    match error {
        ClientError::Refused { code, text } => OriginError::Refused { endpoint, code: code.0, text },
        ClientError::TlsRequired => without_tls(&endpoint),
        ClientError::TlsMissing => OriginError::Tls { endpoint, reason: error.to_string() },
        ClientError::Busy { .. } | ClientError::Response(_) => {
            OriginError::Unreachable { endpoint, reason: error.to_string() }
        }
        _ => OriginError::Protocol { endpoint, what: error.to_string() },
    }
}
