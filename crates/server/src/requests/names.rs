//! Reads the names in requests, and has them authorized.

use crate::{
    base::{handles::HandlePlaces, status::Failure},
    requests::context::ConnectionContext,
};
use forebay_auth::{Right, Token, without_tokens};
use forebay_engine::{Caller, Engine, OpenRequest, Redirect, Redirects};
use forebay_front::{Backend, Connection, FailureKind, Front};
use forebay_proto::{ErrorCode, ReplyTo, StreamId};
use forebay_types::{RequestPath, Side};
use std::sync::{Arc, atomic::Ordering};

/// Refused tokens of requests after which a connection ends.
const REFUSED_TOKENS_MAX: u32 = 32;

/// A name that the client may use.
pub(crate) struct Permitted {
    pub(crate) request: OpenRequest,
    pub(crate) caller: Arc<Caller>,
}

impl ConnectionContext {
    /// The name in a request, if the client may do `right` with it.
    pub(crate) fn permitted(&self, payload: &[u8], right: Right) -> Result<Permitted, Failure> {
        self.permitted_by(payload, |front, request, login, connection| front.admit(request, right, login, connection))
    }

    /// As [`ConnectionContext::permitted`]. If the client may not, the request is answered.
    pub(crate) fn permitted_or_refused(
        &mut self,
        stream_id: StreamId,
        payload: &[u8],
        right: Right,
    ) -> Option<Permitted> {
        self.permitted(payload, right).inspect_err(|failure| self.fail(stream_id, failure)).ok()
    }

    /// The name in a request, if the client may do `right` with it, and the cache to answer from. Otherwise the request is
    /// answered: refused, or redirected by a manager, which serves no files.
    pub(crate) fn at_cache(
        &mut self,
        stream_id: StreamId,
        payload: &[u8],
        right: Right,
    ) -> Option<(Engine, Permitted)> {
        let permitted = self.permitted_or_refused(stream_id, payload, right)?;
        Some((self.cache_for(stream_id, Some(&permitted))?, permitted))
    }

