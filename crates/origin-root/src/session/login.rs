//! Logs in to a server with the credentials that it accepts.

use forebay_auth::{AuthMessage, ClientLogin, Credentials, LoginError, LoginPlace, SessionKey, UnixTime};
use forebay_net::Stream;
use forebay_origin::OriginError;
use forebay_proto::{AuthQuestion, ClientSession};
use forebay_types::Endpoint;
use std::sync::Arc;

/// The login at one server, in as many steps as it wants.
pub(super) struct Login<'a> {
    endpoint: &'a Endpoint,
    credentials: &'a Arc<Credentials>,
    /// `None` until the server has sent its list of protocols, and while a step is computed.
    attempt: Option<ClientLogin>,
}

impl<'a> Login<'a> {
    pub(super) const fn new(endpoint: &'a Endpoint, credentials: &'a Arc<Credentials>) -> Self {
        Self { endpoint, credentials, attempt: None }
    }

    /// Answers the server's last message; appends the answer to `out`.
    pub(super) async fn answer(
        &mut self,
        session: &mut ClientSession,
        stream: &Stream,
        out: &mut Vec<u8>,
    ) -> Result<(), OriginError> {
        let Some(question) = session.take_question() else { return Ok(()) };
        let attempt = match (self.attempt.take(), &question) {
            (None, AuthQuestion::Protocols(list)) => self.begin(list, stream)?,
            (Some(attempt), _) => attempt,
            (None, AuthQuestion::Challenge(_) | AuthQuestion::Refusal { .. }) => {
                let what = "it sends a challenge before a list of security protocols".to_owned();
                return Err(OriginError::Protocol { endpoint: self.endpoint.clone(), what });
            }
        };
        // A handshake computes for milliseconds: not on a thread that serves other connections.
        let answered = tokio::task::spawn_blocking(move || step(attempt, question)).await;
        let (attempt, message) = answered.map_err(|error| self.failed(error))?;
        let AuthMessage { protocol, bytes } = message.map_err(|error| self.failed(error))?;
        session.authenticate(protocol.credential_type(), &bytes, out);
        self.attempt = Some(attempt);
        Ok(())
    }

    /// Ends a login that the server has accepted; returns the key for signed requests, if there is one.
    ///
    /// # Errors
    /// `Authentication` when the server has not proven its own identity.
    pub(super) fn finish(self) -> Result<Option<SessionKey>, OriginError> {
        let Self { endpoint, attempt, .. } = self;
        let finished = attempt.map_or(Ok(None), ClientLogin::finish);
        finished.map_err(|error| OriginError::Authentication { endpoint: endpoint.clone(), reason: error.to_string() })
    }

    fn begin(&self, list: &[u8], stream: &Stream) -> Result<ClientLogin, OriginError> {
        let addresses = stream.local_addr().and_then(|local| Ok((local, stream.peer_addr()?)));
        let (local, peer) = addresses
            .map_err(|error| OriginError::Unreachable { endpoint: self.endpoint.clone(), reason: error.to_string() })?;
        let place = LoginPlace {
            host: self.endpoint.host().to_owned(),
            local,
            is_loopback: peer.ip().to_canonical().is_loopback(),
            is_tls: stream.tls().is_some(),
        };
        ClientLogin::new(list, Arc::clone(self.credentials), place).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: impl ToString) -> OriginError {
        OriginError::Authentication { endpoint: self.endpoint.clone(), reason: error.to_string() }
    }
}

fn step(mut login: ClientLogin, question: AuthQuestion) -> (ClientLogin, Result<AuthMessage, LoginError>) {
    let now = UnixTime(forebay_net::clock::now_unix());
    let message = match question {
        AuthQuestion::Protocols(_) => login.begin_next(now),
        AuthQuestion::Challenge(challenge) => login.answer(&challenge, now),
        AuthQuestion::Refusal { text, .. } => {
            // If no protocol is accepted, the error lists the reason for each.
            login.note_refusal(&text);
            login.begin_next(now)
        }
    };
    (login, message)
}
