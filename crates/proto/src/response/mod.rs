//! Responses: one file per family, with the encoder of the server's side and the parser of the client's side.
//!
//! The encoders are methods of [`ReplyTo`], which knows whether an answer goes out at once or as the unsolicited
//! message that a `waitresp` has promised.

mod dirlist;
mod failure;
mod query;
mod redirect;
mod reply;
mod session;
mod stat;
mod vector;

pub use dirlist::{DirlistDecoder, DirlistEncoder, DirlistForm};
pub use failure::{Attention, DEFERRED_PREFIX_LEN, ErrorBody, ResponseError, Wait};
pub use query::{Checksum, ConfigValues, Location, LocationKind, OpenReply};
pub use redirect::{Redirect, RedirectTarget};
pub use reply::ReplyTo;
pub use session::{HandshakeReply, LoginReply, ProtocolReply, SigningRequirements};
pub use stat::{encode_stat, parse_stat};
pub use vector::{VectorData, element_header, parse_element_header};

use crate::code::Status;
use crate::header::ResponseHeader;
use crate::page::StatusFrame;

/// A decoded response: its kind, and its body if it can be decoded without the request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Response<'a> {
    Ok(&'a [u8]),
    OkSoFar(&'a [u8]),
    Error(ErrorBody),
    Redirect(Redirect),
    Wait(Wait),
    WaitResponse(Wait),
    Attention(Attention<'a>),
    AuthMore(&'a [u8]),
    /// A response with its own checksum; its data follows the body.
    Status(StatusFrame),
}

impl<'a> Response<'a> {
    /// Decodes a response of which header and whole body have arrived.
    ///
    /// # Errors
    /// When the body does not follow the protocol, or nothing is known of the status.
    pub fn decode(header: &ResponseHeader, body: &'a [u8]) -> Result<Self, ResponseError> {
        Ok(match header.status {
            Status::OK => Self::Ok(body),
            Status::OKSOFAR => Self::OkSoFar(body),
            Status::ERROR => Self::Error(ErrorBody::parse(body)?),
            Status::REDIRECT => Self::Redirect(Redirect::parse(body)?),
            Status::WAIT => Self::Wait(Wait::parse(body)?),
            Status::WAITRESP => Self::WaitResponse(Wait::parse(body)?),
            Status::ATTN => Self::Attention(Attention::parse(body)?),
            Status::AUTHMORE => Self::AuthMore(body),
            Status::STATUS => Self::Status(StatusFrame::decode(header.stream_id, body)?),
            _ => return Err(ResponseError::Malformed { what: "response status" }),
        })
    }
}
