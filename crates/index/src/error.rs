//! Errors of the index.

use forebay_types::Side;
use std::io;

/// What the index could not do. None of it concerns what is cached: the index can be made again.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The operating system refused. The index must be opened again before it is used further.
    #[error("{operation} the index")]
    Io {
        /// What was being done.
        operation: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The file holds something else than was written. It must be replaced by a new one.
    #[error("the index is damaged: {what} cannot be read")]
    Damaged {
        /// The part that was found damaged.
        what: &'static str,
    },
    /// The store under the index refuses, with a reason of its own.
    #[error("{operation} the index: {reason}")]
    Store {
        /// What was being done.
        operation: &'static str,
        /// Why it failed.
        reason: String,
    },
}

impl IndexError {
    /// Whose side the error is on: always the cache's own disk.
    #[must_use]
    pub const fn side(&self) -> Side {
        Side::Disk
    }

    /// Whether the same may succeed once the index was opened again, without losing what it holds.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        !self.is_damage()
    }

    /// Whether the file must be replaced.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }

    /// Wraps what the store under the index said about `operation`.
    pub(crate) fn store<E: Into<redb::Error>>(operation: &'static str) -> impl Fn(E) -> Self {
        move |error| match error.into() {
            redb::Error::Corrupted(_) | redb::Error::UpgradeRequired(_) => Self::Damaged { what: "its structure" },
            redb::Error::TableTypeMismatch { .. } | redb::Error::TypeDefinitionChanged { .. } => {
                Self::Damaged { what: "a table" }
            }
            redb::Error::Io(error) if is_damage(error.kind()) => Self::Damaged { what: "its file" },
            redb::Error::Io(source) => Self::Io { operation, source },
            other => Self::Store { operation, reason: other.to_string() },
        }
    }
}

/// Whether an error of this kind tells of the file's content: not one of ours, or shorter than it says.
const fn is_damage(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}
