//! Making many files durable at once.
//!
//! A sync of each of many small files costs a wait for the disk, and some work, per file. From a handful of files on, one sync
//! of their whole file system is cheaper. It reports failures once: `syncfs` fails when anything could not be written to the file
//! system since the last call on the same descriptor, by any process, and the next call says nothing of it any more. A
//! file that failed in addition to the ones that a call was made for would so be taken for durable later. Therefore the first failure
//! ends it while the disk is open: from then on each file is synced by itself, and reports its own failures to the process that
//! has had it open since before.

use crate::{DataFile, FileIdentity, StoreError, file_system, tree::Tree};
use parking_lot::Mutex;
use rustix::fs::{fstat, syncfs};
use std::{
    fmt,
    fs::File,
    io,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// Files from which on the file system is synced as a whole.
const BATCH_MIN: usize = 8;

/// Makes everything durable that was written to a file system, and fails when anything could not be written since the last call.
pub type SyncCall = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

pub(crate) struct WholeSync {
    path: PathBuf,
    device: u64,
    /// Files from which on it is synced as a whole.
    count_min: usize,
    is_used: AtomicBool,
    /// `None` when one of this kind, or an older kernel, may keep a failure to itself, and after a failure. Locked during the
    /// call: what one call learns no other one may miss.
    call: Mutex<Option<SyncCall>>,
}

/// The first Linux whose `syncfs` reports everything that could not be written: of data since 5.8, of a journal's end since 5.17.
const REPORTS_ALL_SINCE: (u32, u32) = (5, 17);

impl WholeSync {
    pub(crate) fn of(tree: &Tree) -> Result<Self, StoreError> {
        let failed = || StoreError::io("examining the file system of", &tree.path);
        let root = tree.directory("").map_err(failed())?;
        // Network and stacked file systems may drop write errors in `syncfs`: there each file is synced by itself.
        let reports_all = file_system::is_local(&*root).map_err(failed())?
            && kernel_version().is_some_and(|version| version >= REPORTS_ALL_SINCE);
        let device = fstat(&*root).map_err(failed())?.st_dev;
        // Always the same descriptor: the kernel reports a failure once to each descriptor that was open before it.
        let call: SyncCall = Box::new(move || Ok(syncfs(&*root)?));
        let is_used = AtomicBool::new(reports_all);
        let call = Mutex::new(reports_all.then_some(call));
        Ok(Self { path: tree.path.to_owned(), device, count_min: BATCH_MIN, is_used, call })
    }

    /// The same file system, synced for the sake of `count_min` files or more by `call`, which is trusted to report failures.
    pub(crate) fn with_call(self, count_min: usize, call: SyncCall) -> Self {
        Self { count_min, is_used: AtomicBool::new(true), call: Mutex::new(Some(call)), ..self }
    }

    /// Whether files like `data` gain when they are synced together.
    pub(crate) fn is_for(&self, data: &dyn DataFile) -> bool {
        self.is_used.load(Relaxed) && self.has(data.identity())
    }

    /// Syncs the data of `files`, together when that is worth it.
    pub(crate) fn sync_data(&self, files: &[&dyn DataFile]) -> Vec<io::Result<()>> {
        let is_synced = self.sync_all(files.iter().filter(|file| self.has(file.identity())).count());
        let sync =
            |file: &&dyn DataFile| if is_synced && self.has(file.identity()) { Ok(()) } else { file.sync_data() };
        files.iter().map(sync).collect()
    }

    /// Syncs the whole file system for the sake of `count` files on it; `false` when each must be synced for itself.
    pub(crate) fn sync_all(&self, count: usize) -> bool {
        // A sync of the file system also writes the data of other programs: not worth it for a few files.
        if count < self.count_min {
            return false;
        }
        // One call at a time: a failure is reported to a single call, and must count for all files that wait.
        let mut call = self.call.lock();
        match call.as_ref().map(|call| call()) {
            Some(Ok(())) => true,
            Some(Err(error)) => {
                let path = self.path.display();
                tracing::warn!(%path, %error, "a file system could not be synced as a whole: each file is, from now on");
                // The next call would succeed although data of other files were lost.
                *call = None;
                self.is_used.store(false, Relaxed);
                false
            }
            None => false,
        }
    }

    pub(crate) fn covers(&self, file: &File) -> bool {
        fstat(file).is_ok_and(|stat| stat.st_dev == self.device)
    }

    fn has(&self, file: FileIdentity) -> bool {
        file.device == self.device
    }
}

impl fmt::Debug for WholeSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WholeSync").field("path", &self.path).field("device", &self.device).finish_non_exhaustive()
    }
}

fn kernel_version() -> Option<(u32, u32)> {
    version_of(rustix::system::uname().release().to_str().ok()?)
}

fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_kernels_are_read() {
        for (release, version) in [
            ("6.18.44-fc-v669", Some((6, 18))),
            ("5.4.0", Some((5, 4))),
            ("5.10-rc1", Some((5, 10))),
            ("x", None),
            ("6", None),
        ] {
            assert_eq!(version_of(release), version, "{release}");
        }
        assert!(version_of("5.10") > version_of("5.8"));
    }
}
