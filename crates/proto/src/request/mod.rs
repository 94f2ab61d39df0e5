//! Requests, decoded by servers and encoded by clients.

mod change;
mod layout;
mod names;
mod read;
mod session;

pub use change::Change;
pub use layout::RequestError;
pub use names::{Close, Dirlist, Fattr, Locate, Open, Prepare, Query, Stat, Statx, Sync, Target};
pub use read::{PageRead, Prereads, Read, ReadElement, ReadElements, ReadVector, encode_read_vector};
pub use session::{Auth, Bind, EndSession, Expect, Login, Protocol, Set, Sigver, Username};

use crate::code::{ErrorCode, RequestCode};
use crate::header::{Params, RequestHeader, StreamId};
use layout::{Body, Parts};

/// Declares the requests that have a number and a type of their own.
macro_rules! requests {
    ($($code:ident => $name:ident($body:ty),)*) => {
        /// A decoded request that borrows its payload.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Request<'a> {
            $($name($body),)*
            Ping,
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
                    $(RequestCode::$code => Self::$name(Body::decode(params, payload)?),)*
                    RequestCode::PING => Self::Ping,
                    code if Change::is_code(code) => Self::Change(Change::decode(code, params, payload)?),
                    _ => return Err(RequestError::new(ErrorCode::INVALID_REQUEST, "unknown request")),
                })
            }

            fn to_parts(self) -> Parts<'a> {
                match self {
                    $(Self::$name(request) => request.to_parts(),)*
                    Self::Ping => Parts::new(Params::default(), &[]),
                    Self::Change(request) => Parts::new(request.params, request.payload),
                }
            }

            pub const fn code(&self) -> RequestCode {
                match self {
                    $(Self::$name(_) => RequestCode::$code,)*
                    Self::Ping => RequestCode::PING,
                    Self::Change(change) => change.code,
                }
            }
        }
    };
}

requests! {
    READ => Read(Read<'a>),
    READV => ReadVector(ReadVector<'a>),
    PGREAD => PageRead(PageRead),
    OPEN => Open(Open<'a>),
    CLOSE => Close(Close),
    SYNC => Sync(Sync),
    STAT => Stat(Stat<'a>),
    STATX => Statx(Statx<'a>),
    DIRLIST => Dirlist(Dirlist<'a>),
    LOCATE => Locate(Locate<'a>),
    PREPARE => Prepare(Prepare<'a>),
    QUERY => Query(Query<'a>),
    FATTR => Fattr(Fattr<'a>),
    PROTOCOL => Protocol(Protocol),
    LOGIN => Login(Login<'a>),
    AUTH => Auth(Auth<'a>),
    BIND => Bind(Bind),
    ENDSESS => EndSession(EndSession),
    SET => Set(Set<'a>),
    SIGVER => Sigver(Sigver<'a>),
}

impl Request<'_> {
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
}

fn encode_header(stream_id: StreamId, code: RequestCode, params: Params, payload_len: usize, out: &mut Vec<u8>) {
    let payload_len = i32::try_from(payload_len).expect("a payload that we build is far below 2 GiB").unsigned_abs();
    RequestHeader { stream_id, code, params, payload_len }.encode(out);
}
