//! The state of one connection to a manager.

use crate::{
    frame::{Frame, FrameError, Frames},
    login::{Login, LoginReply},
    message::{self, ForNode, Held, Load, MessageError, Space},
};
use bytes::{Bytes, BytesMut};
use forebay_types::Endpoint;
use std::time::Duration;

/// A manager that has sent nothing for this time is gone: stock managers ping each minute and give up after three.
pub const SILENCE_MAX: Duration = Duration::from_secs(180);

/// Load and space of the server, for managers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Report {
    pub load: Load,
    pub space: Space,
}

/// A message of a manager that the owner of the session acts on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// The login was answered. Refusals for the role, the paths or a second login of the same server come afterwards, as the end of
    /// the connection.
    LoggedIn(LoginReply),
    /// A question, to be answered by [`NodeSession::answer`] or not at all, which means no.
    State { stream: u32, path: String, is_refresh: bool },
    /// A file that a client needs soon.
    Prepare { path: String },
}

/// The reason for the end of a session.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Message(#[from] MessageError),
    #[error("the manager refuses this server: {text} (error {code})")]
    Refused { code: u32, text: String },
    #[error(
        "the manager requires authentication (cms.seclib), which is not supported: allow this host with cms.allow there"
    )]
    AuthenticationRequired,
    #[error("the manager names other managers instead")]
    Elsewhere { servers: Vec<Endpoint> },
    #[error("the manager has ended the connection")]
    Disconnected,
    #[error("the manager sent a message with code {code} in place of an answer to the login")]
    NotLoggedIn { code: u8 },
}

/// One connection to a manager, from its login on.
#[derive(Debug)]
pub struct NodeSession {
    frames: Frames,
    out: BytesMut,
    is_logged_in: bool,
    report: Report,
}

impl NodeSession {
    /// Begins with the login.
    #[must_use]
    pub fn new(login: &Login, report: Report) -> Self {
        let mut session = Self { frames: Frames::default(), out: BytesMut::new(), is_logged_in: false, report };
        session.send(&login.to_frame());
        session
    }

    /// Takes in received bytes.
    pub fn handle(&mut self, received: &[u8]) {
        self.frames.handle(received);
    }

    /// The next event. Questions about the server itself are answered on the way.
    ///
    /// # Errors
    /// When the connection must be closed.
    pub fn poll_event(&mut self) -> Result<Option<Event>, SessionError> {
        while let Some(frame) = self.frames.poll()? {
            if let Some(event) = self.take(&frame)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Bytes for the manager, to be sent in order.
    #[must_use]
    pub fn poll_output(&mut self) -> Bytes {
        self.out.split().freeze()
    }

    /// Answers a question about a file; silence means no.
    pub fn answer(&mut self, stream: u32, path: &str, held: Held) {
        self.send(&message::have(stream, path, held));
    }

    /// Announces a file. Managers drop the announcement of a file that no client has asked for.
    pub fn announce(&mut self, path: &str, held: Held) {
        self.send(&message::have(0, path, held));
    }

    /// Announces that a file is not here any more.
    pub fn retract(&mut self, path: &str) {
        self.send(&message::gone(path));
    }

    /// Sends the load; the manager gets this report whenever it asks from now on.
    pub fn update(&mut self, report: Report) {
        self.report = report;
        self.send(&message::load(report.load, report.space));
    }

    /// From now on the manager selects other servers.
    pub fn suspend(&mut self) {
        self.send(&message::suspend());
    }

    /// The manager selects this server again.
    pub fn resume(&mut self) {
        self.send(&message::resume());
    }

    /// Lets the manager ask about each file again.
    pub fn reset(&mut self) {
        self.send(&message::reset());
    }

    /// Announces the end of the connection.
    pub fn disconnect(&mut self) {
        self.send(&message::disconnect());
    }

    fn send(&mut self, frame: &Frame) {
        // Every message here is shorter than the limit: paths are, and texts of the login are checked when they are configured.
        let _fits = frame.encode(&mut self.out);
    }

    fn take(&mut self, frame: &Frame) -> Result<Option<Event>, SessionError> {
        let message = match ForNode::parse(frame) {
            Ok(message) => message,
            // A path that no client of ours can open, or a request in a form of another version: silence is an answer.
            Err(_) if self.is_logged_in => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let event = match message {
            ForNode::Login(reply) if !self.is_logged_in => {
                self.is_logged_in = true;
                Some(Event::LoggedIn(reply))
            }
            ForNode::Error { code, text } => return Err(SessionError::Refused { code, text }),
            ForNode::Try { servers } => return Err(SessionError::Elsewhere { servers }),
            ForNode::Authenticate => return Err(SessionError::AuthenticationRequired),
            ForNode::Disconnect => return Err(SessionError::Disconnected),
            _ if !self.is_logged_in => return Err(SessionError::NotLoggedIn { code: frame.code }),
            ForNode::Ping => {
                self.send(&message::pong());
                None
            }
            ForNode::Usage => {
                self.send(&message::load(self.report.load, self.report.space));
                None
            }
            ForNode::Space => {
                self.send(&message::space(self.report.space));
                None
            }
            ForNode::State { stream, path, is_refresh, wants_answer: true } => {
                Some(Event::State { stream, path, is_refresh })
            }
            ForNode::Prepare { path } => Some(Event::Prepare { path }),
            ForNode::State { .. } | ForNode::Login(_) | ForNode::Other { .. } => None,
        };
        Ok(event)
    }
}
