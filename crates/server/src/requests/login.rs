//! Logins and their authentication, also by the certificates of TLS handshakes.

use crate::{
    base::{
        event::{Event, Examined},
        sessions::{Owner, Standing},
        status::Failure,
    },
    requests::{
        context::{Authenticating, ConnectionContext, Main, Progress, Role},
        signatures::checker,
    },
};
use forebay_auth::{Method, SecurityProtocol, UnixTime, x509::Chain};
use forebay_engine::{Client, ClientProtocol};
use forebay_front::{Place, proven_name};
use forebay_net::PeerCertificate;
use forebay_proto::{
    ErrorCode, ReplyTo, ServerSession, StreamId,
    request::{Auth, Login},
};
use forebay_telemetry::ConnectionLimit;
use forebay_trust::{Attempt, ClientFacts, Demand, Gate, Proof, Refusal, Step};
use forebay_types::Side;
use std::{sync::Arc, time::Duration};
use tokio::task::AbortHandle;

/// Failures after which the connection ends.
const FAILURES_MAX: u32 = 8;

/// Failures that are answered at once. Further answers are delayed by [`FAILURE_PAUSE`].
const QUICK_FAILURES_MAX: u32 = 2;

/// Delay that makes guessing slow.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

impl ConnectionContext {
    /// Opens a session. If authentication is configured, it is of no use before the client has authenticated.
    pub(crate) fn login(
        &mut self,
        session: &mut ServerSession,
        connection: &AbortHandle,
        stream_id: StreamId,
        login: &Login<'_>,
    ) {
        let Role::New(events) = &self.role else {
            return self.fail(stream_id, &Failure::client(ErrorCode::INVALID_REQUEST, "the session is logged in"));
        };
        let events = events.clone();
        let owner = Owner { user: login.username.as_bytes().to_vec(), host: self.peer.ip() };
        let facts = ClientFacts { address: self.peer, login: printable(&owner.user), is_tls: session.is_tls() };
        // A certificate that was proven in the TLS handshake replaces the authentication.
        let certified = self.certified.take().map(|certified| *certified);
        let demand = match (&certified, self.state.front.gate.demand(&facts)) {
            (Some(Ok(_)), _) => Demand::Nothing,
            (_, Ok(demand)) => demand,
            // The refused certificate is the more useful reason: the client has no other way.
            (Some(Err(refusal)), Err(_)) => {
                self.log_refusal(refusal);
                return self.fail(stream_id, &refused(refusal.to_string()));
            }
            (None, Err(error)) => {
                if self.state.front.refusal_log.has_room() {
                    tracing::warn!(peer = %self.peer, user = facts.login, "a client has no way to authenticate");
                }
                return self.fail(stream_id, &refused(error.to_string()));
            }
        };
        // The session exists before the proof, because the client learns its id with the demand.
        let opened = match self.state.sessions.login(owner, connection.clone()) {
            Ok(opened) => opened,
            Err(error) => {
                tracing::error!(%error, "no session id can be made");
                return self.fail(stream_id, &Failure::internal("no session id can be made"));
            }
        };
        let redirects = self.redirects_for(login.ability);
        let program = program_of_login(login.cgi);
        let id = opened.id;
        let pending = Authenticating {
            session: opened,
            facts,
            redirects,
            pid: login.pid,
            program,
            events,
            progress: Progress::Idle,
            failures: 0,
        };
        match demand {
            Demand::Nothing => {
                let proof = certified.and_then(Result::ok).unwrap_or_else(|| Gate::anonymous_identity(&pending.facts));
                let Some(place) = self.place_of_session(stream_id, &proof) else { return };
                self.output.encode(|out| session.accept_login(stream_id, login, id, out));
                self.admit(session, pending, proof, place);
            }
            Demand::OneOf(list) => {
                self.output.encode(|out| session.demand_authentication(stream_id, login, id, &list, out));
                self.role = Role::Authenticating(pending);
            }
        }
    }

