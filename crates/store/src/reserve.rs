//! Disk space that is set aside for the time when the disk is full.

use parking_lot::Mutex;
use rustix::{
    fs::{FallocateFlags, fallocate, fstatvfs},
    io::Errno,
};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Share of a file system that a reserve takes: enough for the records that a purge writes.
const SHARE: u64 = 128;

/// Size of a reserve in bytes, at most.
const BYTES_MAX: u64 = 16 << 20;

/// Unit of allocated blocks in metadata (POSIX leaves it open, Linux has 512).
const STAT_BLOCK: u64 = 512;

/// Bytes behind the end of a file that grows, at least: about the length of a new index.
const BEHIND_MIN: u64 = 1 << 20;

/// A file whose only purpose is its space and its inode: it is removed when something small has to be written to a full disk,
/// and made again when there is room.
#[derive(Debug)]
pub struct Reserve {
    path: PathBuf,
    is_held: Mutex<bool>,
}

impl Reserve {
    /// The reserve in the file `path`, allocated unless the disk is full.
    pub fn new(path: PathBuf) -> Self {
        let reserve = Self { path, is_held: Mutex::new(false) };
        reserve.restore();
        reserve
    }

    /// Removes the file, if there is one; whether that freed anything.
    pub fn release(&self) -> bool {
        let mut is_held = self.is_held.lock();
        *is_held = false;
        Self::release_at(&self.path)
    }

    /// As [`Self::release`], before the store is open.
    pub(crate) fn release_at(path: &Path) -> bool {
        let is_removed = fs::remove_file(path).is_ok();
        if is_removed {
            tracing::warn!(path = %path.display(), "the disk is full: using the space that was reserved for that");
        }
        is_removed
    }

    /// Allocates the file again if it was released. Without the room for it the reserve stays released.
    pub fn restore(&self) {
        let mut is_held = self.is_held.lock();
        if !*is_held {
            *is_held = self.allocate().is_ok();
            if !*is_held {
                // A part of it would take space that others need now.
                let _ = fs::remove_file(&self.path);
            }
        }
    }

    /// Runs `write`; if it finds the disk full and the reserve can be released, runs it again.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn run<T>(&self, write: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match write() {
            Err(error) if is_out_of_space(&error) && self.release() => write(),
            other => other,
        }
    }

    /// Runs `write` once; if it finds the disk full, releases the reserve for what is written later. For operations of which a second one
    /// may succeed although the first one lost data.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn run_once<T>(&self, write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let written = write();
        if written.as_ref().is_err_and(is_out_of_space) {
            self.release();
        }
        written
    }

    fn allocate(&self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
        allocate(&file, share_of_disk(&file)?.min(BYTES_MAX))
    }
}

/// The share of its file system that a file which is not an entry takes at most ahead of its needs.
fn share_of_disk(file: &File) -> io::Result<u64> {
    let space = fstatvfs(file)?;
    Ok(space.f_blocks.saturating_mul(space.f_frsize) / SHARE)
}

/// Makes `file` at least `len` bytes long, with space for each of them.
///
/// # Errors
/// When the disk has no room; the file may have become longer.
pub fn allocate(file: &File, len: u64) -> io::Result<()> {
    let before = file.metadata()?.len();
    let Some(added) = len.checked_sub(before).filter(|added| *added > 0) else { return Ok(()) };
    match fallocate(file, FallocateFlags::empty(), before, added) {
        // Network file systems: nothing can be reserved there.
        Err(Errno::NOTSUP) => file.set_len(len),
        other => Ok(other?),
    }
}

/// Allocates space behind the end of `file`, as much again as it has, but at least 1 MiB: it can grow by that although the disk is
/// full, and no other writer can take it in the meantime. A share of the disk is the limit. Cutting the file off gives it up.
///
/// # Errors
/// When it would take more than half of the room that is left.
pub fn allocate_behind(file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    let len = metadata.len();
    let wanted = len.max(BEHIND_MIN).min(share_of_disk(file)?);
    let allocated = metadata.blocks().saturating_mul(STAT_BLOCK).saturating_sub(len);
    let space = fstatvfs(file)?;
    // The rest is for records, and for those who wait for a purge: an allocation that fails would keep what it has got.
    if wanted.saturating_sub(allocated) > space.f_bavail.saturating_mul(space.f_frsize) / 2 {
        return Err(io::ErrorKind::StorageFull.into());
    }
    match fallocate(file, FallocateFlags::KEEP_SIZE, len, wanted) {
        // As in `allocate`.
        Err(Errno::NOTSUP) => Ok(()),
        other => Ok(other?),
    }
}

/// Whether the disk, or our share of it, is full.
pub(crate) fn is_out_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_write_that_finds_the_disk_full_is_repeated_with_the_reserve_released() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("reserve");
        let reserve = Reserve::new(path.clone());
        assert!(path.metadata().unwrap().len() > 0);
        let runs = Cell::new(0);
        let full_while_held = || {
            runs.set(runs.get() + 1);
            if path.exists() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        };
        reserve.run(full_while_held).unwrap();
        assert_eq!(runs.get(), 2);
        let always_full = || {
            runs.set(runs.get() + 1);
            Err::<(), _>(io::ErrorKind::QuotaExceeded.into())
        };
        assert_eq!(reserve.run(always_full).unwrap_err().kind(), io::ErrorKind::QuotaExceeded);
        assert_eq!(runs.get(), 3, "there is no reserve left");
        reserve.restore();
        assert!(path.metadata().unwrap().len() > 0);
        let broken = || Err::<(), _>(io::ErrorKind::Other.into());
        assert_eq!(reserve.run(broken).unwrap_err().kind(), io::ErrorKind::Other);
        assert!(path.exists(), "another error does not release it");
    }

    #[test]
    fn what_must_not_be_repeated_fails_and_releases_the_reserve() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("reserve");
        let reserve = Reserve::new(path.clone());
        assert_eq!(
            reserve.run_once(|| Err::<(), _>(io::ErrorKind::Other.into())).unwrap_err().kind(),
            io::ErrorKind::Other
        );
        assert!(path.exists());
        let runs = Cell::new(0);
        let full_while_held = || {
            runs.set(runs.get() + 1);
            if path.exists() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        };
        assert_eq!(reserve.run_once(full_while_held).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!((runs.get(), path.exists()), (1, false));
    }
}
