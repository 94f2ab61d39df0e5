//! The identity of a client, and its rights.

use crate::{
    error_answers::ErrorAnswer,
    peer::{Login, Peer},
    request::Context,
    wire::Wire,
};
use forebay_auth::{Right, SecurityProtocol, Token, UnixTime, x509::Chain};
use forebay_engine::{Caller, Client, ClientProtocol, OpenRequest};
use forebay_front::{Connection, Failure, FailureKind};
use forebay_http_proto::{Head, Status, Target, has_directive};
use forebay_net::PeerCertificate;
use forebay_telemetry::ConnectionLimit;
use forebay_trust::{ClientFacts, Demand, Gate, Proof, Step};
use forebay_types::RequestPath;
use std::sync::Arc;

/// A name that the client may use.
pub(crate) struct Admitted {
    pub(crate) request: OpenRequest,
    pub(crate) caller: Arc<Caller>,
}

/// The challenge for clients without a token.
const BEARER: &str = "Bearer";

/// Longest name of a program in logs.
const PROGRAM_LEN_MAX: usize = 64;

impl<W: Wire> Context<W> {
    /// The name in a request, if the client may do `right` with it.
    pub(crate) async fn admit(
        &mut self,
        head: &Head<'_>,
        target: &Target<'_>,
        right: Right,
    ) -> Result<Admitted, ErrorAnswer> {
        let mut request = self.request_of(head, target)?;
        if let Some(signer) = &self.signer {
            return Ok(Admitted { caller: self.permit(&request, &signer.caller, right)?, request });
        }
        let peer = Arc::clone(&self.peer);
        let login = self.login(&peer, head).await?;
        if !login.is_proven {
            let token = request.token.take();
            let caller = self.bearer(token, &login.caller).await?;
            return Ok(Admitted { caller: self.permit(&request, &caller, right)?, request });
        }
        match self.permit(&request, &login.caller, right) {
            Ok(caller) => Ok(Admitted { request, caller }),
            Err(failure) if failure.kind == FailureKind::TokenRefused => {
                // pelicanfs sends `Bearer None` without a token: on a path that is open to all, such a token counts as none.
                let without = OpenRequest { token: None, ..request };
                if let Ok(caller) = self.permit(&without, &login.caller, right) {
                    return Ok(Admitted { request: without, caller });
                }
                self.peer.note_refused_token();
                Err(failure.into())
            }
            Err(failure)
                if failure.kind == FailureKind::NotAuthorized && request.token.is_none() && self.asks_for_tokens() =>
            {
                Err(ErrorAnswer::unauthorized(failure.text, BEARER))
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// The client as the connection has proven it, at the first request.
    pub(crate) async fn login<'b>(&self, peer: &'b Peer, head: &Head<'_>) -> Result<&'b Login, ErrorAnswer> {
        match peer.login.get() {
            Some(login) => Ok(login),
            None => Box::pin(peer.login.get_or_try_init(|| self.log_in(head))).await,
        }
    }

    /// The name in a request, with the token of the request.
    fn request_of(&self, head: &Head<'_>, target: &Target<'_>) -> Result<OpenRequest, ErrorAnswer> {
        let mut request: OpenRequest = RequestPath::parse(target.path.as_bytes())?.into();
        match if self.is_s3() { None } else { token_of(head, target)? } {
            Some(token) if self.peer.state.front.takes_tokens() => request.token = Some(token),
            // Without rules of its own this server passes the token on to the origin.
            Some(token) => {
                request.origin_parameters = format!("authz=Bearer%20{}", token.expose());
                request.parameters.clone_from(&request.origin_parameters);
            }
            None => {}
        }
        request.only_if_cached = wants_only_cached(head);
        request.revalidates = revalidates(head);
        Ok(request)
    }

    /// The caller of a request, if it may do `right`.
    fn permit(&self, request: &OpenRequest, login: &Arc<Caller>, right: Right) -> Result<Arc<Caller>, Failure> {
        let (front, connection) =
            (&self.peer.state.front, Connection { peer: self.peer.address, is_tls: self.peer.is_tls() });
        if right == Right::Read {
            front.admit_open(request, login, connection)
        } else {
            front.admit(request, right, login, connection)
        }
    }

    /// Whether a client without a token could do more with one.
    fn asks_for_tokens(&self) -> bool {
        self.peer.state.front.gate.permits_token_logins(&self.facts())
    }

    /// Whether the client has shown a certificate of a trusted authority.
    pub(crate) fn is_certified(&self) -> bool {
        self.peer
            .tls
            .as_ref()
            .is_some_and(|facts| matches!(facts.peer, PeerCertificate::Verified(_) | PeerCertificate::Resumed(_)))
    }

    pub(crate) fn facts(&self) -> ClientFacts {
        ClientFacts { address: self.peer.address, login: String::new(), is_tls: self.peer.is_tls() }
    }

    /// The caller with the proof of a request's token, for clients that have no other proof.
    async fn bearer(&self, mut token: Option<Token>, login: &Arc<Caller>) -> Result<Arc<Caller>, ErrorAnswer> {
        let gate = Arc::clone(&self.peer.state.front.gate);
        let facts = self.facts();
        let Some(token) = token.take_if(|_| gate.permits_token_logins(&facts)) else {
            let text = "this server asks for a proof of identity: a token, or a certificate over TLS";
            return Err(if self.asks_for_tokens() {
                ErrorAnswer::unauthorized(text, BEARER)
            } else {
                Failure::not_authorized(text.to_owned()).into()
            });
        };
        let shown = token.clone();
        // A new key of its issuer may have to be waited for.
        let verified = forebay_trust::examine(move || {
            gate.bearer_at_login(&shown, &facts, UnixTime(forebay_net::clock::now_unix()))
        });
        let verified = verified.await.map_err(|_| Failure::internal("the check of a token broke off"))?;
        let identity = verified.map_err(|refusal| {
            self.peer.note_refused_token();
            if self.peer.state.front.refusal_log.has_room() {
                tracing::warn!(peer = %self.peer.address, reason = refusal.reason, "a token was refused");
            }
            Failure::new(FailureKind::TokenRefused, forebay_types::Side::Authorization, refusal.to_string())
        })?;
        let organization = identity.organization().map(str::to_owned);
        let credentials = self.peer.state.front.gate.credentials_of_bearer(token);
        Ok(Arc::new(Caller {
            client: Arc::new(Client { organization, ..Client::clone(&login.client) }),
            identity,
            delegation: forebay_engine::Delegation::Client(credentials),
        }))
    }

    /// The identity of the connection, at its first request for a name.
    async fn log_in(&self, head: &Head<'_>) -> Result<Login, ErrorAnswer> {
        let facts = self.facts();
        let certified = self.certificate().await;
        let gate = Arc::clone(&self.peer.state.front.gate);
        let (proof, is_proven) = match (certified, gate.demand(&facts)) {
            (Some(proof), _) => (proof, true),
            (None, Ok(Demand::Nothing)) => (Gate::anonymous_identity(&facts), true),
            // The address is all that such a client has to prove.
            (None, _) => match gate
                .begin(SecurityProtocol::Host, &facts)
                .map(|attempt| Box::new(attempt).handle(&[], UnixTime(0)))
            {
                Ok(Step::Done(proof)) => (*proof, true),
                Ok(Step::Continue(..) | Step::Refused(_)) | Err(_) => (Gate::anonymous_identity(&facts), false),
            },
        };
        let Proof { identity, credentials, rejected_attributes, .. } = proof;
        let front = &self.peer.state.front;
        for reason in rejected_attributes {
            if front.refusal_log.has_room() {
                tracing::warn!(peer = %self.peer.address, %identity, reason, "attributes of a client are not accepted");
            }
        }
        let place = front.limits.admit_session(&identity).map_err(|limit| {
            front.backend.metrics().add_refused_connection(ConnectionLimit::Identity);
            let text = format!("you have {limit} connections here, and may have no more: try again later");
            Failure::new(FailureKind::Overloaded, forebay_types::Side::Client, text)
        })?;
        let user = identity.user.clone().or_else(|| identity.subject.clone()).unwrap_or_else(|| "http".to_owned());
        let client = Client {
            user: printable(&user),
            host: self.peer.address.ip().to_string(),
            organization: identity.organization().map(str::to_owned),
            peer: Some(self.peer.address),
            pid: 0,
            program: program_of(head),
            protocol: if self.peer.is_tls() { ClientProtocol::Https } else { ClientProtocol::Http },
            session: 0,
        };
        tracing::debug!(peer = %self.peer.address, %identity, "logged in");
        Ok(Login::new(front.logged_in(client, identity, credentials), is_proven, place))
    }

    /// The proof in the certificate of the TLS handshake, if certificates count and this one is accepted.
    async fn certificate(&self) -> Option<Proof> {
        let gate = Arc::clone(&self.peer.state.front.gate);
        if !gate.takes_certificates() {
            return None;
        }
        let PeerCertificate::Verified(chain) = &self.peer.tls.as_ref()?.peer else { return None };
        let (chain, facts) = (Chain::from_x509(chain.clone()).ok()?, self.facts());
        let now = UnixTime(forebay_net::clock::now_unix());
        // Checking a chain takes milliseconds of computation.
        let examined = forebay_trust::examine(move || gate.certified(&chain, &facts, now)).await;
        match examined.ok()?? {
            Ok(proof) => Some(proof),
            Err(refusal) => {
                tracing::debug!(peer = %self.peer.address, reason = refusal.reason, "the certificate of a client is not accepted");
                None
            }
        }
    }
}

/// Whether the client wants a copy compared with its origin.
pub(crate) fn revalidates(head: &Head<'_>) -> bool {
    let is_wish = |name, value| has_directive(head.values("cache-control"), name, value);
    is_wish("no-cache", None) || is_wish("max-age", Some("0"))
}

/// Whether the client wants nothing that is not in the cache.
pub(crate) fn wants_only_cached(head: &Head<'_>) -> bool {
    let is_pelican_wish = head.field("x-pelican-nodownload").is_some_and(|value| value.trim() == "true");
    is_pelican_wish || has_directive(head.values("cache-control"), "only-if-cached", None)
}

/// The token of a request: of its header, or of the parameters `authz` or `access_token`.
fn token_of(head: &Head<'_>, target: &Target<'_>) -> Result<Option<Token>, ErrorAnswer> {
    let of_header = head.field("authorization").and_then(after_scheme);
    let of_query = target.parameter("authz").or_else(|| target.parameter("access_token"));
    let of_query = of_query.as_deref().map(|value| after_scheme(value).unwrap_or(value));
    let text = match (of_header, of_query) {
        (Some(header), Some(query)) if header.trim() != query.trim() => {
            return Err(ErrorAnswer::of_client(Status::BAD_REQUEST, "the request has two different tokens"));
        }
        (Some(text), _) | (None, Some(text)) => text,
        (None, None) => return Ok(None),
    };
    Token::parse(text.as_bytes()).map(Some).map_err(|error| {
        let challenge = "Bearer error=\"invalid_token\"";
        ErrorAnswer::unauthorized(error.to_string(), challenge)
    })
}

/// The text after `Bearer` and a space.
fn after_scheme(value: &str) -> Option<&str> {
    let (scheme, rest) = value.trim_start().split_at_checked("bearer".len())?;
    (scheme.eq_ignore_ascii_case("bearer") && rest.starts_with(' ')).then_some(rest)
}

fn program_of(head: &Head<'_>) -> String {
    let agent = head.field("user-agent").unwrap_or_default();
    printable(agent).chars().take(PROGRAM_LEN_MAX).collect()
}

/// A name that a client has chosen, without control characters.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_http_proto::{Next, Session};

    /// The token of a request, or the status of its refusal.
    fn token(target: &str, authorization: &str) -> Result<Option<String>, u16> {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{authorization}\r\n");
        let Ok(Next::Request { head, .. }) = Session::default().handle_input(request.as_bytes()) else {
            panic!("{request}");
        };
        let target = Target::parse(head.target).unwrap();
        let token = token_of(&head, &target).map_err(|error| error.status.0)?;
        Ok(token.map(|token| token.expose().to_owned()))
    }

    #[test]
    fn tokens_come_from_the_header_or_the_query_and_must_agree() {
        let is = |text: &str| Ok(Some(text.to_owned()));
        for (target, authorization, expected) in [
            ("/f", "", Ok(None)),
            ("/f", "Authorization: Bearer a.b\r\n", is("a.b")),
            ("/f", "Authorization: bearer  a.b \r\n", is("a.b")),
            // Names and passwords are of no use here.
            ("/f", "Authorization: Basic YTpi\r\n", Ok(None)),
            ("/f", "Authorization: Bearerx a\r\n", Ok(None)),
            ("/f?authz=a.b", "", is("a.b")),
            ("/f?authz=Bearer%20a.b&access_token=c", "", is("a.b")),
            ("/f?access_token=c", "", is("c")),
            ("/f?authz=a.b", "Authorization: Bearer a.b\r\n", is("a.b")),
            ("/f?authz=a.b", "Authorization: Bearer a.c\r\n", Err(400)),
            ("/f?authz=a%20b", "", Err(401)),
            ("/f?authz=", "", Err(401)),
        ] {
            assert_eq!(token(target, authorization), expected, "{target} {authorization}");
        }
    }

    #[test]
    fn names_that_clients_choose_cannot_forge_a_line_of_a_log() {
        assert_eq!(printable("a\nb\x1b[m"), "a?b?[m");
    }
}
