//! The client's side of session set-up.

use super::HANDSHAKE;
use crate::PROTOCOL_VERSION;
use crate::code::{ErrorCode, Status};
use crate::flags::{Abilities, ProtocolRequestFlags, ServerFlags};
use crate::header::{RESPONSE_HEADER_LEN, ResponseHeader, SessionId, StreamId};
use crate::limits::SETUP_BODY_LEN_MAX;
use crate::request::{Auth, Bind, Expect, Login, Protocol, Request, Username};
use crate::response::{
    ErrorBody, HandshakeReply, LoginReply, ProtocolReply, Redirect, Response, ResponseError, SigningRequirements,
};
use crate::tls::TlsUse;

/// The purpose of the connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ClientPurpose {
    Login {
        pid: u32,
        /// Our user name; eight bytes of it count.
        username: String,
        /// `key=value&…` on our program and host.
        cgi: String,
    },
    Bind {
        session_id: SessionId,
    },
}

/// How to set up a session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientOptions {
    pub purpose: ClientPurpose,
    pub ability: Abilities,
    pub tls: TlsUse,
}

/// The effect of the input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// Nothing can be said before this many bytes have arrived, counted from the same start.
    NeedMore {
        /// Bytes that must be there; more than there are now.
        at_least: usize,
    },
    /// Set-up continues; the bytes to send next are in `out`.
    Continue { consumed: usize },
    /// The TLS handshake comes next, and what follows in the input is part of it. When it is done,
    /// call [`ClientSession::handle_tls_started`].
    StartTls { consumed: usize },
    /// The server requires authentication: [`ClientSession::take_question`] returns its message, and
    /// [`ClientSession::authenticate`] answers.
    Authenticate { consumed: usize },
    /// The session is set up: what follows are responses to our requests.
    Ready { consumed: usize },
}

/// A message of a server that requires authentication.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AuthQuestion {
    /// These are the protocols that it accepts: `&P=name,parameters` each.
    Protocols(Vec<u8>),
    /// It asks on within the protocol that was begun.
    Challenge(Vec<u8>),
    /// It does not take what was shown last.
    Refusal { code: ErrorCode, text: String },
}

/// Properties of the server and of the session.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Peer {
    /// Version of the protocol that the server speaks.
    pub version: u32,
    pub flags: ServerFlags,
    /// The new session; very old servers give none.
    pub session_id: Option<SessionId>,
    /// Number of the parallel stream; 0 for a main connection.
    pub path_id: u8,
    pub is_tls: bool,
}

impl Peer {
    /// Whether the server is a redirector; some say both, then this counts.
    pub const fn is_manager(&self) -> bool {
        self.flags.contains(ServerFlags::IS_MANAGER)
    }

    /// Whether the server answers page reads.
    pub const fn supports_page_reads(&self) -> bool {
        self.flags.contains(ServerFlags::SUPPORTS_PAGES) && self.version >= PAGES_SINCE_VERSION
    }
}

/// First version of the protocol with page reads.
const PAGES_SINCE_VERSION: u32 = 0x511;

const TLS_SINCE_VERSION: u32 = 0x500;

/// Why a session could not be set up.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ClientError {
    #[error("the server does not speak the XRootD protocol")]
    NotXrootd,
    #[error("session set-up: {0}")]
    Response(#[from] ResponseError),
    #[error("the server requires TLS")]
    TlsRequired,
    #[error("the server offers no TLS, which roots:// demands")]
    TlsMissing,
    #[error("the server refused the session: {text} ({code})")]
    Refused { code: ErrorCode, text: String },
    #[error("the server redirects the session")]
    Redirected(Box<Redirect>),
    #[error("the server is busy for {seconds} s: {text}")]
    Busy {
        /// Seconds to stay away.
        seconds: u32,
        text: String,
    },
}

impl ClientError {
    /// Whether trying again later, or elsewhere for a redirect, can help.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Redirected(_) => true,
            Self::Refused { code, .. } => matches!(
                *code,
                ErrorCode::OVERLOADED | ErrorCode::NO_MEMORY | ErrorCode::NO_SERVER | ErrorCode::IN_PROGRESS
            ),
            Self::Response(error) => error.is_retryable(),
            Self::NotXrootd | Self::TlsRequired | Self::TlsMissing => false,
        }
    }
}

/// Set-up of one connection to a server. Performs no I/O and reads no clock.
///
/// Send what [`ClientSession::start`] appends; hand all input that has arrived to [`ClientSession::handle_input`],
/// each time dropping what it consumed and sending what it appended, until it is ready.
#[derive(Debug)]
pub struct ClientSession {
    options: ClientOptions,
    phase: Phase,
    peer: Peer,
    /// The requests that the server requires to be signed.
    signing: Option<SigningRequirements>,
    question: Option<AuthQuestion>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Handshake,
    Protocol,
    /// TLS starts; login or bind come after it.
    TlsBeforeLogin,
    LoginOrBind,
    /// The server wants proof of who we are.
    Authenticating,
    /// TLS starts; nothing else is left to do.
    TlsBehindLogin,
    Ready,
}

