//! The XRootD wire protocol: codec and session state machines, without I/O.
//!
//! Both roles are here: [`ServerSession`] turns a client's bytes into [`Request`]s, [`ClientSession`] sets up a
//! connection to a server. Responses are built by the functions of [`response`] that take a [`ReplyTo`] and read by the
//! parsers next to them. [`page`] lays out pages with their checksums. Nothing here performs I/O or reads a clock.

mod code;
mod flags;
mod header;
pub mod limits;
pub mod page;
pub mod request;
pub mod response;
mod session;
mod tls;
mod wire;

pub use code::{ErrorCode, QueryKind, RequestCode, Status};
pub use flags::{Abilities, DirlistOptions, LocateOptions, OpenOptions, ProtocolRequestFlags, ServerFlags, StatFlags};
pub use header::{
    FileHandle, NegativeLength, Params, REQUEST_HEADER_LEN, RESPONSE_HEADER_LEN, RequestHeader, ResponseHeader,
    SessionId, StreamId,
};
pub use request::{Request, RequestError};
pub use response::{ReplyTo, Response, ResponseError};
pub use session::{
    AuthQuestion, ClientError, ClientOptions, ClientPurpose, ClientSession, Fatal, HANDSHAKE, Input, Peer, Progress,
    ServerOptions, ServerSession,
};
pub use tls::{TlsPolicy, TlsUse};

/// The protocol version that we speak: 5.1.1, with page reads, without clones.
pub const PROTOCOL_VERSION: u32 = 0x511;
