//! Authorization of the names in requests.

use crate::{exchange::Exchange, status::Failure};
use forebay_auth::{Right, Token, without_tokens};
use forebay_engine::Engine;
use forebay_front::{Caller, Connection, FailureKind};
use forebay_types::RequestPath;
use std::sync::atomic::Ordering;

/// Refused tokens of requests after which a connection ends.
const REFUSED_TOKENS_MAX: u32 = 32;

/// A name that the client may use.
pub(crate) struct Permitted {
    pub(crate) path: RequestPath,
    /// The engine, asked by the caller.
    pub(crate) engine: Engine,
    pub(crate) caller: Caller,
    /// The contents of the probe file, as the client has sent them.
    pub(crate) probe: Option<String>,
}

impl Exchange {
    /// The path in a request, if the client may do `right` with it.
    pub(crate) fn permitted(&self, payload: &[u8], right: Right) -> Result<Permitted, Failure> {
        let mut path = RequestPath::parse(payload)?;
        let probe = take_probe(&mut path);
        let caller = self.caller(&mut path)?;
        self.shared.front.authorize(&caller, &path.lfn, right)?;
        let engine = self.shared.front.engine.asked_by(caller.credentials.clone());
        Ok(Permitted { path, engine, caller, probe })
    }

    /// The caller of a request. A token in `path` counts instead of the login, and is taken out: only origins that are asked in
    /// the client's name get it.
    pub(crate) fn caller(&self, path: &mut RequestPath) -> Result<Caller, Failure> {
        let main = self.main().ok_or_else(|| Failure::internal("a request came before the login"))?;
        let front = &self.shared.front;
        if !front.takes_tokens() {
            return Ok(main.caller.clone());
        }
        let token =
            Token::from_opaque(&path.cgi).map_err(|error| forebay_front::Failure::not_authorized(error.to_string()))?;
        let Some(token) = token else { return Ok(main.caller.clone()) };
        let connection = Connection { peer: self.peer, is_tls: self.stream.plain().is_none() };
        let caller = front.bearer(&main.caller, token, connection).inspect_err(|failure| {
            if failure.kind == FailureKind::TokenRefused {
                self.refused_tokens.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        path.cgi = without_tokens(&path.cgi).into_owned();
        Ok(caller)
    }

    /// Whether so many tokens were refused on this connection that the client seems to guess.
    pub(crate) fn guesses_tokens(&self) -> bool {
        self.refused_tokens.load(Ordering::Relaxed) >= REFUSED_TOKENS_MAX
    }
}

/// Prefix of the keys of opaque data that are for this server alone.
const OWN_KEYS: &str = "forebay.";

/// Key of the contents of the probe file.
const PROBE_KEY: &str = "forebay.probe";

/// Takes the parameters for this server out of the opaque data, so that neither rules nor origins see them. Returns the
/// contents of the probe file.
fn take_probe(path: &mut RequestPath) -> Option<String> {
    if !path.cgi.contains(OWN_KEYS) {
        return None;
    }
    let probe = path.cgi_value(PROBE_KEY).map(str::to_owned);
    let others = path.cgi.split('&').filter(|pair| !pair.starts_with(OWN_KEYS));
    path.cgi = others.collect::<Vec<_>>().join("&");
    probe
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
            let mut path = RequestPath::parse(format!("/f?{cgi}").as_bytes()).unwrap();
            assert_eq!((take_probe(&mut path).as_deref(), path.cgi.as_str()), (probe, rest), "{cgi}");
        }
    }
}
