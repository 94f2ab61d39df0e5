//! Makes a connection: TCP, handshake, TLS, login.

use super::{
    connection::{Connection, Link, OUTSTANDING_MAX, ServerFacts},
    frames,
    login::Login,
    pool::Destination,
    signatures,
    socket_reader::{Activity, SocketReader},
};
use crate::{options::PoolOptions, refusal::refusal_kind};
use bytes::{BufMut, BytesMut};
use forebay_auth::RequestSigner;
use forebay_net::{Stream, TlsConnector, TlsError};
use forebay_origin::{OriginError, reach};
use forebay_proto::{Abilities, ClientError, ClientOptions, ClientPurpose, ClientSession, Peer, Progress, TlsUse};
use forebay_types::Endpoint;
use std::{io, sync::Arc};
use tokio::time::{Instant, timeout_at};

/// The client's name and version, as sent at login.
const LOGIN_CGI: &str = concat!("xrd.appname=forebay&xrd.rn=v", env!("CARGO_PKG_VERSION"));

/// Redirects to a URL are followed. Not announced: reading files on the server's own disk, changing servers during a read.
const ABILITIES: Abilities = Abilities::FULL_URL;

#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    pub(crate) options: PoolOptions,
    /// `None` when connections cannot be encrypted.
    pub(crate) tls: Option<TlsConnector>,
}

/// A socket after login.
struct LoggedIn {
    stream: Stream,
    peer: Peer,
    /// `None` where the server wants no signatures.
    signer: Option<RequestSigner>,
}

impl Dialer {
    /// Opens a session within the connect timeout.
    ///
    /// # Errors
    /// `Unreachable` when there is no server or it does not answer in time, `Refused` with its text, `Tls` when the
    /// connection is not safe, `Authentication` when it does not accept our credentials, `Protocol` when it wants something
    /// that this release cannot do.
    pub(crate) async fn dial(&self, to: &Destination) -> Result<Arc<Connection>, OriginError> {
        let endpoint = &to.endpoint;
        let LoggedIn { stream, peer, signer } = self.set_up(to).await?;
        let address = stream.peer_addr().map_err(|error| unreachable(endpoint, &error))?;
        let facts = ServerFacts {
            is_manager: peer.is_manager(),
            is_tls: stream.tls().is_some(),
            address: address.ip().to_canonical(),
        };
        let (page_reads, version) = (peer.supports_page_reads(), stream.tls().map(|facts| facts.version));
        tracing::debug!(%endpoint, is_manager = facts.is_manager, page_reads, tls = version, "connected to an origin");
        let socket = Arc::new(stream);
        let activity = Arc::new(Activity::new());
        let reader = SocketReader::new(Arc::clone(&socket), Arc::clone(&activity));
        let link = Link::new(endpoint.clone(), socket, signer, activity);
        link.spawn(frames::run(reader, Arc::clone(&link)));
        link.spawn(Arc::clone(&link).send_queued());
        Ok(Arc::new(Connection::new(link, OUTSTANDING_MAX, facts, page_reads)))
    }

    /// Connects and logs in within the connect timeout.
    async fn set_up(&self, to: &Destination) -> Result<LoggedIn, OriginError> {
        let endpoint = &to.endpoint;
        let limit = self.options.connect_timeout;
        // One limit for name resolution, TCP, TLS and login together.
        let deadline = Instant::now() + limit;
        let socket = reach(endpoint, limit, &self.options.own, to.redirect.as_ref()).await?;
        let tls = match (to.tls, &self.tls) {
            (TlsUse::Always, None) => return Err(without_tls(endpoint)),
            // Servers without TLS can still be used; one that requires it is reported by `refusal`.
            (TlsUse::WhenDemanded, None) => TlsUse::Never,
            (tls, _) => tls,
        };
        let username = self.options.username.clone();
        let purpose = ClientPurpose::Login { pid: std::process::id(), username, cgi: LOGIN_CGI.to_owned() };
        let session = ClientSession::new(ClientOptions { purpose, ability: ABILITIES, tls });
        let handshake = self.exchange(to, socket.into(), session);
        timeout_at(deadline, handshake).await.unwrap_or_else(|_| {
            let reason = format!("it accepts connections but did not log us in within {limit:?}");
            Err(unreachable(endpoint, &reason))
        })
    }

    async fn exchange(
        &self,
        to: &Destination,
        mut stream: Stream,
        mut session: ClientSession,
    ) -> Result<LoggedIn, OriginError> {
        let endpoint = &to.endpoint;
        let mut input = BytesMut::new();
        let mut output = Vec::new();
        let mut login = Login::new(to);
        session.start(&mut output);
        loop {
            if !output.is_empty() {
                stream.send_all(&output).await.map_err(|error| unreachable(endpoint, &error))?;
                output.clear();
            }
            let mut progress = session.handle_input(&input, &mut output).map_err(|error| refusal(endpoint, error))?;
            if let Progress::StartTls { consumed } = progress {
                drop(input.split_to(consumed));
                self.start_tls(endpoint, &mut stream).await?;
                progress = session.handle_tls_started(&mut output);
            }
            match progress {
                Progress::NeedMore { at_least } => {
                    // Exactly as much as set-up needs: the bytes after it belong to the reading task, or to TLS.
                    let missing_len = at_least.saturating_sub(input.len());
                    receive(&stream, &mut input, missing_len).await.map_err(|error| unreachable(endpoint, &error))?;
                }
                Progress::Continue { consumed } | Progress::StartTls { consumed } => drop(input.split_to(consumed)),
                Progress::Authenticate { consumed } => {
                    drop(input.split_to(consumed));
                    login.answer(&mut session, &stream, &mut output).await?;
                }
                Progress::Ready { .. } => {
                    let signer = signatures::signer(session.signing(), login.finish()?);
                    return Ok(LoggedIn { stream, peer: *session.peer(), signer });
                }
            }
        }
    }

    async fn start_tls(&self, endpoint: &Endpoint, stream: &mut Stream) -> Result<(), OriginError> {
        let connector = self.tls.as_ref().ok_or_else(|| without_tls(endpoint))?;
        stream.connect_tls(connector, endpoint.host()).await.map(drop).map_err(|error| match error {
            // A broken connection may be retried; a certificate that is not accepted stays the same.
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
        ClientError::Refused { code, text } => OriginError::Refused { endpoint, kind: refusal_kind(code), text },
        ClientError::TlsRequired => without_tls(&endpoint),
        ClientError::TlsMissing => OriginError::Tls { endpoint, reason: error.to_string() },
        // A peer that breaks off or answers nonsense during set-up may be restarting: another try can help.
        ClientError::Busy { .. } | ClientError::Response(_) => {
            OriginError::Unreachable { endpoint, reason: error.to_string() }
        }
        ClientError::NotXrootd | ClientError::Redirected(_) => {
            OriginError::Protocol { endpoint, what: error.to_string() }
        }
    }
}
