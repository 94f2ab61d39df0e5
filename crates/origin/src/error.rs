//! How an origin can fail.

use crate::RefusalKind;
use forebay_types::{Endpoint, Side};

/// Why an origin did not deliver. Cheap to clone: all callers that share an attempt get its failure.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OriginError {
    /// No connection could be made.
    #[error("origin {endpoint} cannot be reached: {reason}")]
    Unreachable { endpoint: Endpoint, reason: String },
    /// The connection ended, or went silent, before the answer was complete.
    #[error("origin {endpoint} was lost while {doing}: {reason}")]
    Lost { endpoint: Endpoint, doing: &'static str, reason: String },
    /// No answer within the time limit.
    #[error("origin {endpoint} did not answer within {seconds} s while {doing}")]
    TimedOut { endpoint: Endpoint, doing: &'static str, seconds: u64 },
    /// The origin answered with an error of its own; `text` is its text.
    #[error("{text} (origin {endpoint})")]
    Refused { endpoint: Endpoint, kind: RefusalKind, text: String },
    /// Bytes did not match their checksum, also when asked for again.
    #[error("origin {endpoint} sent corrupt bytes at offset {offset}, also when asked again")]
    Corrupt { endpoint: Endpoint, offset: u64 },
    /// The origin sent fewer bytes than the file has, from `offset` on.
    #[error("origin {endpoint} sent {received_bytes} of {expected_bytes} bytes at offset {offset}")]
    ShortRead { endpoint: Endpoint, offset: u64, received_bytes: u64, expected_bytes: u64 },
    /// The file is not the one that was opened before.
    #[error("the file changed at origin {endpoint} while it was read")]
    Changed { endpoint: Endpoint },
    /// Redirected more than `limit` times, or in a circle, from `endpoint` on.
    #[error("origin {endpoint} redirects in a circle or more than {limit} times")]
    RedirectLoop { endpoint: Endpoint, limit: u32 },
    /// A redirect to a server that the settings exclude, or that is not to be reached from outside.
    #[error("origin {endpoint} redirects to {target}, which is refused: {reason}")]
    RedirectRefused { endpoint: Endpoint, target: Endpoint, reason: String },
    /// The origin is this cache: a request would wait for itself.
    #[error("origin {endpoint} is this cache itself, at {address}: name the server that has the file")]
    Itself { endpoint: Endpoint, address: String },
    /// The connection is not encrypted as it must be, or the server has not proven its identity.
    #[error("origin {endpoint} cannot be reached over TLS: {reason}")]
    Tls { endpoint: Endpoint, reason: String },
    /// The server wants a proof of identity and does not accept ours.
    #[error("origin {endpoint} does not let this cache in: {reason}")]
    Authentication { endpoint: Endpoint, reason: String },
    /// The peer breaks the protocol, or demands something that this release cannot do.
    #[error("origin {endpoint}: {what}")]
    Protocol { endpoint: Endpoint, what: String },
}

impl OriginError {
    /// Whose side the error is on: always the origin's.
    #[must_use]
    pub const fn side(&self) -> Side {
        Side::Origin
    }

    /// The server that failed; for a redirect loop, the first server asked.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        match self {
            Self::Unreachable { endpoint, .. }
            | Self::Lost { endpoint, .. }
            | Self::TimedOut { endpoint, .. }
            | Self::Refused { endpoint, .. }
            | Self::Corrupt { endpoint, .. }
            | Self::ShortRead { endpoint, .. }
            | Self::Changed { endpoint }
            | Self::RedirectLoop { endpoint, .. }
            | Self::RedirectRefused { endpoint, .. }
            | Self::Itself { endpoint, .. }
            | Self::Tls { endpoint, .. }
            | Self::Authentication { endpoint, .. }
            | Self::Protocol { endpoint, .. } => endpoint,
        }
    }

    /// The reason for a refusal, when the origin has answered at all.
    #[must_use]
    pub const fn refusal(&self) -> Option<RefusalKind> {
        match self {
            Self::Refused { kind, .. } => Some(*kind),
            _ => None,
        }
    }

    /// Whether the origin has answered that there is no such file.
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { kind: RefusalKind::NotFound, .. })
    }

    /// Whether asking again later can help, be it the same server or another one.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Lost { .. }
            | Self::TimedOut { .. }
            | Self::Corrupt { .. }
            | Self::ShortRead { .. } => true,
            Self::Refused { kind, .. } => kind.is_retryable(),
            // The same server would give the same result.
            Self::Changed { .. }
            | Self::RedirectLoop { .. }
            | Self::RedirectRefused { .. }
            | Self::Itself { .. }
            | Self::Tls { .. }
            | Self::Authentication { .. }
            | Self::Protocol { .. } => false,
        }
    }
}
