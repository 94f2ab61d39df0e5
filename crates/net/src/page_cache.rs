//! Reads of bytes in the page cache only, so that a connection's task never waits for a disk.
//!
//! Built on `preadv2` with `RWF_NOWAIT`. File systems in memory do not have it, nor have some of the network: there the system is asked
//! which pages it has, and a read that may wait is refused. A caller that remembers [`NowaitReads`] of a file system saves the call that
//! fails.

use crate::cache_stat::is_resident;
use rustix::{
    fs::Advice,
    io::{Errno, ReadWriteFlags},
};
use std::{
    fs::File,
    io::{self, IoSliceMut},
    num::NonZeroU64,
};

/// Size of a page of the page cache in bytes, the grain of [`probe_cached`].
pub const PAGE_SIZE: u64 = 4096;

/// Whether a file system supports reads of bytes in the page cache only.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum NowaitReads {
    /// Supported, or not known.
    #[default]
    Supported,
    /// Not supported, and not needed: the file system lies in memory.
    InMemory,
    /// Not supported: each read may wait.
    Unsupported,
}

/// Types of file systems in memory.
const TMPFS_MAGIC: u64 = 0x0102_1994;
const RAMFS_MAGIC: u64 = 0x8584_58f6;

impl NowaitReads {
    /// Asks the file system of `file` by a read of its first byte.
    pub fn of(file: &File) -> Self {
        match read(file, 0, &mut [IoSliceMut::new(&mut [0])], ReadWriteFlags::NOWAIT) {
            Err(errno) if is_unsupported(errno) && is_in_memory(file) => Self::InMemory,
            Err(errno) if is_unsupported(errno) => Self::Unsupported,
            _ => Self::Supported,
        }
    }
}

/// Whether the range is in memory: all of its pages, where the system reports it, and the last one is not on its way from the disk. Else
/// the first and the last: ranges are written and evicted in runs, and a wrong guess costs one wait, not wrong bytes. Also `false` for
/// unreadable ranges, and mostly for those beyond the end: the slow path handles the error.
pub fn probe_cached(file: &File, nowait: NowaitReads, offset: u64, len: u64) -> bool {
    if nowait == NowaitReads::InMemory {
        return true;
    }
    let Some(last) = len.checked_sub(1).map(|behind_first| offset.saturating_add(behind_first)) else {
        return true;
    };
    match is_resident(file, offset, len) {
        resident if nowait == NowaitReads::Unsupported => resident == Some(true),
        // A probe would begin to load its page.
        Some(false) => false,
        Some(true) => is_byte_cached(file, last),
        None => is_byte_cached(file, offset) && (offset / PAGE_SIZE == last / PAGE_SIZE || is_byte_cached(file, last)),
    }
}

/// Whether the page of a byte is in memory, after [`start_loading`] of its range: before, asking would load that page alone.
pub fn is_loaded(file: &File, offset: u64) -> bool {
    is_byte_cached(file, offset)
}

/// Has the kernel read the range into the page cache, exactly and as few requests of the disk. Does not wait for the disk, unless the
/// places of the file's bytes are not in memory, or the queue of the device is full.
///
/// # Errors
/// When the file cannot be read in this way.
pub fn start_loading(file: &File, offset: u64, len: u64) -> io::Result<()> {
    // No length means all of the file.
    let Some(len) = NonZeroU64::new(len) else { return Ok(()) };
    Ok(rustix::fs::fadvise(file, offset, Some(len), Advice::WillNeed)?)
}

/// Reads bytes in memory from `offset` into `buffer`. `None` if the first byte is not in memory; otherwise the number of bytes
/// read, which is short at the end of the cached range or of the file (0 only at the end of the file).
///
/// # Errors
/// The error of the read.
pub fn read_nowait(file: &File, nowait: NowaitReads, offset: u64, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    read_nowait_vectored(file, nowait, offset, &mut [IoSliceMut::new(buffer)])
}

