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
    #[error("using the index: {reason}")]
    Store { reason: String },
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

    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }
}

impl From<redb::Error> for IndexError {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::Corrupted(_) | redb::Error::UpgradeRequired(_) => Self::Damaged { what: "its structure" },
            redb::Error::TableTypeMismatch { .. } | redb::Error::TypeDefinitionChanged { .. } => {
                Self::Damaged { what: "a table" }
            }
            redb::Error::Io(error) if is_damage(error.kind()) => Self::Damaged { what: "its file" },
            redb::Error::Io(source) => Self::Io { operation: "accessing", source },
            other => Self::Store { reason: other.to_string() },
        }
    }
}

/// Each kind of operation of the store below has errors of its own.
macro_rules! from_redb {
    ($($error:ident),*) => {$(
        impl From<redb::$error> for IndexError {
            fn from(error: redb::$error) -> Self {
                redb::Error::from(error).into()
            }
        }
    )*};
}

from_redb!(CommitError, DatabaseError, StorageError, TableError, TransactionError);

/// Whether an error of this kind is about the file's content: not an index, or shorter than its header says.
const fn is_damage(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}