    /// As [`ConnectionContext::at_cache`], for several names. One refused name refuses the request, and a manager redirects it
    /// by the first one.
    pub(crate) fn all_at_cache<'a>(
        &mut self,
        stream_id: StreamId,
        payloads: impl Iterator<Item = &'a [u8]>,
        right: Right,
    ) -> Option<(Engine, Vec<Permitted>)> {
        let permitted: Option<Vec<Permitted>> =
            payloads.map(|payload| self.permitted_or_refused(stream_id, payload, right)).collect();
        let permitted = permitted?;
        Some((self.cache_for(stream_id, permitted.first())?, permitted))
    }

    fn cache_for(&mut self, stream_id: StreamId, permitted: Option<&Permitted>) -> Option<Engine> {
        match (&self.state.front.backend, permitted) {
            (Backend::Cache(engine), _) => return Some(engine.clone()),
            (Backend::Manager(manager), Some(Permitted { request, .. })) => {
                let redirects = self.main().map_or(Redirects::Never, |main| main.redirects);
                let redirect = manager.locate(request, redirects).map_err(Failure::from);
                self.conclude(stream_id, redirect, |reply, redirect, out| redirect_to(&redirect, reply, out));
            }
            (Backend::Manager(_), None) => {
                self.fail(stream_id, &Failure::client(ErrorCode::ARG_MISSING, "the request names no path"));
            }
        }
        None
    }

    /// The name in an open for reading, and the places of the open file, if the client may open it now.
    pub(crate) fn permitted_open(&self, payload: &[u8]) -> Result<(Permitted, HandlePlaces), Failure> {
        let permitted = self.permitted_by(payload, Front::admit_open)?;
        // Before the open, so that a refused one costs the origin nothing.
        let Some(places) = self.places_of_handle() else {
            let (failure, Permitted { request, caller }) = (too_many_files(), permitted);
            self.state.front.report_refusal(&caller.client, &request.lfn, &failure);
            return Err(failure.into());
        };
        Ok((permitted, places))
    }

    fn permitted_by(
        &self,
        payload: &[u8],
        admit: impl FnOnce(&Front, &OpenRequest, &Arc<Caller>, Connection) -> Result<Arc<Caller>, forebay_front::Failure>,
    ) -> Result<Permitted, Failure> {
        let main = self.main().ok_or_else(|| Failure::internal("a request came before the login"))?;
        let front = &self.state.front;
        // A malformed name is reported before the authorization: it reveals nothing.
        let request = read_request(payload, front.takes_tokens())?;
        let connection = Connection { peer: self.peer, is_tls: self.stream.plain().is_none() };
        let caller = admit(front, &request, &main.caller, connection).inspect_err(|failure| {
            if failure.kind == FailureKind::TokenRefused {
                self.refused_tokens.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        Ok(Permitted { request, caller })
    }

    /// Whether so many tokens were refused on this connection that the client seems to guess.
    pub(crate) fn guesses_tokens(&self) -> bool {
        self.refused_tokens.load(Ordering::Relaxed) >= REFUSED_TOKENS_MAX
    }
}

/// Redirects a client. A redirect to a URL changes the path, which older clients cannot follow.
pub(crate) fn redirect_to(redirect: &Redirect, reply: ReplyTo, out: &mut Vec<u8>) {
    match &redirect.url {
        Some(url) => reply.redirect_to_url(url, out),
        None => reply.redirect_to_host(&redirect.server, "", out),
    }
}

/// The refusal of an open by a client that has as many files open as it may have.
pub(crate) fn too_many_files() -> forebay_front::Failure {
    let text = "this client has too many files open: close some, or try again later";
    forebay_front::Failure::new(FailureKind::Overloaded, Side::Client, text)
}

/// Prefix of the keys of opaque data that are for this server alone.
const OWN_KEYS: &str = "forebay.";

/// Key of the contents of the probe file.
const PROBE_KEY: &str = "forebay.probe";

/// Reads a name and its opaque data. Parameters for this server alone are taken out, so that neither rules nor origins see
/// them; tokens too if they are evaluated here, because only origins that are asked in the client's name may get them.
fn read_request(payload: &[u8], takes_tokens: bool) -> Result<OpenRequest, Failure> {
    let mut path = RequestPath::parse(payload)?;
    let mut probe = None;
    // Almost no request has such parameters.
    if path.cgi.contains(OWN_KEYS) {
        probe = path.cgi_value(PROBE_KEY).map(str::to_owned);
        let others = path.cgi.split('&').filter(|pair| !pair.starts_with(OWN_KEYS));
        path.cgi = others.collect::<Vec<_>>().join("&");
    }
    let mut token = None;
    if takes_tokens {
        token =
            Token::from_opaque(&path.cgi).map_err(|error| forebay_front::Failure::not_authorized(error.to_string()))?;
        if token.is_some() {
            path.cgi = without_tokens(&path.cgi).into_owned();
        }
    }
    Ok(OpenRequest { token, probe, ..OpenRequest::from(path) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_for_this_server_stay_here() {
        for (cgi, probe, rest) in [
            ("a=1&forebay.probe=ff&b", Some("ff"), "a=1&b"),
            ("forebay.probe=ff", Some("ff"), ""),
            ("forebay.other=1&x.forebay.probe=2", None, "x.forebay.probe=2"),
            ("a=1", None, "a=1"),
        ] {
            let request = read_request(format!("/f?{cgi}").as_bytes(), false).unwrap();
            assert_eq!((request.probe.as_deref(), request.parameters.as_str()), (probe, rest), "{cgi}");
        }
    }

    #[test]
    fn tokens_are_taken_out_only_where_they_are_evaluated() {
        let payload = b"/f?a=1&authz=Bearer%20abc.def.ghi&b=2";
        let request = read_request(payload, false).unwrap();
        assert!(request.token.is_none() && request.origin_parameters.contains("authz="));
        let request = read_request(payload, true).unwrap();
        assert!(request.token.is_some());
        assert_eq!((request.parameters.as_str(), request.origin_parameters.as_str()), ("a=1&b=2", "a=1&b=2"));
    }
}
