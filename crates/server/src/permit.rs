//! Whether a client may do what it asks for. Asked before anything else is looked at, so that who may not learns nothing.

use crate::{direct::take_probe, exchange::Exchange, status::Failure};
use forebay_auth::{Credentials, Decision, Identity, Right, Token, UnixTime, without_tokens};
use forebay_cache::name_for_rules;
use forebay_engine::{Client, Engine};
use forebay_proto::ErrorCode;
use forebay_trust::ClientFacts;
use forebay_types::{Lfn, RequestPath, Side};
use std::sync::{Arc, atomic::Ordering};

/// Refused tokens of requests after which a connection ends.
const REFUSED_TOKENS_MAX: u32 = 32;

/// What one client may do, for tasks that answer without the connection.
#[derive(Clone)]
pub(crate) struct Permit {
    shared: Arc<crate::server::Shared>,
    identity: Arc<Identity>,
    client: Arc<Client>,
    /// What the client has to show origins.
    credentials: Option<Arc<Credentials>>,
}

/// What a client names and may use.
pub(crate) struct Permitted {
    pub(crate) path: RequestPath,
    /// The engine, asked by this client.
    pub(crate) engine: Engine,
    /// The client.
    pub(crate) client: Arc<Client>,
    /// What it has read in the probe file, by its own account.
    pub(crate) probe: Option<String>,
}

impl Exchange {
    /// The path that a client names, if it may do `right` with it. A token that comes with it counts instead of the login, and
    /// goes no further than to origins that are shown the credentials of clients.
    pub(crate) fn permitted(&self, payload: &[u8], right: Right) -> Result<Permitted, Failure> {
        let mut path = RequestPath::parse(payload)?;
        let probe = take_probe(&mut path);
        let permit = self.permit(&mut path)?;
        if self.shared.gate.has_rules() {
            permit.check(&path.lfn, right)?;
        }
        let engine = self.shared.engine.asked_by(permit.credentials);
        Ok(Permitted { path, engine, client: permit.client, probe })
    }

    /// As [`Exchange::permitted`], of a directory that is listed; which entries may be seen is for the permit to say, where there
    /// are rules.
    pub(crate) fn permitted_listing(&self, payload: &[u8]) -> Result<(Permitted, Option<Permit>), Failure> {
        let mut path = RequestPath::parse(payload)?;
        let probe = take_probe(&mut path);
        let permit = self.permit(&mut path)?;
        let engine = self.shared.engine.asked_by(permit.credentials.clone());
        if !self.shared.gate.has_rules() {
            return Ok((Permitted { path, engine, client: permit.client, probe }, None));
        }
        permit.check(&path.lfn, Right::List)?;
        Ok((Permitted { path, engine, client: Arc::clone(&permit.client), probe }, Some(permit)))
    }

    /// What the client may do, taking into account the token that comes with `path`, which is taken out of it.
    pub(crate) fn permit(&self, path: &mut RequestPath) -> Result<Permit, Failure> {
        let main = self.main().ok_or_else(|| Failure::internal("a request came before the login"))?;
        let (identity, client) = (Arc::clone(&main.identity), Arc::clone(&main.client));
        let mut permit =
            Permit { shared: Arc::clone(&self.shared), identity, client, credentials: main.credentials.clone() };
        let gate = &self.shared.gate;
        if !gate.has_rules() && !gate.speaks_for_clients() {
            return Ok(permit);
        }
        let token = Token::from_opaque(&path.cgi).map_err(|error| not_authorized(error.to_string()))?;
        if let Some(token) = token {
            let facts = ClientFacts {
                address: self.peer,
                login: main.client.user.clone(),
                is_tls: self.stream.plain().is_none(),
            };
            let now = UnixTime(forebay_net::clock::now_unix());
            // Without rules the token is for the origin to judge.
            let verified = if gate.has_rules() {
                gate.bearer(&token, &facts, now).map(|identity| permit.become_bearer(identity))
            } else {
                gate.check_way(&facts)
            };
            verified.map_err(|refusal| {
                self.refused_tokens.fetch_add(1, Ordering::Relaxed);
                if self.shared.refusal_log.has_room() {
                    tracing::warn!(peer = %self.peer, reason = refusal.reason, "a token was refused");
                }
                not_authorized(refusal.to_string())
            })?;
            permit.credentials = gate.credentials_of_bearer(token);
            path.cgi = without_tokens(&path.cgi).into_owned();
        }
        Ok(permit)
    }

    /// Whether so many tokens were refused on this connection that it looks like guessing.
    pub(crate) fn guesses_tokens(&self) -> bool {
        self.refused_tokens.load(Ordering::Relaxed) >= REFUSED_TOKENS_MAX
    }
}

impl Permit {
    /// Goes on as who has brought a token.
    fn become_bearer(&mut self, identity: Identity) {
        let organization = identity.organization().map(str::to_owned);
        self.client = Arc::new(Client { organization, ..(*self.client).clone() });
        self.identity = Arc::new(identity);
    }

    /// Refuses what the rules do not allow.
    pub(crate) fn check(&self, lfn: &Lfn, right: Right) -> Result<(), Failure> {
        let Some(name) = name_for_rules(lfn) else { return Err(not_authorized(format!("{right}: not authorized"))) };
        match self.decide(&name, right) {
            Some(decision) if !decision.is_allowed => {
                if self.shared.refusal_log.has_room() {
                    tracing::warn!(identity = %self.identity, path = %name, %right, %decision, "refused");
                }
                Err(not_authorized(format!("{right} {name}: not authorized")))
            }
            _ => Ok(()),
        }
    }

    /// Whether the client may do `right` with the entry `name` of the directory `lfn`.
    pub(crate) fn may(&self, right: Right, lfn: &Lfn, name: &str) -> bool {
        let entry = Lfn::parse(&format!("{lfn}/{name}")).ok();
        let Some(name) = entry.as_ref().and_then(name_for_rules) else { return false };
        self.decide(&name, right).is_none_or(|decision| decision.is_allowed)
    }

    fn decide(&self, name: &Lfn, right: Right) -> Option<Decision<'_>> {
        let now = UnixTime(forebay_net::clock::now_unix());
        self.shared.gate.decide(&self.identity, name, right, now)
    }
}

fn not_authorized(text: String) -> Failure {
    Failure { code: ErrorCode::NOT_AUTHORIZED, text: text.into(), side: Side::Authorization }
}
