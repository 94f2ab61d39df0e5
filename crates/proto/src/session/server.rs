//! The server's side of a connection.

use super::HANDSHAKE;
use crate::PROTOCOL_VERSION;
use crate::code::{ErrorCode, RequestCode};
use crate::flags::{ProtocolRequestFlags, ServerFlags};
use crate::header::{REQUEST_HEADER_LEN, RequestHeader, SessionId, StreamId};
use crate::limits::{DRAIN_LEN_MAX, payload_len_max};
use crate::request::{Change, Login, Protocol, ReadElements, Request, RequestError};
use crate::response::{HandshakeReply, ProtocolReply, ReplyTo, SigningRequirements};
use crate::tls::TlsPolicy;

/// Properties of the server that clients see.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ServerOptions {
    pub version: u32,
    /// Role and abilities, without those of TLS.
    pub flags: ServerFlags,
    pub tls: TlsPolicy,
    /// The signing level required on connections that stay in clear: [`SigningRequirements::level`]; 0 for nothing.
    pub signing_level: u8,
}

impl ServerOptions {
    pub const CACHE: Self = Self::of(
        ServerFlags::IS_SERVER
            .with(ServerFlags::ATTR_PROXY)
            .with(ServerFlags::ATTR_CACHE)
            .with(ServerFlags::SUPPORTS_PAGES),
    );

    /// A redirector, to which clients come back from servers that fail them.
    pub const MANAGER: Self = Self::of(ServerFlags::IS_MANAGER);

    pub const FILES: Self = Self::of(ServerFlags::IS_SERVER.with(ServerFlags::SUPPORTS_PAGES));

    const fn of(flags: ServerFlags) -> Self {
        Self { version: PROTOCOL_VERSION, flags, tls: TlsPolicy::None, signing_level: 0 }
    }
}

/// The next step for a connection's input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Input<'a> {
    /// Nothing can be said before this many bytes have arrived, counted from the same start. Never more than
    /// [`crate::limits::REQUEST_LEN_MAX`].
    NeedMore {
        /// Bytes that must be there; more than there are now.
        at_least: usize,
    },
    /// Bytes that the session has dealt with by itself; its answer, if any, is in `out`.
    Skipped {
        /// Bytes to drop; at least 1.
        consumed: usize,
    },
    Request {
        /// Bytes to drop once the request is no longer used; at least 1.
        consumed: usize,
        stream_id: StreamId,
        request: Request<'a>,
    },
}

/// Why a connection must end. The contents of `out` are sent first, then the connection is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fatal {
    #[error("the client does not speak the XRootD protocol")]
    NotXrootd,
    #[error("a request announces a negative length")]
    NegativeLength,
    #[error("{code} announces a payload of {len} bytes")]
    PayloadTooLong { code: RequestCode, len: u32 },
    #[error("{code} before login")]
    NotLoggedIn { code: RequestCode },
    #[error("{code} whose extent is unknown")]
    Unframed { code: RequestCode },
}

/// One client's connection. Performs no I/O and reads no clock.
///
/// Hand all input that has arrived to [`ServerSession::handle_input`] again and again, each time dropping what it
/// consumed, until it needs more. Signatures are given out as they come, and not checked. When it gives out a login or bind, call [`ServerSession::accept_login`],
/// [`ServerSession::demand_authentication`] or [`ServerSession::accept_bind`] before the next input, or answer with an error. When it
/// gives out credentials, answer them with a challenge or an error, or call [`ServerSession::accept_authentication`]. When [`ServerSession::is_tls_due`] says so,
/// send what is in `out`, take what input there is for the beginning of the TLS handshake, go through that, and call
/// [`ServerSession::tls_started`]; what arrived in clear must never be handed in after that.
#[derive(Debug)]
pub struct ServerSession {
    options: ServerOptions,
    phase: Phase,
    tls: Tls,
    drain: Option<Drain>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Handshake,
    SetUp,
    Authenticating { accepts_deferred_answers: bool },
    LoggedIn { accepts_deferred_answers: bool },
    Bound,
}

