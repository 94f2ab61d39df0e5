//! A value built from files, and rebuilt when they change.

use super::TlsError;
use parking_lot::{Mutex, RwLock};
use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// Shortest interval between checks of the files; without connections there are no checks.
pub const RELOAD_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Age at which files are reloaded even if they look unchanged: replacing a revocation list may not change its directory.
pub const REBUILD_AFTER: Duration = Duration::from_secs(3600);

/// The value last built from some files. Errors in newer files are logged, and the last valid value stays in use.
#[derive(Debug)]
pub(super) struct Reloading<T> {
    current: RwLock<Arc<T>>,
    paths: Vec<PathBuf>,
    /// Locked during a check of the files; other callers do not wait for it.
    look: Mutex<Look>,
}

#[derive(Debug)]
struct Look {
    next: Instant,
    built: Instant,
    stamps: Vec<Option<Stamp>>,
}

/// Fingerprint of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Stamp {
    inode: u64,
    len: u64,
    modified: (i64, i64),
}

impl<T> Reloading<T> {
    /// Builds the first value from the files at `paths`.
    pub(super) fn new(
        paths: Vec<PathBuf>,
        now: Instant,
        build: impl FnOnce() -> Result<T, TlsError>,
    ) -> Result<Self, TlsError> {
        // Before the files are read: a change during the read is detected next time.
        let stamps = stamps(&paths);
        let current = RwLock::new(Arc::new(build()?));
        let look = Mutex::new(Look { next: now + RELOAD_CHECK_INTERVAL, built: now, stamps });
        Ok(Self { current, paths, look })
    }

    /// The current value. Reads files if a check is due.
    pub(super) fn current(&self, now: Instant, build: impl FnOnce() -> Result<T, TlsError>) -> Arc<T> {
        if let Some(mut look) = self.look.try_lock()
            && now >= look.next
        {
            look.next = now + RELOAD_CHECK_INTERVAL;
            let stamps = stamps(&self.paths);
            let is_changed = stamps != look.stamps;
            if is_changed || now.saturating_duration_since(look.built) >= REBUILD_AFTER {
                (look.stamps, look.built) = (stamps, now);
                self.rebuild(is_changed, build);
            }
        }
        Arc::clone(&self.current.read())
    }

    fn rebuild(&self, is_changed: bool, build: impl FnOnce() -> Result<T, TlsError>) {
        match build() {
            Ok(built) => {
                *self.current.write() = Arc::new(built);
                if is_changed {
                    tracing::info!(files = ?self.paths, "certificates reloaded");
                }
            }
            Err(error) => tracing::error!(%error, "certificates not reloaded; the old ones stay in use"),
        }
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Option<Stamp>> {
    let stamp = |metadata: Metadata| Stamp {
        inode: metadata.ino(),
        len: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
    };
    paths.iter().map(|path| std::fs::metadata(path).ok().map(stamp)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read(path: &std::path::Path) -> Result<String, TlsError> {
        fs::read_to_string(path).map_err(|error| TlsError::file(path, error.to_string()))
    }

    #[test]
    fn a_changed_file_is_reloaded_when_a_check_is_due_and_an_invalid_one_leaves_the_old_value() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("f");
        let mut now = crate::clock::monotonic();
        assert!(Reloading::new(vec![path.clone()], now, || read(&path)).is_err(), "the first build must succeed");
        fs::write(&path, "old").unwrap();
        let thing = Reloading::new(vec![path.clone()], now, || read(&path)).unwrap();
        fs::write(&path, "newer").unwrap();
        assert_eq!(*thing.current(now, || read(&path)), "old");
        now += RELOAD_CHECK_INTERVAL;
        assert_eq!(*thing.current(now, || read(&path)), "newer");
        now += RELOAD_CHECK_INTERVAL;
        assert_eq!(*thing.current(now, || panic!("nothing has changed")), "newer");
        fs::remove_file(&path).unwrap();
        now += RELOAD_CHECK_INTERVAL;
        assert_eq!(*thing.current(now, || read(&path)), "newer");
        fs::write(&path, "fixed").unwrap();
        now += RELOAD_CHECK_INTERVAL;
        assert_eq!(*thing.current(now, || read(&path)), "fixed");
    }

    #[test]
    fn files_that_look_unchanged_are_reloaded_from_time_to_time() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("f");
        fs::write(&path, "x").unwrap();
        let start = crate::clock::monotonic();
        let thing = Reloading::new(vec![path], start, || Ok(1)).unwrap();
        assert_eq!(*thing.current(start + REBUILD_AFTER - RELOAD_CHECK_INTERVAL, || Ok(2)), 1);
        assert_eq!(*thing.current(start + REBUILD_AFTER, || Ok(3)), 3);
    }
}