    /// Examines credentials in a task of its own, because signatures take time.
    pub(crate) fn authenticate(&mut self, stream_id: StreamId, auth: &Auth<'_>) {
        let Role::Authenticating(pending) = &mut self.role else {
            return self
                .fail(stream_id, &Failure::client(ErrorCode::INVALID_REQUEST, "authentication was not asked for"));
        };
        let protocol = SecurityProtocol::from_credential_type(auth.credential_type);
        let attempt = match (std::mem::replace(&mut pending.progress, Progress::Idle), protocol) {
            // Two examinations at once would double the rate of guesses.
            (Progress::Examining, _) => {
                pending.progress = Progress::Examining;
                return self.refuse(stream_id, "credentials came before the answer to earlier ones");
            }
            (_, None) => return self.refuse(stream_id, "the security protocol is not known here"),
            (Progress::Waiting(attempt), Some(protocol)) if attempt.protocol == protocol => Ok(attempt),
            (unfinished, Some(protocol)) => {
                // An abandoned handshake counts as a failure: it costs as much as a failed one.
                pending.failures += u32::from(matches!(unfinished, Progress::Waiting(_)));
                self.state.front.gate.begin(protocol, &pending.facts).map(Box::new)
            }
        };
        pending.progress = Progress::Examining;
        let (events, failures) = (pending.events.clone(), pending.failures);
        let message = auth.credentials.to_vec();
        self.tasks.spawn(async move {
            let step = match attempt {
                Ok(attempt) => examine(attempt, message).await,
                Err(refusal) => Step::Refused(refusal),
            };
            // The first failures may be a client that tries its protocols in turn.
            if matches!(step, Step::Refused(_)) && failures >= QUICK_FAILURES_MAX {
                tokio::time::sleep(FAILURE_PAUSE).await;
            }
            // An error means that the connection has ended.
            let _ = events.send(Event::Examined(Examined { stream_id, step })).await;
        });
    }

    /// Answers the client after its credentials were examined.
    pub(crate) fn examined(&mut self, session: &mut ServerSession, examined: Examined) {
        let Examined { stream_id, step } = examined;
        let Role::Authenticating(pending) = &mut self.role else { return };
        pending.progress = Progress::Idle;
        match step {
            Step::Continue(attempt, challenge) => {
                pending.progress = Progress::Waiting(attempt);
                self.output.encode(|out| ReplyTo::direct(stream_id).auth_more(&challenge, out));
            }
            Step::Done(proof) => {
                let Some(place) = self.place_of_session(stream_id, &proof) else { return };
                self.output.encode(|out| session.accept_authentication(stream_id, out));
                if let Some(pending) = self.take_pending() {
                    self.admit(session, pending, *proof, place);
                }
            }
            Step::Refused(refusal) => {
                self.log_refusal(&refusal);
                self.refuse(stream_id, &refusal.to_string());
            }
        }
    }

    fn log_refusal(&self, Refusal { protocol, reason }: &Refusal) {
        if self.state.front.refusal_log.has_room() {
            tracing::warn!(peer = %self.peer, %protocol, reason, "a client was refused");
        }
    }

    /// Refuses credentials. The connection ends after [`FAILURES_MAX`] refusals.
    fn refuse(&mut self, stream_id: StreamId, text: &str) {
        if let Role::Authenticating(pending) = &mut self.role {
            pending.failures += 1;
            self.is_ending = pending.failures >= FAILURES_MAX;
        }
        self.fail(stream_id, &refused(text.to_owned()));
    }

    /// The place of a new session, if its identity is proven. `None` when the limit is reached: the connection ends.
    fn place_of_session(&mut self, stream_id: StreamId, proof: &Proof) -> Option<Option<Place<String>>> {
        let limit = match self.state.front.limits.admit_session(&proof.identity) {
            Ok(place) => return Some(place),
            Err(limit) => limit,
        };
        self.metrics.add_refused_connection(ConnectionLimit::Identity);
        if self.state.front.refusal_log.has_room() {
            tracing::warn!(peer = %self.peer, "a client was refused: its identity has too many sessions");
        }
        let text = format!("you have {limit} sessions here, and may have no more: try again later");
        self.fail(stream_id, &Failure::client(ErrorCode::OVERLOADED, text));
        self.is_ending = true;
        None
    }

    fn take_pending(&mut self) -> Option<Authenticating> {
        let Role::Authenticating(pending) = &self.role else { return None };
        // `Role` has no empty value, so the role goes back to the state before the login.
        let events = pending.events.clone();
        match std::mem::replace(&mut self.role, Role::New(events)) {
            Role::Authenticating(pending) => Some(pending),
            _ => None,
        }
    }