/// How the connection is protected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Tls {
    /// In clear; whether the client has said that it can do TLS.
    Off {
        is_able: bool,
    },
    Due,
    On,
}

/// A payload that is not used: dropped as it comes, then its request is answered.
#[derive(Clone, Copy, Debug)]
struct Drain {
    remaining: u64,
    header: RequestHeader,
    end: DrainEnd,
}

#[derive(Clone, Copy, Debug)]
enum DrainEnd {
    /// The request goes out, without its payload.
    Request,
    Answer(RequestError),
}

const NEEDS_MAIN_CONNECTION: RequestError =
    RequestError::new(ErrorCode::INVALID_REQUEST, "requests go to the main connection of the session");
const ARGUMENT_TOO_LONG: RequestError = RequestError::new(ErrorCode::ARG_TOO_LONG, "argument is too long");
const ALREADY_LOGGED_IN: RequestError = RequestError::new(ErrorCode::INVALID_REQUEST, "the session is logged in");
const NO_AUTHENTICATION: RequestError =
    RequestError::new(ErrorCode::INVALID_REQUEST, "authentication was not asked for");
const TLS_REQUIRED: RequestError = RequestError::new(ErrorCode::TLS_REQUIRED, "this server requires TLS");

impl ServerSession {
    pub const fn new(options: ServerOptions) -> Self {
        Self { options, phase: Phase::Handshake, tls: Tls::Off { is_able: false }, drain: None }
    }

