//! Whether a client may do what it asks for. Asked before anything else is looked at, so that who may not learns nothing.

use crate::{exchange::Exchange, status::Failure};
use forebay_auth::{Identity, Right, Token, UnixTime, without_tokens};
use forebay_cache::ForwardedPath;
use forebay_proto::ErrorCode;
use forebay_trust::ClientFacts;
use forebay_types::{Lfn, RequestPath, Side};
use std::{borrow::Cow, sync::Arc};

/// What one client may do, for tasks that answer without the connection.
#[derive(Clone)]
pub(crate) struct Permit {
    shared: Arc<crate::server::Shared>,
    identity: Arc<Identity>,
}

impl Exchange {
    /// The path that a client names, if it may do `right` with it. A token that comes with it counts instead of the login, and
    /// goes no further.
    pub(crate) fn permitted(&self, payload: &[u8], right: Right) -> Result<RequestPath, Failure> {
        let mut path = RequestPath::parse(payload)?;
        if self.shared.gate.has_rules() {
            self.permit(&mut path)?.check(&path.lfn, right)?;
        }
        Ok(path)
    }

    /// As [`Exchange::permitted`], of a directory that is listed; which entries may be seen is for the permit to say, where there
    /// are rules.
    pub(crate) fn permitted_listing(&self, payload: &[u8]) -> Result<(RequestPath, Option<Permit>), Failure> {
        let mut path = RequestPath::parse(payload)?;
        if !self.shared.gate.has_rules() {
            return Ok((path, None));
        }
        let permit = self.permit(&mut path)?;
        permit.check(&path.lfn, Right::List)?;
        Ok((path, Some(permit)))
    }

    /// What the client may do, taking into account the token that comes with `path`, which is taken out of it.
    pub(crate) fn permit(&self, path: &mut RequestPath) -> Result<Permit, Failure> {
        let main = self.main().ok_or_else(|| Failure::internal("a request came before the login"))?;
        let mut permit = Permit { shared: Arc::clone(&self.shared), identity: Arc::clone(&main.identity) };
        let token = Token::from_opaque(&path.cgi).map_err(|error| not_authorized(error.to_string()))?;
        if let Some(token) = token {
            let facts = ClientFacts {
                address: self.peer,
                login: main.client.user.clone(),
                is_tls: self.stream.plain().is_none(),
            };
            let now = UnixTime(forebay_net::clock::now_unix());
            let identity = self.shared.gate.bearer(&token, &facts, now).map_err(|refusal| {
                tracing::warn!(peer = %self.peer, reason = refusal.reason, "a token was refused");
                not_authorized(refusal.to_string())
            })?;
            permit.identity = Arc::new(identity);
            path.cgi = without_tokens(&path.cgi).into_owned();
        }
        Ok(permit)
    }
}

impl Permit {
    /// Refuses what the rules do not allow.
    pub(crate) fn check(&self, lfn: &Lfn, right: Right) -> Result<(), Failure> {
        let name = name_for_rules(lfn);
        let now = UnixTime(forebay_net::clock::now_unix());
        match self.shared.gate.decide(&self.identity, &name, right, now) {
            Some(decision) if !decision.is_allowed => {
                tracing::warn!(identity = %self.identity, path = %name, %right, %decision, "refused");
                Err(not_authorized(format!("{right} {name}: not authorized")))
            }
            _ => Ok(()),
        }
    }

    /// Whether the client may learn that there is an entry `name` in the directory `lfn`.
    pub(crate) fn may_see(&self, lfn: &Lfn, name: &str) -> bool {
        let Ok(entry) = Lfn::parse(&format!("{lfn}/{name}")) else { return false };
        let now = UnixTime(forebay_net::clock::now_unix());
        let decision = self.shared.gate.decide(&self.identity, &name_for_rules(&entry), Right::Stat, now);
        decision.is_none_or(|decision| decision.is_allowed)
    }
}

/// The name by which rules know a file: however a client spells the path to an origin that it names, it is
/// `/root:/HOST:PORT/path`.
fn name_for_rules(lfn: &Lfn) -> Cow<'_, Lfn> {
    let Ok(Some(forwarded)) = ForwardedPath::parse(lfn.as_str()) else { return Cow::Borrowed(lfn) };
    let name = Lfn::parse(&format!("/root:/{}{}", forwarded.origin, forwarded.lfn));
    name.map_or(Cow::Borrowed(lfn), Cow::Owned)
}

fn not_authorized(text: String) -> Failure {
    Failure { code: ErrorCode::NOT_AUTHORIZED, text: text.into(), side: Side::Authorization }
}
