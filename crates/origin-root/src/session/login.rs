//! Logs in to a server with the credentials that it accepts.

use super::pool::Destination;
use forebay_auth::{AuthMessage, ClientLogin, LoginError, LoginPlace, SessionKey, UnixTime};
use forebay_net::Stream;
use forebay_origin::OriginError;
use forebay_proto::{AuthQuestion, ClientSession};
use std::sync::Arc;

/// The login at one server, in as many steps as it wants.
pub(super) struct Login<'a> {
    to: &'a Destination,
    /// `None` until the server has sent its list of protocols, and while a step is computed.
    attempt: Option<ClientLogin>,
}

impl<'a> Login<'a> {
    pub(super) const fn new(to: &'a Destination) -> Self {
        Self { to, attempt: None }
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
                return Err(OriginError::Protocol { endpoint: self.to.endpoint.clone(), what });
            }
        };
        // A handshake computes for milliseconds: not on a thread that serves other connections.
        let answered = tokio::task::spawn_blocking(move || step(attempt, question)).await;
        let (attempt, message) = answered.map_err(|error| refused(self.to, error))?;
        let AuthMessage { protocol, bytes } = message.map_err(|error| refused(self.to, error))?;
        session.authenticate(protocol.credential_type(), &bytes, out);
        self.attempt = Some(attempt);
        Ok(())
    }

    /// Ends a login that the server has accepted; returns the key for signed requests, if there is one.
    ///
    /// # Errors
    /// `Authentication` when the server has not proven its own identity.
    pub(super) fn finish(self) -> Result<Option<SessionKey>, OriginError> {
        let Self { to, attempt } = self;
        attempt.map_or(Ok(None), ClientLogin::finish).map_err(|error| refused(to, error))
    }

    fn begin(&self, list: &[u8], stream: &Stream) -> Result<ClientLogin, OriginError> {
        let addresses = stream.local_addr().and_then(|local| Ok((local, stream.peer_addr()?)));
        let (local, peer) = addresses.map_err(|error| OriginError::Unreachable {
            endpoint: self.to.endpoint.clone(),
            reason: error.to_string(),
        })?;
        let place = LoginPlace {
            host: self.to.endpoint.host().to_owned(),
            local,
            is_loopback: peer.ip().to_canonical().is_loopback(),
            is_tls: stream.tls().is_some(),
        };
        ClientLogin::new(list, Arc::clone(&self.to.credentials), place).map_err(|error| refused(self.to, error))
    }
}

fn refused(to: &Destination, error: impl ToString) -> OriginError {
    OriginError::Authentication { endpoint: to.endpoint.clone(), reason: error.to_string() }
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