/// The stream id of all requests of set-up.
const SETUP_STREAM: StreamId = StreamId::ZERO;

/// Version of our abilities: as clients since 2011, without signing and TLS.
const ABILITY_VERSION: u8 = 3;

/// The same for clients that can do TLS.
const ABILITY_VERSION_TLS: u8 = 5;

impl ClientSession {
    pub fn new(options: ClientOptions) -> Self {
        Self { options, phase: Phase::Handshake, peer: Peer::default(), signing: None, question: None }
    }

    /// Appends what is to be sent first: handshake and protocol request in one.
    pub fn start(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&HANDSHAKE);
        let expect = match self.options.purpose {
            ClientPurpose::Login { .. } => Expect::LOGIN,
            ClientPurpose::Bind { .. } => Expect::BIND,
        };
        let flags = self.options.tls.flags().with(ProtocolRequestFlags::SECURITY);
        Request::Protocol(Protocol { client_version: PROTOCOL_VERSION, flags, expect }).encode(SETUP_STREAM, out);
    }

    /// Looks at the first reply in `input`; appends what is to be sent next to `out`.
    ///
    /// # Errors
    /// When the session cannot be set up: close the connection.
    pub fn handle_input(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Progress, ClientError> {
        if self.phase == Phase::Ready {
            return Ok(Progress::Ready { consumed: 0 });
        }
        let Some((header, rest)) = input.split_first_chunk() else {
            return Ok(Progress::NeedMore { at_least: RESPONSE_HEADER_LEN });
        };
        let header = ResponseHeader::decode(header).map_err(|_| self.malformed())?;
        if header.stream_id != SETUP_STREAM {
            return Err(self.malformed());
        }
        if self.phase == Phase::Handshake && (header.status, header.body_len) != (Status::OK, 8) {
            return Err(ClientError::NotXrootd);
        }
        if header.body_len > SETUP_BODY_LEN_MAX {
            return Err(ResponseError::TooLong { what: WHAT }.into());
        }
        let body_len = usize::try_from(header.body_len).map_err(|_| ResponseError::TooLong { what: WHAT })?;
        let consumed = RESPONSE_HEADER_LEN + body_len;
        let Some(body) = rest.get(..body_len) else { return Ok(Progress::NeedMore { at_least: consumed }) };
        if header.status == Status::ATTN {
            return Ok(Progress::Continue { consumed });
        }
        if self.phase == Phase::Authenticating {
            self.handle_verdict(&header, body)?;
        } else {
            self.handle_reply(accepted(&header, body)?, out)?;
        }
        match self.phase {
            Phase::Authenticating => Ok(Progress::Authenticate { consumed }),
            Phase::Ready => Ok(Progress::Ready { consumed }),
            Phase::TlsBeforeLogin | Phase::TlsBehindLogin => Ok(Progress::StartTls { consumed }),
            Phase::Handshake | Phase::Protocol | Phase::LoginOrBind => Ok(Progress::Continue { consumed }),
        }
    }

    /// Continues after the TLS handshake that [`Progress::StartTls`] asked for.
    pub fn handle_tls_started(&mut self, out: &mut Vec<u8>) -> Progress {
        self.peer.is_tls = true;
        if self.phase == Phase::TlsBeforeLogin {
            self.enter(out);
            self.phase = Phase::LoginOrBind;
            return Progress::Continue { consumed: 0 };
        }
        self.phase = Phase::Ready;
        Progress::Ready { consumed: 0 }
    }

    /// The message of a server that requires authentication; `None` if it has been taken.
    pub fn take_question(&mut self) -> Option<AuthQuestion> {
        self.question.take()
    }

    /// Appends a message of a security protocol, whose padded name is `credential_type`.
    pub fn authenticate(&self, credential_type: [u8; 4], credentials: &[u8], out: &mut Vec<u8>) {
        Request::Auth(Auth { credential_type, credentials }).encode(SETUP_STREAM, out);
    }

    /// The requests that the server requires to be signed; `None` for none.
    pub const fn signing(&self) -> Option<&SigningRequirements> {
        self.signing.as_ref()
    }

    fn malformed(&self) -> ClientError {
        match self.phase {
            Phase::Handshake => ClientError::NotXrootd,
            _ => ResponseError::Malformed { what: WHAT }.into(),
        }
    }

    fn handle_reply(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), ClientError> {
        self.phase = match self.phase {
            Phase::Handshake => {
                self.peer.version = HandshakeReply::parse(body)?.version;
                Phase::Protocol
            }
            Phase::Protocol => {
                self.peer.flags = ProtocolReply::parse(body)?.flags;
                self.signing = SigningRequirements::parse(body)?;
                if self.is_tls_next()? {
                    Phase::TlsBeforeLogin
                } else {
                    self.enter(out);
                    Phase::LoginOrBind
                }
            }
            Phase::LoginOrBind => match self.options.purpose {
                ClientPurpose::Login { .. } => self.handle_login(LoginReply::parse(body)?),
                ClientPurpose::Bind { .. } => {
                    let path_id = body.first().copied().filter(|&path_id| path_id != 0);
                    self.peer.path_id = path_id.ok_or(ResponseError::Malformed { what: "bind reply" })?;
                    self.after_login()
                }
            },
            phase @ (Phase::Authenticating | Phase::TlsBeforeLogin | Phase::TlsBehindLogin | Phase::Ready) => phase,
        };
        Ok(())
    }

    fn handle_verdict(&mut self, header: &ResponseHeader, body: &[u8]) -> Result<(), ClientError> {
        match Response::decode(header, body)? {
            Response::Ok(_) => self.phase = self.after_login(),
            Response::AuthMore(challenge) => self.question = Some(AuthQuestion::Challenge(challenge.to_vec())),
            Response::Error(ErrorBody { code, text }) => self.question = Some(AuthQuestion::Refusal { code, text }),
            _ => drop(accepted(header, body)?),
        }
        Ok(())
    }

    /// The next step after a successful login.
    fn after_login(&self) -> Phase {
        if self.is_tls_after_login() { Phase::TlsBehindLogin } else { Phase::Ready }
    }

    fn enter(&self, out: &mut Vec<u8>) {
        let ability_version = if self.options.tls == TlsUse::Never { ABILITY_VERSION } else { ABILITY_VERSION_TLS };
        let request = match &self.options.purpose {
            ClientPurpose::Login { pid, username, cgi } => Request::Login(Login {
                pid: *pid,
                username: Username::new(username),
                ability2: 0,
                ability: self.options.ability,
                capver: Login::ASYNC | ability_version,
                cgi: cgi.as_bytes(),
            }),
            ClientPurpose::Bind { session_id } => Request::Bind(Bind { session_id: *session_id }),
        };
        request.encode(SETUP_STREAM, out);
    }

    /// Whether TLS starts before login or bind.
    fn is_tls_next(&self) -> Result<bool, ClientError> {
        let demand = match self.options.purpose {
            ClientPurpose::Login { .. } => ServerFlags::TLS_LOGIN,
            ClientPurpose::Bind { .. } => ServerFlags::TLS_DATA,
        };
        let is_next = self.peer.flags.intersects(demand.with(ServerFlags::GOTO_TLS));
        match self.options.tls {
            TlsUse::Never if is_next || self.is_tls_after_login() => Err(ClientError::TlsRequired),
            TlsUse::Always if !is_next || self.peer.version < TLS_SINCE_VERSION => Err(ClientError::TlsMissing),
            TlsUse::Never | TlsUse::WhenDemanded | TlsUse::Always => Ok(is_next),
        }
    }

    /// Whether a connection that is in clear until then continues in TLS after the login.
    fn is_tls_after_login(&self) -> bool {
        matches!(self.options.purpose, ClientPurpose::Login { .. })
            && self.peer.flags.contains(ServerFlags::TLS_SESSION)
            && !self.peer.is_tls
    }

    fn handle_login(&mut self, reply: LoginReply) -> Phase {
        self.peer.session_id = reply.session_id;
        if reply.security_protocols().next().is_none() {
            return self.after_login();
        }
        self.question = Some(AuthQuestion::Protocols(reply.security.into_bytes()));
        Phase::Authenticating
    }

    /// Properties of the server so far; complete once the session is ready.
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }
}

const WHAT: &str = "set-up reply";

/// The body of a reply that continues set-up; everything else ends it.
fn accepted<'a>(header: &ResponseHeader, body: &'a [u8]) -> Result<&'a [u8], ClientError> {
    match Response::decode(header, body)? {
        Response::Ok(body) => Ok(body),
        Response::Error(ErrorBody { code: ErrorCode::TLS_REQUIRED, .. }) => Err(ClientError::TlsRequired),
        Response::Error(ErrorBody { code, text }) => Err(ClientError::Refused { code, text }),
        Response::Redirect(redirect) => Err(ClientError::Redirected(Box::new(redirect))),
        Response::Wait(wait) | Response::WaitResponse(wait) => {
            Err(ClientError::Busy { seconds: wait.seconds, text: wait.text })
        }
        Response::OkSoFar(_) | Response::Attention(_) | Response::AuthMore(_) | Response::Status(_) => {
            Err(ResponseError::Malformed { what: WHAT }.into())
        }
    }
}
