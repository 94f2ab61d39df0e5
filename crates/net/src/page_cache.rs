//! Reads of bytes in the page cache only, so that a connection's task never waits for a disk.
//!
//! Built on `preadv2` with `RWF_NOWAIT`. Reads on file systems without it are treated as cheap, because such file systems are
//! mostly in memory, or block in any case. A caller that remembers [`NowaitReads`] of a file system saves the call that fails.

use rustix::io::{Errno, ReadWriteFlags};
use std::{
    fs::File,
    io::{self, IoSliceMut},
};

/// Size of a page of the page cache in bytes, the grain of [`probe_cached`].
pub const PAGE_SIZE: u64 = 4096;

/// Whether a file system supports reads of bytes in the page cache only.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum NowaitReads {
    /// Supported, or not known.
    #[default]
    Supported,
    Unsupported,
}

impl NowaitReads {
    /// Asks the file system of `file` by a read of its first byte.
    pub fn of(file: &File) -> Self {
        match read(file, 0, &mut [IoSliceMut::new(&mut [0])], ReadWriteFlags::NOWAIT) {
            Err(errno) if is_unsupported(errno) => Self::Unsupported,
            _ => Self::Supported,
        }
    }
}

/// Whether the first and the last page of the range are in memory. The pages between are not checked: ranges are written and
/// evicted in runs, and a wrong guess costs one wait, not wrong bytes. Also `false` for unreadable ranges: the slow path
/// handles the error.
pub fn probe_cached(file: &File, nowait: NowaitReads, offset: u64, len: u64) -> bool {
    if nowait == NowaitReads::Unsupported {
        return true;
    }
    let Some(last) = len.checked_sub(1).map(|behind_first| offset.saturating_add(behind_first)) else {
        return true;
    };
    is_byte_cached(file, offset) && (offset / PAGE_SIZE == last / PAGE_SIZE || is_byte_cached(file, last))
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
    if nowait == NowaitReads::Unsupported {
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
        assert!(probe_cached(&file, SUPPORTED, 20_000, 5));
        assert!(probe_cached(&file, SUPPORTED, u64::MAX, 5));
        assert!(probe_cached(&file_of(b""), SUPPORTED, 0, 0));
    }

    #[test]
    fn reads_without_support_are_plain_ones() {
        let file = file_of(&[7; 10_000]);
        let unsupported = NowaitReads::Unsupported;
        let mut buffer = [0; 100];
        assert!(probe_cached(&file, unsupported, 0, 10_000));
        assert_eq!(read_nowait(&file, unsupported, 9_950, &mut buffer).unwrap(), Some(50));
        let is_refused =
            read(&file, 0, &mut [IoSliceMut::new(&mut [0])], ReadWriteFlags::NOWAIT).is_err_and(is_unsupported);
        assert_eq!(NowaitReads::of(&file) == unsupported, is_refused);
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
