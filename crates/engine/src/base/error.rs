//! Everything that can go wrong between a front and its bytes.

use forebay_cache::ForwardingError;
use forebay_origin::OriginError;
use forebay_types::{Lfn, LfnError, OriginId, Side};

/// Why a request could not be served. Cheap to clone: one failure may be reported to several waiters.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// The path is malformed.
    #[error(transparent)]
    Path(#[from] LfnError),
    /// No export covers the path.
    #[error("path {lfn} is disallowed: no export covers it")]
    NotExported { lfn: Lfn },
    /// The origin that the path names is not on the allow-list.
    #[error("forwarding to {origin} is disallowed: it is not on this cache's list of origins")]
    ForwardingDenied { origin: OriginId },
    /// The path names an origin in a way that cannot be served.
    #[error("{error}")]
    Forwarding { error: ForwardingError },
    /// Something this release cannot do.
    #[error("{what} is not supported")]
    Unsupported { what: String },
    /// The path does not exist in an exported directory.
    #[error("{lfn}: no such file or directory")]
    NotFound { lfn: Lfn },
    /// A directory where a file was wanted.
    #[error("{lfn} is a directory")]
    IsDirectory { lfn: Lfn },
    /// A file where a directory was wanted.
    #[error("{lfn} is not a directory")]
    NotDirectory { lfn: Lfn },
    /// The operating system does not let the server read an exported file.
    #[error("{lfn} may not be read by the server")]
    NotReadable { lfn: Lfn },
    /// The origin failed or refused.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// The copy in the cache belongs to an older content of the file; opening it again helps.
    #[error("{lfn} changed at its origin: open it again")]
    Changed { lfn: Lfn },
    /// The copy in the cache could not be compared with its origin for too long.
    #[error(
        "{lfn} was last found unchanged {seconds} s ago, and its origin {origin} cannot be asked now: try again later ({reason})"
    )]
    Stale {
        lfn: Lfn,
        origin: OriginId,
        /// Age of the last good check in seconds.
        seconds: u64,
        /// Why the origin cannot be asked.
        reason: String,
    },
    /// The client wants the file only if it is in the cache, and it is not.
    #[error("{lfn} is not in the cache")]
    NotCached { lfn: Lfn },
    /// A manager has no server left to which it could send the client.
    #[error("{lfn}: neither the filler of the cache nor the origin can be used now: try again later")]
    NoServer { lfn: Lfn },
    /// The disk of the cache, or of an exported directory, failed.
    #[error("{doing} {lfn}: {reason}")]
    Disk {
        lfn: Lfn,
        /// Operation that failed, as a verb form: `reading`.
        doing: &'static str,
        /// The message of the operating system.
        reason: String,
    },
    /// Too many files are open.
    #[error("{limit} files are open, no more fit: try again later")]
    TooManyOpen {
        /// Files open at most.
        limit: usize,
    },
    /// Clients want too many files to be fetched.
    #[error("{limit} files are to be fetched already, no more fit: try again later")]
    TooManyWanted {
        /// Files that wait at most.
        limit: usize,
    },
    /// The file's old copy is being removed from the cache, and the disk does not come to an end with it.
    #[error("the old copy is still being removed after {seconds} s: try again later")]
    BeingRemoved {
        /// How long the open waited, in seconds.
        seconds: u64,
    },
    /// Other reads held all of the memory for too long.
    #[error("no memory was free for {seconds} s: try again later, or give the cache a larger memory budget")]
    OutOfMemory {
        /// How long the read waited, in seconds.
        seconds: u64,
    },
    /// The index of the cache is not in use, or being read after a start.
    #[error("the index of the cache is not in use at the moment: try again later")]
    NoIndex,
    /// The server is going down.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// A fault of our own; it costs this request and no other.
    #[error("internal error: {what}")]
    Internal { what: &'static str },
}

impl Error {
    /// Whose side the error is on.
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

    /// Whether the same request may succeed when it is made again.
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
            // Repeating the request changes nothing about these: the client, the configuration or the disk has to
            // change first.
            Self::Path(_)
            | Self::NotExported { .. }
            | Self::ForwardingDenied { .. }
            | Self::Forwarding { .. }
            | Self::Unsupported { .. }
            | Self::NotFound { .. }
            | Self::IsDirectory { .. }
            | Self::NotDirectory { .. }
            | Self::NotReadable { .. }
            | Self::NotCached { .. }
            | Self::Disk { .. }
            | Self::Internal { .. } => false,
        }
    }
}

/// An error and what caused it.
pub(crate) fn with_cause(error: &dyn std::error::Error) -> String {
    // One level: the messages of the store and the index name their cause in the source only.
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}
