//! One client's authentication attempt.

use crate::gate::{Gate, SSS_LIFETIME_S};
use forebay_auth::{
    Credentials, Identity, Method, SecurityProtocol, SessionKey, SssPeer, SssStep, UnixTime,
    gsi::{GsiPeer, GsiServer, ServerStep},
    parse_unix_message, parse_ztn_message, verify_sss_message,
};
use std::{fmt, net::SocketAddr, sync::Arc};

/// Facts about a client before authentication.
#[derive(Clone, Debug)]
pub struct ClientFacts {
    pub address: SocketAddr,
    /// User name of the login request; unverified.
    pub login: String,
    pub is_tls: bool,
}

/// One client's authentication attempt. Pass each of its messages to [`Attempt::handle`].
pub struct Attempt {
    gate: Arc<Gate>,
    pub protocol: SecurityProtocol,
    client: ClientFacts,
    gsi: Option<GsiServer>,
}

/// The result of one message of a client.
pub enum Step {
    /// Send this to the client, and pass its next message to the attempt.
    Continue(Box<Attempt>, Vec<u8>),
    Done(Box<Proof>),
    Refused(Refusal),
}

/// The result of a successful authentication.
#[derive(Debug)]
pub struct Proof {
    pub identity: Identity,
    /// Session key for signed requests; only of `gsi` logins.
    pub session_key: Option<SessionKey>,
    /// Credentials delegated by the client for origins, if any rule uses them.
    pub credentials: Option<Arc<Credentials>>,
    /// Why some of its attributes were rejected; for the log.
    pub rejected_attributes: Vec<String>,
}

impl Proof {
    pub(crate) const fn of(identity: Identity) -> Self {
        Self { identity, session_key: None, credentials: None, rejected_attributes: Vec::new() }
    }
}

/// Why a client was refused. Contains no secrets.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{protocol}: {reason}")]
pub struct Refusal {
    pub protocol: SecurityProtocol,
    pub reason: String,
}

impl Refusal {
    pub(crate) fn new(protocol: SecurityProtocol, reason: impl fmt::Display) -> Self {
        let (reason, name) = (reason.to_string(), format!("{protocol}: "));
        Self { protocol, reason: reason.strip_prefix(&name).unwrap_or(&reason).to_owned() }
    }
}

impl Attempt {
    pub(crate) fn new(gate: &Arc<Gate>, protocol: SecurityProtocol, client: &ClientFacts) -> Result<Self, Refusal> {
        let gsi = if protocol == SecurityProtocol::Gsi {
            Some(GsiServer::new(gate.gsi_settings().ok_or_else(|| not_configured(protocol))?))
        } else {
            None
        };
        Ok(Self { gate: Arc::clone(gate), protocol, client: client.clone(), gsi })
    }

    /// Handles a message of the client. May compute for milliseconds: do not call it on a thread that must not block.
    #[must_use]
    pub fn handle(self: Box<Self>, message: &[u8], now: UnixTime) -> Step {
        self.examine(message, now).unwrap_or_else(Step::Refused)
    }

    fn examine(mut self: Box<Self>, message: &[u8], now: UnixTime) -> Result<Step, Refusal> {
        let (protocol, host) = (self.protocol, self.client.address.ip().to_string());
        let refused = |error: &dyn fmt::Display| Refusal::new(protocol, error);
        let proof = match protocol {
            SecurityProtocol::Gsi => {
                let gsi = self.gsi.as_mut().ok_or_else(|| refused(&"the handshake is over"))?;
                match gsi.handle(message, now).map_err(|error| refused(&error))? {
                    ServerStep::Continue(answer) => return Ok(Step::Continue(self, answer)),
                    ServerStep::Done(peer) => self.admit(*peer, now)?,
                }
            }
            SecurityProtocol::Sss => {
                let keytab = self.gate.keytab.as_ref().ok_or_else(|| not_configured(protocol))?.get();
                let peer = SssPeer { address: self.client.address, host: &host };
                let (seen, login) = (&self.gate.sss_seen, &self.client.login);
                let step = verify_sss_message(message, &keytab, SSS_LIFETIME_S, seen, &peer, login, now);
                match step.map_err(|error| refused(&error))? {
                    SssStep::Answer(answer) => return Ok(Step::Continue(self, answer)),
                    SssStep::Done(identity) => Proof::of(*identity),
                }
            }
            SecurityProtocol::Ztn => {
                let token = parse_ztn_message(message).map_err(|error| refused(&error))?;
                let identity = self.gate.bearer_at_login(&token, &self.client, now)?;
                Proof { credentials: self.gate.credentials_of_bearer(token), ..Proof::of(identity) }
            }
            SecurityProtocol::Unix => Proof::of(parse_unix_message(message, &host).map_err(|error| refused(&error))?),
            SecurityProtocol::Host => Proof::of(Identity::of(Method::Host, &host)),
            SecurityProtocol::Tls => return Err(refused(&"certificates are exchanged in the TLS handshake")),
        };
        Ok(Step::Done(Box::new(proof)))
    }

    /// The identity of a client with a valid certificate.
    fn admit(&self, peer: GsiPeer, now: UnixTime) -> Result<Proof, Refusal> {
        let protocol = SecurityProtocol::Gsi;
        let grid = self.gate.grid.as_ref().ok_or_else(|| not_configured(protocol))?;
        let proof = self.gate.owner(grid, &peer.chain, protocol, &self.client, now)?;
        if let Some(Err(reason)) = &peer.delegated {
            tracing::info!(client = %self.client.address, reason, "the client did not delegate a proxy");
        }
        let proxy = peer.delegated.and_then(Result::ok).map(Arc::new);
        let credentials = proxy.and_then(|proxy| self.gate.origins.of_client(Some(proxy), None));
        Ok(Proof { session_key: Some(peer.session_key), credentials, ..proof })
    }
}

fn not_configured(protocol: SecurityProtocol) -> Refusal {
    Refusal::new(protocol, "it is not configured on this server")
}
