//! One client's attempt to prove who it is.

use crate::gate::{Gate, SSS_LIFETIME_S};
use forebay_auth::{
    Credentials, Identity, Method, SecurityProtocol, SessionKey, SssPeer, SssStep, UnixTime,
    gsi::{GsiPeer, GsiServer, ServerStep},
    parse_unix_message, parse_ztn_message, verify_sss_message,
};
use std::{fmt, net::SocketAddr, sync::Arc};

/// What is known of a client before it has proven anything.
#[derive(Clone, Debug)]
pub struct ClientFacts {
    /// Where its connection comes from.
    pub address: SocketAddr,
    /// The user name that it logged in with.
    pub login: String,
    /// Whether the connection is encrypted.
    pub is_tls: bool,
}

/// One client's attempt. Each of its messages goes to [`Attempt::handle`].
pub struct Attempt {
    gate: Arc<Gate>,
    protocol: SecurityProtocol,
    client: ClientFacts,
    gsi: Option<GsiServer>,
}

pub enum Step {
    /// The client is sent this, and its next message goes to the attempt.
    Continue(Box<Attempt>, Vec<u8>),
    /// The client is who it says.
    Done(Box<Proof>),
    /// The client is refused.
    Refused(Refusal),
}

/// What a client has proven.
#[derive(Debug)]
pub struct Proof {
    pub identity: Identity,
    /// The key that it shares with this server, for signed requests; of logins by `gsi` only.
    pub session_key: Option<SessionKey>,
    /// What it has handed to us to show origins, where that is of use.
    pub credentials: Option<Arc<Credentials>>,
    /// Why some of the attributes that it has shown are not believed; for the log.
    pub unbelieved: Vec<String>,
}

impl Proof {
    /// Who a client is, and nothing else.
    pub(crate) const fn of(identity: Identity) -> Self {
        Self { identity, session_key: None, credentials: None, unbelieved: Vec::new() }
    }
}

/// Why a client was refused. Holds nothing that is secret.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{protocol}: {reason}")]
pub struct Refusal {
    /// The protocol that it tried.
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
                Some(GsiServer::new(settings.ok_or_else(|| Refusal::new(protocol, "it is not set up here"))?))
            }
            _ => None,
        };
        Ok(Self { gate: Arc::clone(gate), protocol, client: client.clone(), gsi })
    }

    /// The protocol that is tried.
    #[must_use]
    pub const fn protocol(&self) -> SecurityProtocol {
        self.protocol
    }

    /// Takes a message of the client. May compute for milliseconds: not on a thread that must not wait.
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
            SecurityProtocol::Tls => Err(Refusal::new(self.protocol, "certificates are shown in the handshake")),
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
        let keytab = self.gate.keytab.as_ref().ok_or_else(|| refused(&"it is not set up here"))?.get();
        let peer = SssPeer { address: self.client.address, host };
        verify_sss_message(message, &keytab, SSS_LIFETIME_S, &self.gate.sss_seen, &peer, &self.client.login, now)
            .map_err(|error| refused(&error))
    }

    /// Who a client is whose certificate is good.
    fn admit(&self, peer: GsiPeer, now: UnixTime) -> Result<Proof, Refusal> {
        let protocol = SecurityProtocol::Gsi;
        let grid = self.gate.grid.as_ref().ok_or_else(|| Refusal::new(protocol, "it is not set up here"))?;
        let proof = self.gate.owner(grid, &peer.chain, protocol, &self.client, now)?;
        if let Some(reason) = &peer.delegation_refusal {
            tracing::info!(client = %self.client.address, reason, "a client delegates no proxy");
        }
        let credentials = self.gate.credentials_of_delegate(peer.delegated);
        Ok(Proof { session_key: Some(peer.session_key), credentials, ..proof })
    }
}