/// Like [`read_nowait`], into several buffers (at most 1024), filled in order.
///
/// # Errors
/// The error of the read.
pub fn read_nowait_vectored(
    file: &File,
    nowait: NowaitReads,
    offset: u64,
    buffers: &mut [IoSliceMut<'_>],
) -> io::Result<Option<usize>> {
    let is_unlimited = match nowait {
        NowaitReads::Supported => false,
        NowaitReads::InMemory => true,
        NowaitReads::Unsupported => {
            let len: usize = buffers.iter().map(|buffer| buffer.len()).sum();
            if len > 0 && is_resident(file, offset, len as u64) != Some(true) {
                return Ok(None);
            }
            true
        }
    };
    if is_unlimited {
        return Ok(Some(read(file, offset, buffers, ReadWriteFlags::empty())?));
    }
    match read(file, offset, buffers, ReadWriteFlags::NOWAIT) {
        Ok(read_len) => Ok(Some(read_len)),
        Err(Errno::AGAIN) => Ok(None),
        Err(errno) if is_unsupported(errno) => Ok(Some(read(file, offset, buffers, ReadWriteFlags::empty())?)),
        Err(errno) => Err(errno.into()),
    }
}

fn is_byte_cached(file: &File, offset: u64) -> bool {
    let mut byte = [0];
    match read(file, offset, &mut [IoSliceMut::new(&mut byte)], ReadWriteFlags::NOWAIT) {
        Ok(_) => true,
        // Beyond the largest possible file there is nothing to wait for.
        Err(errno) => is_unsupported(errno) || errno == Errno::INVAL,
    }
}

fn read(file: &File, offset: u64, buffers: &mut [IoSliceMut<'_>], flags: ReadWriteFlags) -> rustix::io::Result<usize> {
    loop {
        match rustix::io::preadv2(file, buffers, offset, flags) {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

/// Whether the file system of `file` has no disk.
fn is_in_memory(file: &File) -> bool {
    let kind = rustix::fs::fstatfs(file).map(|found| u64::try_from(found.f_type));
    matches!(kind, Ok(Ok(TMPFS_MAGIC | RAMFS_MAGIC)))
}

fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const SUPPORTED: NowaitReads = NowaitReads::Supported;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn freshly_written_bytes_are_in_memory() {
        let file = file_of(&[7; 10_000]);
        assert!(probe_cached(&file, SUPPORTED, 0, 10_000));
        assert!(probe_cached(&file, SUPPORTED, 9_999, 1));
        let mut buffer = [0; 100];
        assert_eq!(read_nowait(&file, SUPPORTED, 9_950, &mut buffer).unwrap(), Some(50));
        assert_eq!(buffer[..50], [7; 50]);
        assert_eq!(buffer[50..], [0; 50]);
        // The end of the file is zero bytes and never a wait, and an empty range needs no page.
        assert_eq!(read_nowait(&file, SUPPORTED, 10_000, &mut [0; 4]).unwrap(), Some(0));
        assert!(probe_cached(&file, SUPPORTED, u64::MAX, 5));
        assert!(probe_cached(&file_of(b""), SUPPORTED, 0, 0));
    }

    #[test]
    fn reads_in_memory_are_plain_ones() {
        let file = file_of(&[7; 10_000]);
        let mut buffer = [0; 100];
        assert!(probe_cached(&file, NowaitReads::InMemory, 0, 10_000));
        assert_eq!(read_nowait(&file, NowaitReads::InMemory, 9_950, &mut buffer).unwrap(), Some(50));
        let is_refused =
            read(&file, 0, &mut [IoSliceMut::new(&mut [0])], ReadWriteFlags::NOWAIT).is_err_and(is_unsupported);
        let expected = match (is_refused, is_in_memory(&file)) {
            (false, _) => NowaitReads::Supported,
            (true, true) => NowaitReads::InMemory,
            (true, false) => NowaitReads::Unsupported,
        };
        assert_eq!(NowaitReads::of(&file), expected);
        assert!(File::open("/dev/shm").is_ok_and(|memory| is_in_memory(&memory)), "all systems have it");
        assert!(!is_in_memory(&File::open("/proc/self/status").unwrap()));
    }

    #[test]
    fn reads_that_cannot_be_limited_are_made_of_pages_in_memory_only() {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        let unsupported = NowaitReads::Unsupported;
        let mut buffer = [0; 100];
        let resident = is_resident(&file, 9_000, 100) == Some(true);
        assert_eq!(read_nowait(&file, unsupported, 9_000, &mut buffer).unwrap(), resident.then_some(100));
        assert_eq!(probe_cached(&file, unsupported, 0, 10_000), resident);
        assert_eq!(buffer == [7; 100], resident);
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        if is_in_memory(&file) {
            return;
        }
        assert!(!probe_cached(&file, unsupported, 0, 1));
        assert_eq!(read_nowait(&file, unsupported, 0, &mut buffer).unwrap(), None);
    }

    #[test]
    fn one_read_scatters_over_several_buffers() {
        let file = file_of(b"abcdefgh");
        let (mut first, mut second) = ([0; 3], [0; 4]);
        let read_len =
            read_nowait_vectored(&file, SUPPORTED, 1, &mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)])
                .unwrap();
        assert_eq!((read_len, &first, &second), (Some(7), b"bcd", b"efgh"));
    }

    #[test]
    fn pages_dropped_from_memory_are_not_read() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut file =
            File::options().read(true).write(true).create_new(true).open(directory.path().join("f")).unwrap();
        file.write_all(&[1; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let mut byte = [0];
        let first_try = read(&file, 0, &mut [IoSliceMut::new(&mut byte)], ReadWriteFlags::NOWAIT);
        if first_try != Err(Errno::AGAIN) {
            return; // a file system that lives in memory, or one without RWF_NOWAIT
        }
        assert!(!probe_cached(&file, SUPPORTED, 1 << 19, 1));
        assert_eq!(read_nowait(&file, SUPPORTED, 1 << 19, &mut [0; 4096]).unwrap(), None);
    }

    #[test]
    fn a_failed_read_is_an_error_not_a_miss() {
        let directory = tempfile::tempdir().unwrap();
        let folder = File::open(directory.path()).unwrap();
        assert!(read_nowait(&folder, SUPPORTED, 0, &mut [0; 1]).is_err());
        let unreadable =
            File::options().write(true).create(true).truncate(false).open(directory.path().join("f")).unwrap();
        assert!(!probe_cached(&unreadable, SUPPORTED, 0, 1));
    }
}
