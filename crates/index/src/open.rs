//! Where an index is kept; opening its file, and putting a damaged one aside.

use crate::{
    Index, IndexError,
    storage::Storage,
    tables::{FORMAT, META, META_FORMAT, META_NEXT_ID},
};
use redb::{Database, ReadableDatabase as _, StorageBackend, backends::InMemoryBackend};
use std::{
    fmt,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// Set-up of an index.
#[derive(Clone, Copy, Debug)]
pub struct IndexOptions {
    /// Bytes of it that are held in memory at most.
    pub cache_bytes: usize,
}

/// The state of the index file before it was opened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Found {
    Fresh,
    Existing,
    /// Something that is of no use. It was moved aside, and a new index begun.
    Replaced {
        reason: String,
    },
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self { cache_bytes: 64 << 20 }
    }
}

/// Suffix of a file that was moved aside. The next one takes its place.
const ASIDE_SUFFIX: &str = ".replaced";

impl Index {
    /// Opens the index in the file `path`, which is created with its directory if need be. A file that is damaged or of
    /// another version is moved aside.
    ///
    /// # Errors
    /// When the operating system refuses, or another process has the index open.
    pub fn open(path: &Path, options: IndexOptions) -> Result<(Self, Found), IndexError> {
        match open_file(path, options) {
            Err(error) if error.is_damage() => {
                move_aside(path)?;
                let (index, _) = open_file(path, options)?;
                Ok((index, Found::Replaced { reason: error.to_string() }))
            }
            other => other,
        }
    }

    /// Moves the file of an index aside that turned out to be damaged, so that the next [`Index::open`] begins a new one.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn discard(path: &Path) -> Result<(), IndexError> {
        move_aside(path)
    }

    /// Opens the index that `backend` holds.
    ///
    /// # Errors
    /// When it holds something else, or fails.
    pub fn with_backend(backend: impl StorageBackend, options: IndexOptions) -> Result<(Self, Found), IndexError> {
        // The store below panics on some damages instead of reporting them.
        catch_unwind(AssertUnwindSafe(|| open_backend(backend, options)))
            .unwrap_or(Err(IndexError::Damaged { what: "its structure" }))
    }
}

fn open_file(path: &Path, options: IndexOptions) -> Result<(Index, Found), IndexError> {
    let failed = |source: io::Error| IndexError::Io { operation: "opening", source };
    if let Some(directory) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    }
    let file = open_private(path).map_err(failed)?;
    let storage = Storage::new(file, path).map_err(failed)?;
    Index::with_backend(storage, options)
}

/// Opens a file that only the server's user may read.
fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn move_aside(path: &Path) -> Result<(), IndexError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(ASIDE_SUFFIX);
    std::fs::rename(path, PathBuf::from(aside)).map_err(|source| IndexError::Io { operation: "moving aside", source })
}

fn open_backend(backend: impl StorageBackend, options: IndexOptions) -> Result<(Index, Found), IndexError> {
    let is_new = backend.len().map_err(|source| IndexError::Io { operation: "opening", source })? == 0;
    let mut builder = Database::builder();
    builder.set_cache_size(options.cache_bytes);
    let database = builder.create_with_backend(backend)?;
    let index = Index { database, next_id: AtomicU64::new(0) };
    if is_new {
        index.initialize()?;
        return Ok((index, Found::Fresh));
    }
    match index.meta(META_FORMAT)? {
        Some(FORMAT) => {
            let next_id = index.meta(META_NEXT_ID)?.ok_or(IndexError::Damaged { what: "the next number" })?;
            index.next_id.store(next_id, Ordering::Relaxed);
            Ok((index, Found::Existing))
        }
        // It was killed before its first commit.
        None if index.has_no_tables()? => {
            index.initialize()?;
            Ok((index, Found::Fresh))
        }
        _ => Err(IndexError::Damaged { what: "its version" }),
    }
}

impl Index {
    fn initialize(&self) -> Result<(), IndexError> {
        self.write(|writer| writer.set_meta(META_FORMAT, FORMAT))
    }

    pub(crate) fn meta(&self, name: &str) -> Result<Option<u64>, IndexError> {
        let transaction = self.database.begin_read()?;
        match transaction.open_table(META) {
            Ok(table) => Ok(table.get(name)?.map(|value| value.value())),
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn has_no_tables(&self) -> Result<bool, IndexError> {
        let transaction = self.database.begin_read()?;
        let mut tables = transaction.list_tables()?;
        Ok(tables.next().is_none())
    }
}

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
