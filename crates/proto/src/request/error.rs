//! Requests that cannot be understood.

use crate::code::ErrorCode;
use forebay_types::Side;

/// Why a request cannot be understood; sent to the client. The connection stays usable.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{text} ({code})")]
pub struct RequestError {
    pub code: ErrorCode,
    pub text: &'static str,
}

impl RequestError {
    pub(crate) const fn new(code: ErrorCode, text: &'static str) -> Self {
        Self { code, text }
    }

    pub(crate) const fn invalid(text: &'static str) -> Self {
        Self::new(ErrorCode::ARG_INVALID, text)
    }

    pub const fn side(&self) -> Side {
        Side::Client
    }

    /// Never: the same request stays wrong.
    pub const fn is_retryable(&self) -> bool {
        false
    }
}
