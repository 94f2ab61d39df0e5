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
    protocol: SecurityProtocol,
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
        let gsi = match protocol {
            SecurityProtocol::Gsi => {
                let settings = gate.gsi_settings();
                Some(GsiServer::new(
                    settings.ok_or_else(|| Refusal::new(protocol, "it is not configured on this server"))?,
                ))
            }
            _ => None,
        };
        Ok(Self { gate: Arc::clone(gate), protocol, client: client.clone(), gsi })
    }

    #[must_use]
    pub const fn protocol(&self) -> SecurityProtocol {
        self.protocol
    }

    /// Handles a message of the client. May compute for milliseconds: do not call it on a thread that must not block.
    #[must_use]
    pub fn handle(mut self: Box<Self>, message: &[u8], now: UnixTime) -> Step {
        let host = self.client.address.ip().to_string();
        let known = Proof::of;
        let proven = match self.protocol {
            SecurityProtocol::Gsi => return self.handle_gsi(message, now),
            SecurityProtocol::Sss => match self.handle_sss(message, &host, now) {
                Ok(SssStep::Answer(answer)) => return Step::Continue(self, answer),
                Ok(SssStep::Done(identity)) => Ok(known(*identity)),
                Err(refusal) => Err(refusal),
            },
            SecurityProtocol::Ztn => {
                parse_ztn_message(message).map_err(|error| Refusal::new(self.protocol, error)).and_then(|token| {
                    let identity = self.gate.bearer_at_login(&token, &self.client, now)?;
                    let credentials = self.gate.credentials_of_bearer(token);
                    Ok(Proof { credentials, ..Proof::of(identity) })
                })
            }
            SecurityProtocol::Unix => {
                parse_unix_message(message, &host).map_err(|error| Refusal::new(self.protocol, error)).map(known)
            }
            SecurityProtocol::Host => Ok(known(Identity::of(Method::Host, &host))),
            SecurityProtocol::Tls => {
                Err(Refusal::new(self.protocol, "certificates are exchanged in the TLS handshake"))
            }
        };
        self.gsi = None;
        match proven {
            Ok(proof) => Step::Done(Box::new(proof)),
            Err(refusal) => Step::Refused(refusal),
        }
    }

    fn handle_gsi(mut self: Box<Self>, message: &[u8], now: UnixTime) -> Step {
        let refused = |reason: &dyn fmt::Display| Step::Refused(Refusal::new(SecurityProtocol::Gsi, reason));
        let Some(gsi) = &mut self.gsi else { return refused(&"the handshake is over") };
        match gsi.handle(message, now) {
            Ok(ServerStep::Continue(answer)) => Step::Continue(self, answer),
            Ok(ServerStep::Done(peer)) => match self.admit(*peer, now) {
                Ok(proof) => Step::Done(Box::new(proof)),
                Err(refusal) => Step::Refused(refusal),
            },
            Err(error) => refused(&error),
        }
    }

    fn handle_sss(&self, message: &[u8], host: &str, now: UnixTime) -> Result<SssStep, Refusal> {
        let refused = |reason: &dyn fmt::Display| Refusal::new(SecurityProtocol::Sss, reason);
        let keytab = self.gate.keytab.as_ref().ok_or_else(|| refused(&"it is not configured on this server"))?.get();
        let peer = SssPeer { address: self.client.address, host };
        verify_sss_message(message, &keytab, SSS_LIFETIME_S, &self.gate.sss_seen, &peer, &self.client.login, now)
            .map_err(|error| refused(&error))
    }

    /// The identity of a client with a valid certificate.
    fn admit(&self, peer: GsiPeer, now: UnixTime) -> Result<Proof, Refusal> {
        let protocol = SecurityProtocol::Gsi;
        let grid =
            self.gate.grid.as_ref().ok_or_else(|| Refusal::new(protocol, "it is not configured on this server"))?;
        let proof = self.gate.owner(grid, &peer.chain, protocol, &self.client, now)?;
        if let Some(reason) = &peer.delegation_refusal {
            tracing::info!(client = %self.client.address, reason, "the client did not delegate a proxy");
        }
        let credentials = self.gate.credentials_of_delegate(peer.delegated);
        Ok(Proof { session_key: Some(peer.session_key), credentials, ..proof })
    }
}