    /// Looks at the first bytes of `input`; appends what the session answers by itself to `out`.
    ///
    /// # Errors
    /// When the connection cannot continue: send `out`, then close.
    pub fn handle_input<'a>(&mut self, input: &'a [u8], out: &mut Vec<u8>) -> Result<Input<'a>, Fatal> {
        if let Some(drain) = self.drain.take() {
            return Ok(self.handle_drain(drain, 0, input, out));
        }
        if self.phase == Phase::Handshake {
            return self.handle_handshake(input, out);
        }
        let Some((header, rest)) = input.split_first_chunk() else {
            return Ok(Input::NeedMore { at_least: REQUEST_HEADER_LEN });
        };
        let header = RequestHeader::decode(header).map_err(|error| {
            ReplyTo::direct(error.stream_id).error(ErrorCode::ARG_INVALID, "length is negative", out);
            Fatal::NegativeLength
        })?;
        self.check_phase(&header, out)?;
        if let Some(drain) = self.plan_drain(&header, rest, out)? {
            let Plan::Drain(drain) = drain else {
                return Ok(Input::NeedMore { at_least: whole_len(&header) });
            };
            return Ok(self.handle_drain(drain, REQUEST_HEADER_LEN, rest, out));
        }
        let Some(payload) = rest.get(..payload_len(&header)) else {
            return Ok(Input::NeedMore { at_least: whole_len(&header) });
        };
        Ok(self.handle_request(&header, payload, out))
    }

    fn handle_handshake(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Input<'static>, Fatal> {
        if input.iter().zip(HANDSHAKE).any(|(&byte, expected)| byte != expected) {
            return Err(Fatal::NotXrootd);
        }
        if input.len() < HANDSHAKE.len() {
            return Ok(Input::NeedMore { at_least: HANDSHAKE.len() });
        }
        let is_server = self.options.flags.contains(ServerFlags::IS_SERVER);
        let reply = HandshakeReply { version: self.options.version, is_server };
        ReplyTo::direct(StreamId::ZERO).handshake(reply, out);
        self.phase = Phase::SetUp;
        Ok(Input::Skipped { consumed: HANDSHAKE.len() })
    }

    /// Before login only set-up is possible: anything else ends the connection.
    fn check_phase(&self, header: &RequestHeader, out: &mut Vec<u8>) -> Result<(), Fatal> {
        let is_set_up = matches!(header.code, RequestCode::PROTOCOL | RequestCode::LOGIN | RequestCode::BIND);
        let is_proof = matches!(header.code, RequestCode::PROTOCOL | RequestCode::AUTH);
        let missing = match self.phase {
            Phase::SetUp if !is_set_up => "log in first",
            Phase::Authenticating { .. } if !is_proof => "authenticate first",
            _ => return Ok(()),
        };
        ReplyTo::direct(header.stream_id).error(ErrorCode::INVALID_REQUEST, missing, out);
        Err(Fatal::NotLoggedIn { code: header.code })
    }

    /// Decides whether the payload is dropped as it comes; `None` when it is wanted whole.
    fn plan_drain(&self, header: &RequestHeader, rest: &[u8], out: &mut Vec<u8>) -> Result<Option<Plan>, Fatal> {
        let announced = u64::from(header.payload_len);
        let (remaining, end) = match header.code {
            RequestCode::WRITE | RequestCode::PGWRITE => (announced, DrainEnd::Request),
            RequestCode::WRITEV => {
                if header.payload_len > payload_len_max(header.code) {
                    return Err(refuse_unframed(header, out));
                }
                let Some(elements) = rest.get(..payload_len(header)) else { return Ok(Some(Plan::NeedPayload)) };
                let Ok(elements) = ReadElements::parse(elements) else { return Err(refuse_unframed(header, out)) };
                (announced + elements.data_len(), DrainEnd::Request)
            }
            RequestCode::CHKPOINT if header.params.field::<15, 1>() == [CHKPOINT_EXECUTE] => {
                return Err(refuse_unframed(header, out));
            }
            code if header.payload_len > DRAIN_LEN_MAX => {
                ReplyTo::direct(header.stream_id).error(ARGUMENT_TOO_LONG.code, ARGUMENT_TOO_LONG.text, out);
                return Err(Fatal::PayloadTooLong { code, len: header.payload_len });
            }
            code if header.payload_len > payload_len_max(code) => (announced, DrainEnd::Answer(ARGUMENT_TOO_LONG)),
            _ => return Ok(None),
        };
        let end = if self.phase == Phase::Bound { DrainEnd::Answer(NEEDS_MAIN_CONNECTION) } else { end };
        Ok(Some(Plan::Drain(Drain { remaining, header: *header, end })))
    }

    /// Drops what has come of an unwanted payload; `consumed` bytes before `input` are dropped with it.
    fn handle_drain(&mut self, drain: Drain, consumed: usize, input: &[u8], out: &mut Vec<u8>) -> Input<'static> {
        let dropped = usize::try_from(drain.remaining).unwrap_or(usize::MAX).min(input.len());
        let consumed = consumed + dropped;
        let remaining = drain.remaining - dropped as u64;
        if remaining > 0 {
            self.drain = Some(Drain { remaining, ..drain });
            return if consumed == 0 { Input::NeedMore { at_least: 1 } } else { Input::Skipped { consumed } };
        }
        let Drain { header, end, .. } = drain;
        let stream_id = header.stream_id;
        match end {
            DrainEnd::Request => {
                let request = Request::Change(Change::without_payload(&header));
                Input::Request { consumed, stream_id, request }
            }
            DrainEnd::Answer(error) => {
                ReplyTo::direct(stream_id).error(error.code, error.text, out);
                Input::Skipped { consumed }
            }
        }
    }

    fn handle_request<'a>(&mut self, header: &RequestHeader, payload: &'a [u8], out: &mut Vec<u8>) -> Input<'a> {
        let consumed = REQUEST_HEADER_LEN + payload.len();
        let reply_to = ReplyTo::direct(header.stream_id);
        match self.admit(Request::decode(header, payload)) {
            Ok(Request::Protocol(protocol)) => {
                let reply = self.handle_protocol(&protocol);
                match self.signing_requirements(&protocol) {
                    Some(signing) => reply_to.protocol_with_signing(reply, &signing, out),
                    None => reply_to.protocol(reply, out),
                }
            }
            Ok(request) => return Input::Request { consumed, stream_id: header.stream_id, request },
            Err(error) => reply_to.error(error.code, error.text, out),
        }
        Input::Skipped { consumed }
    }

    /// Turns away what the phase does not allow.
    fn admit<'a>(&self, request: Result<Request<'a>, RequestError>) -> Result<Request<'a>, RequestError> {
        match (self.phase, request?) {
            (Phase::Authenticating { .. }, Request::Auth(auth)) => Ok(Request::Auth(auth)),
            (_, Request::Auth(_)) => Err(NO_AUTHENTICATION),
            (Phase::LoggedIn { .. } | Phase::Bound, Request::Login(_) | Request::Bind(_)) => Err(ALREADY_LOGGED_IN),
            (Phase::Bound, request) if !matches!(request, Request::Protocol(_)) => Err(NEEDS_MAIN_CONNECTION),
            (_, Request::Login(_)) if !self.is_safe_for_login() => Err(TLS_REQUIRED),
            (_, Request::Bind(_)) if self.options.tls.is_needed_for_data() && !self.is_tls() => Err(TLS_REQUIRED),
            (_, request) => Ok(request),
        }
    }

    /// Whether a login that comes now is protected as it must be, or will be at once.
    fn is_safe_for_login(&self) -> bool {
        match self.tls {
            Tls::On => true,
            Tls::Off { is_able: true } => !self.options.tls.is_needed_for_login(),
            Tls::Off { is_able: false } | Tls::Due => {
                !self.options.tls.is_needed_for_login() && !self.options.tls.is_needed_for_session()
            }
        }
    }

    /// Decides whether TLS starts now. Clients before 2.9.7 send no version and understand only 1 for a server, 0 for a
    /// manager.
    fn handle_protocol(&mut self, protocol: &Protocol) -> ProtocolReply {
        let ServerOptions { version, flags, tls, .. } = self.options;
        if protocol.client_version == 0 {
            return ProtocolReply { version, flags: ServerFlags(flags.0 & 1) };
        }
        let mut flags = flags.with(tls.flags());
        if self.phase == Phase::SetUp && matches!(self.tls, Tls::Off { .. }) {
            self.tls = Tls::Off { is_able: protocol.flags.intersects(CLIENT_HAS_TLS) };
            if tls.starts_after(protocol) {
                flags = flags.with(ServerFlags::GOTO_TLS);
                self.tls = Tls::Due;
            }
        }
        ProtocolReply { version, flags }
    }

    /// The signing requirements for a client that asks: none on connections that are or will be encrypted.
    fn signing_requirements(&self, protocol: &Protocol) -> Option<SigningRequirements> {
        let ServerOptions { signing_level: level, tls, .. } = self.options;
        let is_asked = protocol.client_version != 0 && protocol.flags.contains(ProtocolRequestFlags::SECURITY);
        let stays_clear = matches!(self.tls, Tls::Off { .. }) && !tls.is_needed_for_session();
        let is_told = level > 0 && is_asked && stays_clear;
        is_told.then(|| SigningRequirements { level, ..SigningRequirements::default() })
    }

    /// Opens the session and appends the reply to the login. Ancient clients expect no session id.
    pub fn accept_login(&mut self, stream_id: StreamId, login: &Login<'_>, session_id: SessionId, out: &mut Vec<u8>) {
        self.phase = Phase::LoggedIn { accepts_deferred_answers: login.accepts_deferred_answers() };
        let reply_to = ReplyTo::direct(stream_id);
        if login.ability_version() == 0 {
            reply_to.ok(out)
        } else {
            reply_to.login(session_id, out)
        }
        self.protect_session();
    }

    /// Appends the reply to a login whose client has to prove who it is, by one of the protocols in `security`.
    pub fn demand_authentication(
        &mut self,
        stream_id: StreamId,
        login: &Login<'_>,
        session_id: SessionId,
        security: &str,
        out: &mut Vec<u8>,
    ) {
        self.phase = Phase::Authenticating { accepts_deferred_answers: login.accepts_deferred_answers() };
        ReplyTo::direct(stream_id).login_with_security(session_id, security, out);
    }

    /// Appends the last reply to credentials: the client is who it says.
    pub fn accept_authentication(&mut self, stream_id: StreamId, out: &mut Vec<u8>) {
        if let Phase::Authenticating { accepts_deferred_answers } = self.phase {
            self.phase = Phase::LoggedIn { accepts_deferred_answers };
        }
        ReplyTo::direct(stream_id).ok(out);
        self.protect_session();
    }

    /// Lets TLS begin now when requests need it.
    fn protect_session(&mut self) {
        if self.options.tls.is_needed_for_session() && self.tls != Tls::On {
            self.tls = Tls::Due;
        }
    }

    /// Makes the connection the parallel stream `path_id` (1 to 15) of another session and appends the reply.
    pub fn accept_bind(&mut self, stream_id: StreamId, path_id: u8, out: &mut Vec<u8>) {
        self.phase = Phase::Bound;
        ReplyTo::direct(stream_id).bind(path_id, out);
    }

    /// Whether the TLS handshake comes next, after the contents of `out`.
    pub const fn is_tls_due(&self) -> bool {
        matches!(self.tls, Tls::Due)
    }

    /// Notes that the TLS handshake is done: all further input was encrypted.
    pub const fn tls_started(&mut self) {
        self.tls = Tls::On;
        // Bytes announced in clear, maybe by an attacker on the way, must not consume encrypted ones.
        self.drain = None;
    }

    /// Whether the connection is encrypted.
    pub const fn is_tls(&self) -> bool {
        matches!(self.tls, Tls::On)
    }

    /// Whether the rest of a payload that is not used has still to come.
    pub const fn is_dropping_payload(&self) -> bool {
        self.drain.is_some()
    }

    /// Whether a login has been accepted.
    pub const fn is_logged_in(&self) -> bool {
        matches!(self.phase, Phase::LoggedIn { .. })
    }

    /// Whether the connection is a parallel stream of another session.
    pub const fn is_bound(&self) -> bool {
        matches!(self.phase, Phase::Bound)
    }

    /// Whether answers to this client may be deferred with `waitresp`.
    pub const fn accepts_deferred_answers(&self) -> bool {
        matches!(
            self.phase,
            Phase::LoggedIn { accepts_deferred_answers: true }
                | Phase::Authenticating { accepts_deferred_answers: true }
        )
    }
}

/// A client that says one of these can do TLS.
const CLIENT_HAS_TLS: ProtocolRequestFlags = ProtocolRequestFlags::ABLE_TLS.with(ProtocolRequestFlags::WANT_TLS);

/// The operation of a checkpoint whose payload is another request, with data outside of any announced length.
const CHKPOINT_EXECUTE: u8 = 4;

enum Plan {
    /// The payload must be there before its extent is known.
    NeedPayload,
    Drain(Drain),
}

fn refuse_unframed(header: &RequestHeader, out: &mut Vec<u8>) -> Fatal {
    ReplyTo::direct(header.stream_id).error(ErrorCode::UNSUPPORTED, "writes are not supported", out);
    Fatal::Unframed { code: header.code }
}

/// A header's length as the length of a slice; what fits no slice never arrives.
fn payload_len(header: &RequestHeader) -> usize {
    usize::try_from(header.payload_len).unwrap_or(usize::MAX)
}

fn whole_len(header: &RequestHeader) -> usize {
    payload_len(header).saturating_add(REQUEST_HEADER_LEN)
}
