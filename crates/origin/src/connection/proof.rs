//! Proves to a server who we are.

use crate::OriginError;
use forebay_auth::{AuthMessage, ClientLogin, Credentials, LoginError, LoginPlace, SessionKey, UnixTime};
use forebay_net::Stream;
use forebay_proto::{AuthQuestion, ClientSession};
use forebay_types::Endpoint;
use std::sync::Arc;

/// Our proof to one server, in as many steps as it wants.
pub(super) struct Proof<'a> {
    endpoint: &'a Endpoint,
    host: &'a str,
    credentials: &'a Arc<Credentials>,
    login: Option<ClientLogin>,
}

impl<'a> Proof<'a> {
    /// A proof that has not begun, towards `endpoint`, which is reached as `host`.
    pub(super) const fn new(endpoint: &'a Endpoint, host: &'a str, credentials: &'a Arc<Credentials>) -> Self {
        Self { endpoint, host, credentials, login: None }
    }

    /// Answers what the server says; appends the answer to `out`.
    ///
    /// # Errors
    /// `Authentication` when nothing is left to be tried.
    pub(super) async fn answer(
        &mut self,
        session: &mut ClientSession,
        stream: &Stream,
        out: &mut Vec<u8>,
    ) -> Result<(), OriginError> {
        let Some(question) = session.take_question() else { return Ok(()) };
        let login = match (self.login.take(), &question) {
            (None, AuthQuestion::Protocols(list)) => self.begin(list, stream)?,
            (Some(login), _) => login,
            (None, AuthQuestion::Challenge(_) | AuthQuestion::Refusal { .. }) => {
                let what = "a challenge where no proof was begun".to_owned();
                return Err(OriginError::Protocol { endpoint: self.endpoint.clone(), what });
            }
        };
        // Milliseconds of computing: not on a thread that serves others.
        let answered = tokio::task::spawn_blocking(move || step(login, question)).await;
        let (login, message) = answered.map_err(|error| self.failed(error))?;
        let AuthMessage { protocol, bytes } = message.map_err(|error| self.failed(error))?;
        session.authenticate(protocol.credential_type(), &bytes, out);
        self.login = Some(login);
        Ok(())
    }

    /// The server has let us in: gives the key for signed requests, if there is one.
    ///
    /// # Errors
    /// `Authentication` when the server has not proven itself.
    pub(super) fn finish(self) -> Result<Option<SessionKey>, OriginError> {
        let Self { endpoint, login, .. } = self;
        let finished = login.map_or(Ok(None), ClientLogin::finish);
        finished.map_err(|error| OriginError::Authentication { endpoint: endpoint.clone(), reason: error.to_string() })
    }

    fn begin(&self, list: &[u8], stream: &Stream) -> Result<ClientLogin, OriginError> {
        let addresses = stream.local_addr().and_then(|local| Ok((local, stream.peer_addr()?)));
        let (local, peer) = addresses
            .map_err(|error| OriginError::Unreachable { endpoint: self.endpoint.clone(), reason: error.to_string() })?;
        let place = LoginPlace {
            host: self.host.to_owned(),
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
            login.note_refusal(&text);
            login.begin_next(now)
        }
    };
    (login, message)
}