    /// Makes this the main connection of an authenticated session.
    fn admit(&mut self, session: &ServerSession, pending: Authenticating, proof: Proof, place: Option<Place<String>>) {
        self.login_place = None;
        let Authenticating { session: opened, facts, redirects, pid, program, events, .. } = pending;
        let Proof { identity, session_key, credentials, rejected_attributes } = proof;
        opened.prove(Standing {
            identity: proven_name(&identity),
            is_certified: identity.method == Method::Tls,
            // Where the policy demands it, encryption starts after the answer to the login.
            is_tls: session.is_tls() || session.is_tls_due(),
        });
        // The login succeeds without these attributes: rules may not need them.
        for reason in rejected_attributes {
            if self.state.front.refusal_log.has_room() {
                tracing::warn!(peer = %self.peer, %identity, reason, "attributes of a client are not accepted");
            }
        }
        let signatures = checker(self.state.front.gate.options().signing, session_key, session);
        let user = identity.user.clone().or_else(|| identity.subject.clone()).unwrap_or_else(|| facts.login.clone());
        let organization = identity.organization().map(str::to_owned);
        let client = Client {
            user: printable(user.as_bytes()),
            host: facts.address.ip().to_string(),
            organization,
            peer: Some(self.peer),
            pid,
            program,
            protocol: ClientProtocol::Root,
            session: 0,
        };
        tracing::debug!(peer = %self.peer, %identity, "logged in");
        self.role = Role::Main(Main {
            session: opened,
            caller: self.state.front.logged_in(client, identity, credentials),
            place,
            signatures,
            accepts_deferred_answers: session.accepts_deferred_answers(),
            redirects,
            events,
        });
    }

    /// Checks the certificate that the client has just shown, if certificates count. An earlier login stays as it is.
    pub(crate) async fn read_certificate(&mut self) {
        let (Role::New(_), true) = (&self.role, self.state.front.gate.takes_certificates()) else { return };
        let refused = |reason: String| Refusal { protocol: SecurityProtocol::Tls, reason };
        let certified = match self.stream.tls().map(|facts| &facts.peer) {
            Some(PeerCertificate::Verified(chain)) => match Chain::from_x509(chain.clone()) {
                Ok(chain) => self.certify(chain).await,
                Err(error) => Some(Err(refused(error.to_string()))),
            },
            Some(PeerCertificate::Refused(reason)) => Some(Err(refused(reason.clone()))),
            // A resumed session has no chain.
            Some(PeerCertificate::None | PeerCertificate::Resumed(_)) | None => None,
        };
        if let Some(Err(refusal)) = &certified {
            tracing::debug!(peer = %self.peer, reason = refusal.reason, "the certificate of a client is not accepted");
        }
        self.certified = certified.map(Box::new);
    }

    async fn certify(&self, chain: Chain) -> Option<Result<Proof, Refusal>> {
        let gate = Arc::clone(&self.state.front.gate);
        let client = ClientFacts { address: self.peer, login: String::new(), is_tls: true };
        let now = UnixTime(forebay_net::clock::now_unix());
        // Checking a chain takes milliseconds of computation.
        let examined = forebay_trust::examine(move || gate.certified(&chain, &client, now)).await;
        examined.unwrap_or_else(|error| {
            tracing::error!(%error, "an internal error ended the check of a certificate");
            None
        })
    }
}

async fn examine(attempt: Box<Attempt>, message: Vec<u8>) -> Step {
    let protocol = attempt.protocol;
    let now = UnixTime(forebay_net::clock::now_unix());
    let examined = forebay_trust::examine(move || attempt.handle(&message, now)).await;
    examined.unwrap_or_else(|error| {
        tracing::error!(%error, "an internal error ended the examination of credentials");
        Step::Refused(Refusal { protocol, reason: "an internal error of the server".to_owned() })
    })
}

fn refused(text: String) -> Failure {
    Failure { code: ErrorCode::AUTH_FAILED, text: text.into(), side: Side::Authorization }
}

/// The program that a login names: `xrd.appname` in its opaque data.
fn program_of_login(cgi: &[u8]) -> String {
    let mut pairs = cgi.split(|&byte| byte == b'&' || byte == b'?');
    let name = pairs.find_map(|pair| pair.strip_prefix(b"xrd.appname=")).unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// A name that a client has chosen, without control characters.
fn printable(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_names_the_program() {
        for (cgi, name) in [
            ("?xrd.cc=ch&xrd.appname=xrdcp&xrd.info=", "xrdcp"),
            ("xrd.appname=python3", "python3"),
            ("xrd.appnames=x", ""),
            ("", ""),
        ] {
            assert_eq!(program_of_login(cgi.as_bytes()), name, "{cgi}");
        }
    }

    #[test]
    fn names_that_clients_choose_cannot_forge_a_line_of_a_log() {
        assert_eq!(printable(b"user"), "user");
        assert_eq!(printable(b"a\nb\x1b[m"), "a?b?[m");
        assert_eq!(printable(b"\xff"), "\u{fffd}");
    }
}
