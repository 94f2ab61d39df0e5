//! Where an index is kept.

use crate::{Found, Index, IndexError, IndexOptions};
use redb::backends::InMemoryBackend;
use std::{fmt, path::PathBuf};

/// Where an index is kept. All methods block.
pub trait IndexPlace: fmt::Debug + Send + Sync {
    /// Opens the index, or begins a new one.
    ///
    /// # Errors
    /// See [`Index::open`].
    fn open(&self) -> Result<(Index, Found), IndexError>;

    /// Puts an index aside that turned out to be damaged, after it was closed: the next [`Self::open`] begins a new one.
    ///
    /// # Errors
    /// When that cannot be done.
    fn discard(&self) -> Result<(), IndexError>;
}

/// An index in a file.
#[derive(Clone, Debug)]
pub struct IndexFile {
    pub path: PathBuf,
    pub options: IndexOptions,
}

/// An index in memory, which is new at each start.
#[derive(Clone, Copy, Debug, Default)]
pub struct VolatileIndex;

impl IndexPlace for IndexFile {
    fn open(&self) -> Result<(Index, Found), IndexError> {
        Index::open(&self.path, self.options)
    }

    fn discard(&self) -> Result<(), IndexError> {
        Index::discard(&self.path)
    }
}

impl IndexPlace for VolatileIndex {
    fn open(&self) -> Result<(Index, Found), IndexError> {
        Index::with_backend(InMemoryBackend::new(), IndexOptions::default())
    }

    fn discard(&self) -> Result<(), IndexError> {
        Ok(())
    }
}
