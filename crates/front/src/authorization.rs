//! Authorization of requests. It comes before everything else, so that a refused client learns nothing.

use crate::{
    failure::{Failure, FailureKind},
    front::Front,
};
use forebay_auth::{Decision, Right, Token, UnixTime};
use forebay_cache::name_for_rules;
use forebay_engine::{Caller, Client, Delegation, OpenRequest};
use forebay_trust::ClientFacts;
use forebay_types::{Lfn, Side};
use std::{net::SocketAddr, sync::Arc};

/// The connection that a request came over.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    pub peer: SocketAddr,
    pub is_tls: bool,
}

impl Front {
    /// Whether tokens of requests are evaluated here. Otherwise they pass through to the origin like other parameters.
    pub fn takes_tokens(&self) -> bool {
        self.gate.has_rules() || self.gate.uses_client_credentials()
    }

    /// The caller of `request`, if it may do `right` with the name. A token of the request replaces the identity and the
    /// credentials of the login, if the client may use tokens; otherwise it does not count.
    ///
    /// # Errors
    /// [`FailureKind::TokenRefused`], [`FailureKind::NotAuthorized`].
    pub fn admit(
        &self,
        request: &OpenRequest,
        right: Right,
        login: &Arc<Caller>,
        connection: Connection,
    ) -> Result<Arc<Caller>, Failure> {
        let caller = match &request.token {
            Some(token) if self.gate.permits_tokens(connection.peer) => {
                Arc::new(self.bearer(login, token, connection)?)
            }
            // The common case costs one reference count.
            _ => Arc::clone(login),
        };
        self.authorize(&caller, &request.lfn, right)?;
        Ok(caller)
    }

    fn bearer(&self, login: &Caller, token: &Token, connection: Connection) -> Result<Caller, Failure> {
        let Connection { peer, is_tls } = connection;
        let facts = ClientFacts { address: peer, login: login.client.user.clone(), is_tls };
        let verified = if self.gate.has_rules() {
            self.gate.bearer(token, &facts, UnixTime(forebay_net::clock::now_unix()))
        } else {
            // Without rules the token is for the origin to judge.
            self.gate.require_secure_transport(&facts).map(|()| login.identity.clone())
        };
        let identity = verified.map_err(|refusal| {
            if self.refusal_log.has_room() {
                tracing::warn!(%peer, reason = refusal.reason, "a token was refused");
            }
            Failure::new(FailureKind::TokenRefused, Side::Authorization, refusal.to_string())
        })?;
        // The token decides in whose quota files are kept.
        let organization = identity.organization().map(str::to_owned);
        Ok(Caller {
            client: Arc::new(Client { organization, ..Client::clone(&login.client) }),
            identity,
            delegation: Delegation::Client(self.gate.credentials_of_bearer(token.clone())),
        })
    }

    /// Refuses requests that the rules do not allow. Without rules everything is allowed.
    fn authorize(&self, caller: &Caller, lfn: &Lfn, right: Right) -> Result<(), Failure> {
        if !self.gate.has_rules() {
            return Ok(());
        }
        // No rule can have been meant for a path without a name.
        let Some(name) = name_for_rules(lfn) else {
            return Err(Failure::not_authorized(format!("{right}: not authorized")));
        };
        match self.decide(caller, &name, right) {
            Some(decision) if !decision.is_allowed => {
                // Clients can cause refusals at any rate.
                if self.refusal_log.has_room() {
                    tracing::warn!(identity = %caller.identity, path = %name, %right, %decision, "refused");
                }
                Err(Failure::not_authorized(format!("{right} {name}: not authorized")))
            }
            _ => Ok(()),
        }
    }

    /// Whether the rules allow `right` on the entry `name` of `directory`.
    pub fn allows_entry(&self, caller: &Caller, right: Right, directory: &Lfn, name: &str) -> bool {
        let entry = Lfn::parse(&format!("{directory}/{name}")).ok();
        // A name that rules cannot express is not shown: no grant can have been meant for it.
        let Some(name) = entry.as_ref().and_then(name_for_rules) else { return false };
        self.decide(caller, &name, right).is_none_or(|decision| decision.is_allowed)
    }

    fn decide(&self, caller: &Caller, name: &Lfn, right: Right) -> Option<Decision<'_>> {
        let now = UnixTime(forebay_net::clock::now_unix());
        self.gate.decide(&caller.identity, name, right, now)
    }
}
