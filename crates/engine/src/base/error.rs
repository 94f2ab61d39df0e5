//! Everything that can go wrong between a front and its bytes.

use forebay_cache::ForwardingError;
use forebay_origin::OriginError;
use forebay_types::{Lfn, LfnError, OriginId, Side};

/// Why a request could not be served. Cheap to clone: one failure may be reported to several waiters.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Path(#[from] LfnError),
    #[error("path {lfn} is disallowed: no export covers it")]
    NotExported { lfn: Lfn },
    #[error("forwarding to {origin} is disallowed: it is not on this cache's list of origins")]
    ForwardingDenied { origin: OriginId },
    #[error("{error}")]
    Forwarding { error: ForwardingError },
    #[error("{what} is not supported")]
    Unsupported { what: String },
    #[error("{lfn}: no such file or directory")]
    NotFound { lfn: Lfn },
    #[error("{lfn} is a directory")]
    IsDirectory { lfn: Lfn },
    #[error("{lfn} is not a directory")]
    NotDirectory { lfn: Lfn },
    #[error("{lfn} may not be read by the server")]
    NotReadable { lfn: Lfn },
    #[error(transparent)]
    Origin(#[from] OriginError),
    #[error("{lfn} changed at its origin: open it again")]
    Changed { lfn: Lfn },
    #[error(
        "{lfn} was last found unchanged {seconds} s ago, and its origin {origin} cannot be asked now: try again later ({reason})"
    )]
    Stale { lfn: Lfn, origin: OriginId, seconds: u64, reason: String },
    #[error("{lfn} is not in the cache")]
    NotCached { lfn: Lfn },
    #[error("{lfn}: neither the filler of the cache nor the origin can be used now: try again later")]
    NoServer { lfn: Lfn },
    #[error("{doing} {lfn}: {reason}")]
    Disk { lfn: Lfn, doing: &'static str, reason: String },
    #[error("{limit} files are open, no more fit: try again later")]
    TooManyOpen { limit: usize },
    #[error("{limit} files are to be fetched already, no more fit: try again later")]
    TooManyWanted { limit: usize },
    #[error("the old copy is still being removed after {seconds} s: try again later")]
    BeingRemoved { seconds: u64 },
    #[error("no memory was free for {seconds} s: try again later, or give the cache a larger memory budget")]
    OutOfMemory { seconds: u64 },
    #[error("the index of the cache is not in use at the moment: try again later")]
    NoIndex,
    #[error("the server is shutting down")]
    ShuttingDown,
    #[error("internal error: {what}")]
    Internal { what: &'static str },
}

impl Error {
    /// The disk failed `doing` something to `lfn`.
    pub(crate) fn disk(lfn: &Lfn, doing: &'static str, reason: impl ToString) -> Self {
        Self::Disk { lfn: lfn.clone(), doing, reason: reason.to_string() }
    }

    pub const fn side(&self) -> Side {
        match self {
            Self::Path(_) | Self::NotFound { .. } | Self::IsDirectory { .. } | Self::NotDirectory { .. } => {
                Side::Client
            }
            Self::Forwarding { .. }
            | Self::Unsupported { .. }
            | Self::TooManyOpen { .. }
            | Self::TooManyWanted { .. }
            | Self::NotCached { .. } => Side::Client,
            Self::NotExported { .. } | Self::ForwardingDenied { .. } | Self::NotReadable { .. } => Side::Authorization,
            Self::Origin(_) | Self::Changed { .. } | Self::Stale { .. } | Self::NoServer { .. } => Side::Origin,
            Self::Disk { .. } | Self::NoIndex | Self::BeingRemoved { .. } => Side::Disk,
            Self::OutOfMemory { .. } | Self::ShuttingDown | Self::Internal { .. } => Side::Internal,
        }
    }

    pub const fn is_retryable(&self) -> bool {
        match self {
            // The origin's own answer decides: a refusal stays one, a lost connection does not.
            Self::Origin(error) => error.is_retryable(),
            Self::Changed { .. }
            | Self::Stale { .. }
            | Self::NoServer { .. }
            | Self::TooManyOpen { .. }
            | Self::TooManyWanted { .. }
            | Self::OutOfMemory { .. }
            | Self::NoIndex
            | Self::BeingRemoved { .. }
            | Self::ShuttingDown => true,
            // Repeating the request changes nothing about the others: the client, the configuration or the disk has to change.
            _ => false,
        }
    }
}

pub(crate) fn with_cause(error: &dyn std::error::Error) -> String {
    // One level: the messages of the store and the index name their cause in the source only.
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}
