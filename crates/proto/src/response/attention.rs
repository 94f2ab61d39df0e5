//! Unsolicited messages: answers that a `waitresp` has promised, and texts for the user.

use super::ResponseError;
use crate::header::ResponseHeader;
use crate::wire::Reader;

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
