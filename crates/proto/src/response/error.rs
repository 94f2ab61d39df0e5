//! Responses that do not follow the protocol.

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
