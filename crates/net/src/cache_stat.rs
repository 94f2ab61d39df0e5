//! Which pages of a file are in the page cache, without a request of the disk.
//!
//! A read limited to the page cache (`RWF_NOWAIT`) is not that: kernels answer it with an error and begin to read ahead the bytes that it
//! asks for. After a probe of one byte the disk gets a request of one page, and then one for the rest.

use crate::page_cache::PAGE_SIZE;
use std::{
    fs::File,
    os::fd::AsRawFd,
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// Number of the system call `cachestat` on all architectures but Alpha (Linux 6.5).
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range`: bytes of a file.
#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

/// `struct cachestat`: numbers of pages.
#[repr(C)]
#[derive(Default)]
struct Pages {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Length of a page of memory: the unit in which the kernel counts. The function of `rustix` ends the process within valgrind.
static PAGE_LEN: LazyLock<u64> = LazyLock::new(|| {
    // SAFETY: the call takes a number and returns one.
    let len = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // It has no reason to fail; all systems have pages of 4 KiB or a multiple.
    u64::try_from(len).unwrap_or(PAGE_SIZE).max(PAGE_SIZE)
});

/// Set once the kernel did not know the call.
static IS_UNKNOWN: AtomicBool = AtomicBool::new(false);

/// Whether the page cache has all pages of a range; `None` if the system does not say. They may still be on their way from the disk.
pub(crate) fn is_resident(file: &File, offset: u64, len: u64) -> Option<bool> {
    if IS_UNKNOWN.load(Relaxed) {
        return None;
    }
    // No length means all of the file.
    let last = offset.checked_add(len.checked_sub(1)?)?;
    let page_len = *PAGE_LEN;
    let (range, mut pages) = (Range { offset, len }, Pages::default());
    // SAFETY: the kernel reads one value and writes the other, of the layouts that this call has; both live until it returns.
    let result = unsafe {
        let (range, pages): (*const Range, *mut Pages) = (&raw const range, &raw mut pages);
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range, pages, 0)
    };
    if result == 0 {
        return Some(pages.cached > last / page_len - offset / page_len);
    }
    // Files of other users, which this process cannot write to, are refused one by one.
    if std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
        IS_UNKNOWN.store(true, Relaxed);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn pages_are_seen_and_not_loaded() {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&[1; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        if is_resident(&file, 0, 1).is_none() {
            return; // an old kernel, or a policy that forbids the call
        }
        assert_eq!(is_resident(&file, 4095, (1 << 20) - 4095), Some(true));
        assert_eq!(is_resident(&file, (1 << 20) - 1, 2), Some(false), "one page ends with the file");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        if is_resident(&file, 0, 1 << 20) == Some(true) {
            return; // a file system in memory
        }
        for _ in 0..2 {
            assert_eq!(is_resident(&file, 300 << 10, 1), Some(false), "asking loads nothing");
        }
        assert_eq!(is_resident(&file, 0, 0), None);
    }
}
