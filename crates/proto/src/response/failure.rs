//! Errors, waits, unsolicited messages, and responses that do not follow the protocol.

use crate::code::ErrorCode;
use crate::header::ResponseHeader;
use crate::wire::{Reader, lossy, unsigned32};

/// A response that does not follow the protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ResponseError {
    #[error("the {what} ends too early")]
    Truncated { what: &'static str },
    #[error("the {what} is malformed")]
    Malformed { what: &'static str },
    #[error("the {what} is too long")]
    TooLong { what: &'static str },
    #[error("the {what} has a wrong checksum")]
    ChecksumMismatch { what: &'static str },
}

impl ResponseError {
    /// Whether asking again over a new connection can help: only when bytes were damaged on the way.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::ChecksumMismatch { .. })
    }
}

/// The error that a server answers a request with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ErrorBody {
    pub code: ErrorCode,
    /// The server's text, trimmed; may be empty.
    pub text: String,
}

impl ErrorBody {
    /// # Errors
    /// When it is too short for a code.
    pub fn parse(body: &[u8]) -> Result<Self, ResponseError> {
        let mut reader = Reader::new(body);
        let code = ErrorCode(reader.u32().ok_or(ResponseError::Truncated { what: "error" })?);
        Ok(Self { code, text: lossy(reader.rest()).trim().to_owned() })
    }
}

/// How long to wait, and why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Wait {
    /// Seconds to wait; for `waitresp`, the longest that the answer may take.
    pub seconds: u32,
    /// The server's text; may be empty.
    pub text: String,
}

impl Wait {
    /// Parses the body of a wait or waitresp.
    ///
    /// # Errors
    /// When it is too short for a number, or the number is negative.
    pub fn parse(body: &[u8]) -> Result<Self, ResponseError> {
        let mut reader = Reader::new(body);
        let seconds = reader.u32().ok_or(ResponseError::Truncated { what: "wait" })?;
        let seconds = unsigned32(seconds).ok_or(ResponseError::Malformed { what: "wait" })?;
        Ok(Self { seconds, text: lossy(reader.rest()).trim().to_owned() })
    }
}

/// Bytes between the header of an unsolicited message and the body of the answer in it.
pub const DEFERRED_PREFIX_LEN: u32 = 16;

/// Action number of a message for the user.
const ASYNC_MESSAGE: u32 = 5002;

/// Action number of an answer that a `waitresp` has promised.
pub(super) const ASYNC_RESPONSE: u32 = 5008;

/// An unsolicited message of the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Attention<'a> {
    /// The answer to a request that a `waitresp` had put off.
    Deferred {
        header: ResponseHeader,
        /// The answer's body. May be cut off where the message was; the header knows its length.
        body: &'a [u8],
    },
    Message(&'a [u8]),
    /// Something that no server sends any more; to be ignored.
    Other(u32),
}

impl<'a> Attention<'a> {
    /// Parses the body of an unsolicited message. The first [`DEFERRED_PREFIX_LEN`] bytes suffice to learn of which
    /// answer the rest is the body.
    ///
    /// # Errors
    /// When it ends within a header, or the inner length is negative.
    pub fn parse(body: &'a [u8]) -> Result<Self, ResponseError> {
        const WHAT: &str = "unsolicited message";
        let mut reader = Reader::new(body);
        let action = reader.u32().ok_or(ResponseError::Truncated { what: WHAT })?;
        match action {
            ASYNC_MESSAGE => Ok(Self::Message(reader.rest())),
            ASYNC_RESPONSE => {
                let header = reader.u32().and_then(|_| reader.array());
                let header = header.ok_or(ResponseError::Truncated { what: WHAT })?;
                let header = ResponseHeader::decode(&header).map_err(|_| ResponseError::Malformed { what: WHAT })?;
                Ok(Self::Deferred { header, body: reader.rest() })
            }
            _ => Ok(Self::Other(action)),
        }
    }
}
