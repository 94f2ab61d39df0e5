//! Makes a connection: TCP, handshake, login or bind.

use super::{
    Connection, OUTSTANDING_MAX, ServerFacts, Shared,
    inlet::{Activity, Inlet},
    outlet::Outlet,
    pending::Pending,
    reader,
    streams::Streams,
};
use crate::{OriginError, PoolOptions};
use bytes::BytesMut;
use forebay_net::ConnectError;
use forebay_proto::{Abilities, ClientError, ClientOptions, ClientPurpose, ClientSession, Peer, Progress, TlsUse};
use forebay_types::Endpoint;
use std::sync::{Arc, Mutex, atomic::AtomicBool};
use tokio::{
    net::TcpStream,
    sync::{OnceCell, Semaphore},
    time::{Instant, timeout_at},
};

/// What we tell of ourselves at login.
const LOGIN_CGI: &str = concat!("xrd.appname=forebay&xrd.rn=v", env!("CARGO_PKG_VERSION"));

/// What we can do: follow redirects that are a URL. Not: read files on the server's disk, change servers amid a read.
const ABILITIES: Abilities = Abilities::FULL_URL;

/// A socket after set-up.
pub(super) struct SetUp {
    pub(super) socket: Arc<TcpStream>,
    pub(super) inlet: Inlet,
    pub(super) peer: Peer,
}

/// Opens a session with `endpoint` within the connect timeout.
///
/// # Errors
/// `Unreachable` when there is no server or it does not answer in time, `Refused` with its own words, `Protocol` when it
/// wants what this release cannot do.
pub(crate) async fn dial(endpoint: &Endpoint, options: &PoolOptions) -> Result<Arc<Connection>, OriginError> {
    let purpose =
        ClientPurpose::Login { pid: std::process::id(), username: options.username.clone(), cgi: LOGIN_CGI.to_owned() };
    let activity = Arc::new(Activity::new());
    let SetUp { socket, inlet, peer } = set_up(endpoint, purpose, &activity, options).await?;
    let shared = Arc::new(Shared {
        endpoint: endpoint.clone(),
        pending: Pending::default(),
        outlet: Outlet::new(Arc::clone(&socket)),
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
    let streams_max = if is_manager { 1 } else { options.streams };
    let address = socket.peer_addr().map_err(|error| unreachable(endpoint, &error))?;
    tracing::debug!(%endpoint, is_manager, page_reads = peer.supports_page_reads(), "connected to an origin");
    Ok(Arc::new(Connection {
        streams: Streams::new(&shared, address, peer.session_id, streams_max, options),
        shared,
        permits: Arc::new(Semaphore::new(OUTSTANDING_MAX)),
        facts: ServerFacts { is_manager },
        page_reads: AtomicBool::new(peer.supports_page_reads()),
        vector_reads: AtomicBool::new(true),
        vector_limits: OnceCell::new(),
    }))
}

/// Connects to `endpoint` and goes through set-up within the connect timeout.
pub(super) async fn set_up(
    endpoint: &Endpoint,
    purpose: ClientPurpose,
    activity: &Arc<Activity>,
    options: &PoolOptions,
) -> Result<SetUp, OriginError> {
    let deadline = Instant::now() + options.connect_timeout;
    let socket = forebay_net::connect(endpoint, options.connect_timeout).await.map_err(|error| {
        let reason = match error {
            ConnectError::Resolve { source, .. } => format!("its name cannot be resolved: {source}"),
            ConnectError::Refused { address, source, .. } => format!("{address}: {source}"),
            ConnectError::TimedOut { limit, .. } => format!("no answer within {limit:?}"),
        };
        OriginError::Unreachable { endpoint: endpoint.clone(), reason }
    })?;
    let session = ClientSession::new(ClientOptions { purpose, ability: ABILITIES, tls: TlsUse::Never });
    let handshake = exchange(endpoint, Arc::new(socket), session, activity);
    timeout_at(deadline, handshake).await.unwrap_or_else(|_| {
        let reason = format!("it accepts connections but did not log us in within {:?}", options.connect_timeout);
        Err(OriginError::Unreachable { endpoint: endpoint.clone(), reason })
    })
}

async fn exchange(
    endpoint: &Endpoint,
    socket: Arc<TcpStream>,
    mut session: ClientSession,
    activity: &Arc<Activity>,
) -> Result<SetUp, OriginError> {
    let mut inlet = Inlet::new(Arc::clone(&socket), Arc::clone(activity));
    let mut output = Vec::new();
    let mut input = BytesMut::new();
    session.start(&mut output);
    loop {
        if !output.is_empty() {
            let sent = forebay_net::send_all(&socket, &output).await;
            sent.map_err(|error| unreachable(endpoint, &error))?;
            output.clear();
        }
        match session.handle_input(&input, &mut output).map_err(|error| refusal(endpoint, error))? {
            Progress::NeedMore { at_least } => {
                // Exactly what set-up needs, so that nothing that follows it is taken.
                let missing_len = at_least.saturating_sub(input.len());
                inlet.append(&mut input, missing_len).await.map_err(|error| unreachable(endpoint, &error))?;
            }
            Progress::Continue { consumed } => drop(input.split_to(consumed)),
            Progress::StartTls { .. } => return Err(refusal(endpoint, ClientError::TlsRequired)),
            Progress::Ready { .. } => return Ok(SetUp { socket, inlet, peer: *session.peer() }),
        }
    }
}

fn unreachable(endpoint: &Endpoint, reason: &(impl ToString + ?Sized)) -> OriginError {
    OriginError::Unreachable { endpoint: endpoint.clone(), reason: reason.to_string() }
}

fn refusal(endpoint: &Endpoint, error: ClientError) -> OriginError {
    let endpoint = endpoint.clone();
    match error {
        ClientError::Refused { code, text } => OriginError::Refused { endpoint, code: code.0, text },
        ClientError::Busy { .. } | ClientError::Response(_) => {
            OriginError::Unreachable { endpoint, reason: error.to_string() }
        }
        _ => OriginError::Protocol { endpoint, what: error.to_string() },
    }
}
