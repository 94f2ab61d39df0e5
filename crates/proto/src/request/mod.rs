//! Requests: one file per family, decoded by servers and encoded by clients.

mod change;
mod error;
mod file;
mod parts;
mod path;
mod query;
mod read;
mod session;

pub use change::Change;
pub use error::RequestError;
pub use file::{Close, Open, Sync};
pub use path::{Dirlist, Locate, Prepare, Stat, Statx, Target};
pub use query::{Fattr, Query};
pub use read::{PageRead, Preread, Prereads, Read, ReadElement, ReadElements, ReadVector, encode_read_vector};
pub use session::{Auth, Bind, EndSession, Expect, Login, Protocol, Set, Sigver, Username};

use crate::code::{ErrorCode, RequestCode};
use crate::header::{Params, RequestHeader, StreamId};
use parts::{Parts, encode_header};

/// A decoded request that borrows its payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Request<'a> {
    Protocol(Protocol),
    Login(Login<'a>),
    Auth(Auth<'a>),
    /// Makes the connection a parallel stream of a session.
    Bind(Bind),
    EndSession(EndSession),
    Open(Open<'a>),
    Close(Close),
    Sync(Sync),
    Read(Read<'a>),
    ReadVector(ReadVector<'a>),
    PageRead(PageRead),
    Stat(Stat<'a>),
    Statx(Statx<'a>),
    Dirlist(Dirlist<'a>),
    Locate(Locate<'a>),
    Prepare(Prepare<'a>),
    Query(Query<'a>),
    Fattr(Fattr<'a>),
    Ping,
    Set(Set<'a>),
    /// Signature of the next request; has no answer of its own.
    Sigver(Sigver<'a>),
    Change(Change<'a>),
}

impl<'a> Request<'a> {
    /// Decodes a request of which header and whole payload have arrived. Neither allocates nor copies the payload.
    ///
    /// # Errors
    /// The error to answer with, for arguments that are missing, out of range or too long, and for unknown codes.
    pub fn decode(header: &RequestHeader, payload: &'a [u8]) -> Result<Self, RequestError> {
        let params = &header.params;
        Ok(match header.code {
            RequestCode::READ => Self::Read(Read::decode(params, payload)?),
            RequestCode::READV => Self::ReadVector(ReadVector::decode(params, payload)?),
            RequestCode::PGREAD => Self::PageRead(PageRead::decode(params, payload)?),
            RequestCode::OPEN => Self::Open(Open::decode(params, payload)?),
            RequestCode::CLOSE => Self::Close(Close::decode(params)),
            RequestCode::SYNC => Self::Sync(Sync::decode(params)),
            RequestCode::STAT => Self::Stat(Stat::decode(params, payload)?),
            RequestCode::STATX => Self::Statx(Statx::decode(payload)?),
            RequestCode::DIRLIST => Self::Dirlist(Dirlist::decode(params, payload)?),
            RequestCode::LOCATE => Self::Locate(Locate::decode(params, payload)?),
            RequestCode::PREPARE => Self::Prepare(Prepare::decode(params, payload)),
            RequestCode::QUERY => Self::Query(Query::decode(params, payload)),
            RequestCode::FATTR => Self::Fattr(Fattr::decode(params, payload)),
            RequestCode::PROTOCOL => Self::Protocol(Protocol::decode(params)),
            RequestCode::LOGIN => Self::Login(Login::decode(params, payload)),
            RequestCode::AUTH => Self::Auth(Auth::decode(params, payload)),
            RequestCode::BIND => Self::Bind(Bind::decode(params)),
            RequestCode::ENDSESS => Self::EndSession(EndSession::decode(params)),
            RequestCode::PING => Self::Ping,
            RequestCode::SET => Self::Set(Set::decode(params, payload)),
            RequestCode::SIGVER => Self::Sigver(Sigver::decode(params, payload)),
            code if Change::is_code(code) => Self::Change(Change::decode(code, params, payload)?),
            _ => return Err(RequestError::new(ErrorCode::INVALID_REQUEST, "unknown request")),
        })
    }

    /// Appends the request: header and payload.
    ///
    /// # Panics
    /// When the payload is longer than `i32::MAX` bytes, which no caller can have meant to send.
    pub fn encode(&self, stream_id: StreamId, out: &mut Vec<u8>) {
        let parts = self.to_parts();
        let args = parts.args.as_bytes();
        encode_header(stream_id, self.code(), parts.params, args.len() + parts.payload.len(), out);
        out.extend_from_slice(args);
        out.extend_from_slice(parts.payload);
    }

    fn to_parts(self) -> Parts<'a> {
        match self {
            Self::Protocol(request) => Parts::bare(request.params()),
            Self::Login(request) => Parts::new(request.params(), request.cgi),
            Self::Auth(request) => Parts::new(request.params(), request.credentials),
            Self::Bind(request) => Parts::bare(Params(request.session_id.0)),
            Self::EndSession(request) => Parts::bare(Params(request.session_id.0)),
            Self::Open(request) => Parts::new(request.params(), request.path),
            Self::Close(request) => Parts::bare(Params::default().with::<0, 4>(request.handle.0)),
            Self::Sync(request) => Parts::bare(Params::default().with::<0, 4>(request.handle.0)),
            Self::Read(request) => request.to_parts(),
            Self::ReadVector(request) => Parts::new(request.params(), request.elements.as_bytes()),
            Self::PageRead(request) => request.to_parts(),
            Self::Stat(request) => request.to_parts(),
            Self::Statx(request) => Parts::new(Params::default(), request.paths),
            Self::Dirlist(request) => Parts::new(request.params(), request.path),
            Self::Locate(request) => Parts::new(request.params(), request.path),
            Self::Prepare(request) => Parts::new(request.params(), request.paths),
            Self::Query(request) => Parts::new(request.params(), request.argument),
            Self::Fattr(request) => Parts::new(request.params, request.payload),
            Self::Ping => Parts::bare(Params::default()),
            Self::Set(request) => Parts::new(Params::default().with::<15, 1>([request.modifier]), request.text),
            Self::Sigver(request) => Parts::new(request.params(), request.signature),
            Self::Change(request) => Parts::new(request.params, request.payload),
        }
    }

    pub const fn code(&self) -> RequestCode {
        match self {
            Self::Protocol(_) => RequestCode::PROTOCOL,
            Self::Login(_) => RequestCode::LOGIN,
            Self::Auth(_) => RequestCode::AUTH,
            Self::Bind(_) => RequestCode::BIND,
            Self::EndSession(_) => RequestCode::ENDSESS,
            Self::Open(_) => RequestCode::OPEN,
            Self::Close(_) => RequestCode::CLOSE,
            Self::Sync(_) => RequestCode::SYNC,
            Self::Read(_) => RequestCode::READ,
            Self::ReadVector(_) => RequestCode::READV,
            Self::PageRead(_) => RequestCode::PGREAD,
            Self::Stat(_) => RequestCode::STAT,
            Self::Statx(_) => RequestCode::STATX,
            Self::Dirlist(_) => RequestCode::DIRLIST,
            Self::Locate(_) => RequestCode::LOCATE,
            Self::Prepare(_) => RequestCode::PREPARE,
            Self::Query(_) => RequestCode::QUERY,
            Self::Fattr(_) => RequestCode::FATTR,
            Self::Ping => RequestCode::PING,
            Self::Set(_) => RequestCode::SET,
            Self::Sigver(_) => RequestCode::SIGVER,
            Self::Change(change) => change.code,
        }
    }
}
