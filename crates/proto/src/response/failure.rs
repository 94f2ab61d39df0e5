//! Bodies of error, wait and waitresp.

use super::ResponseError;
use crate::code::ErrorCode;
use crate::wire::lossy;
use crate::wire::{Reader, unsigned32};

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
