//! Errors of the index.

use forebay_types::Side;
use std::io;

/// Errors of the index. None of them concerns cached bytes: the index can be rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("{operation} the index")]
    Io { operation: &'static str, source: io::Error },
    #[error("the index is damaged: {what} cannot be read")]
    Damaged { what: &'static str },
    #[error("{operation} the index: {reason}")]
    Store { operation: &'static str, reason: String },
}

impl IndexError {
    /// Whose side the error is on: always the cache's own disk.
    pub const fn side(&self) -> Side {
        Side::Disk
    }

    /// Whether the same may succeed once the index was opened again, without losing what it holds.
    pub const fn is_retryable(&self) -> bool {
        !self.is_damage()
    }

    /// Whether the file must be replaced.
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

/// Whether an error of this kind is about the file's content: not an index, or shorter than its header says.
const fn is_damage(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}
