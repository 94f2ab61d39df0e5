//! The file of an index on a disk that may become full.

use forebay_store::{Reserve, allocate, allocate_behind};
use parking_lot::Mutex;
use redb::{BackendError, StorageBackend, backends::FileBackend};
use std::{fs::File, io, ops::Bound, path::Path};

/// Suffix of the reserve's name.
const RESERVE_SUFFIX: &str = ".reserve";

/// The file of an index. It grows by allocated space only, so that a commit which needs no more of it cannot fail on a full disk.
/// It grows into space behind its end, which is its own; beyond that, growing releases a reserve on a full disk.
#[derive(Debug)]
pub(crate) struct Storage {
    backend: FileBackend,
    file: File,
    reserve: Reserve,
    /// Whether all of the space behind the end of the file is allocated.
    has_space_behind: Mutex<bool>,
}

impl Storage {
    pub(crate) fn new(file: File, path: &Path) -> io::Result<Self> {
        let mut reserve = path.as_os_str().to_owned();
        reserve.push(RESERVE_SUFFIX);
        let backend = FileBackend::new(file.try_clone()?).map_err(io::Error::other)?;
        let reserve = Reserve::new(reserve.into());
        let storage = Self { backend, file, reserve, has_space_behind: Mutex::new(false) };
        storage.allocate_behind();
        Ok(storage)
    }

    /// Allocates the space behind the end of the file, unless that is done. Without the room for it the next commit tries again.
    fn allocate_behind(&self) {
        let mut has_space_behind = self.has_space_behind.lock();
        if !*has_space_behind {
            *has_space_behind = allocate_behind(&self.file).is_ok();
        }
    }
}

impl StorageBackend for Storage {
    fn len(&self) -> io::Result<u64> {
        self.backend.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.backend.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let resized = self.reserve.run(|| {
            allocate(&self.file, len)?;
            // Not of the same length, which would cut off the space behind the end as well.
            if self.backend.len()? == len { Ok(()) } else { self.backend.set_len(len) }
        });
        // A longer file has used some of it, a shorter one has lost it.
        *self.has_space_behind.lock() = false;
        self.allocate_behind();
        resized
    }

    fn sync_data(&self) -> io::Result<()> {
        // Not repeated: after a failure the kernel may have dropped pages that it could not write, and the next call succeeds without them.
        self.reserve.run_once(|| self.backend.sync_data())?;
        // Right after a commit: what the purge has freed since the last one is there for the next emergency.
        self.allocate_behind();
        self.reserve.restore();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.reserve.run(|| self.backend.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.backend.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.backend.try_lock_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.backend.lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.backend.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.backend.query_lock_range(start, end)
    }
}
