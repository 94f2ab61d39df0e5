//! The file of an index on a disk that may become full.

use forebay_store::{Reserve, allocate};
use redb::{BackendError, StorageBackend, backends::FileBackend};
use std::{fs::File, io, ops::Bound, path::Path};

/// Suffix of the reserve's name.
const RESERVE_SUFFIX: &str = ".reserve";

/// The file of an index. It grows by allocated space only, so that a commit which needs no more of it cannot fail on a full disk;
/// growing releases a reserve there.
#[derive(Debug)]
pub(crate) struct Storage {
    backend: FileBackend,
    file: File,
    reserve: Reserve,
}

impl Storage {
    pub(crate) fn new(file: File, path: &Path) -> io::Result<Self> {
        let mut reserve = path.as_os_str().to_owned();
        reserve.push(RESERVE_SUFFIX);
        let backend = FileBackend::new(file.try_clone()?).map_err(io::Error::other)?;
        Ok(Self { backend, file, reserve: Reserve::new(reserve.into()) })
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
        self.reserve.run(|| {
            allocate(&self.file, len)?;
            self.backend.set_len(len)
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        // Not repeated: after a failure the kernel may have dropped pages that it could not write, and the next call succeeds without them.
        self.reserve.run_once(|| self.backend.sync_data())?;
        // Right after a commit: what the purge has freed since the last one is there for the next emergency.
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
