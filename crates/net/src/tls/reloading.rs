//! Something that is made from files, and made anew when these change.

use super::TlsError;
use parking_lot::{Mutex, RwLock};
use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// How often the files are looked at, at most; nobody looks while nobody connects.
pub const RELOAD_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Age at which files are read again whether they look changed or not: revocation lists may be replaced within a directory
/// without a trace in it.
pub const REBUILD_AFTER: Duration = Duration::from_secs(3600);

/// What was made of some files last. What is wrong with newer ones is logged, and the last good thing stays in use.
#[derive(Debug)]
pub(super) struct Reloading<T> {
    current: RwLock<Arc<T>>,
    paths: Vec<PathBuf>,
    /// Held by whoever looks at the files; nobody waits for it.
    look: Mutex<Look>,
}

#[derive(Debug)]
struct Look {
    next: Instant,
    built: Instant,
    stamps: Vec<Option<Stamp>>,
}

/// What tells one content of a file from another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Stamp {
    inode: u64,
    len: u64,
    modified: (i64, i64),
}

impl<T> Reloading<T> {
    /// Makes the thing of the files at `paths` for the first time.
    pub(super) fn new(
        paths: Vec<PathBuf>,
        now: Instant,
        build: impl FnOnce() -> Result<T, TlsError>,
    ) -> Result<Self, TlsError> {
        // Before the files are read: a change in between is seen as one next time.
        let stamps = stamps(&paths);
        let current = RwLock::new(Arc::new(build()?));
        let look = Mutex::new(Look { next: now + RELOAD_CHECK_INTERVAL, built: now, stamps });
        Ok(Self { current, paths, look })
    }

    /// The thing as it is now. Reads files when it is time to look at them.
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
                    tracing::info!(files = ?self.paths, "certificates read again");
                }
            }
            Err(error) => tracing::error!(%error, "certificates not read again, the old ones stay in use"),
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
        fs::read_to_string(path).map_err(|error| TlsError::File { path: path.to_owned(), reason: error.to_string() })
    }

    #[test]
    fn a_changed_file_is_read_again_when_it_is_time() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("f");
        fs::write(&path, "old").unwrap();
        let start = crate::clock::monotonic();
        let thing = Reloading::new(vec![path.clone()], start, || read(&path)).unwrap();
        fs::write(&path, "newer").unwrap();
        assert_eq!(*thing.current(start, || read(&path)), "old");
        let due = start + RELOAD_CHECK_INTERVAL;
        assert_eq!(*thing.current(due, || read(&path)), "newer");
        let unchanged = thing.current(due + RELOAD_CHECK_INTERVAL, || panic!("nothing has changed"));
        assert_eq!(*unchanged, "newer");
    }

    #[test]
    fn a_bad_file_leaves_the_old_thing_in_use_until_it_is_mended() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("f");
        fs::write(&path, "old").unwrap();
        let start = crate::clock::monotonic();
        let thing = Reloading::new(vec![path.clone()], start, || read(&path)).unwrap();
        fs::remove_file(&path).unwrap();
        let mut due = start + RELOAD_CHECK_INTERVAL;
        assert_eq!(*thing.current(due, || read(&path)), "old");
        fs::write(&path, "mended").unwrap();
        due += RELOAD_CHECK_INTERVAL;
        assert_eq!(*thing.current(due, || read(&path)), "mended");
    }

    #[test]
    fn what_does_not_look_changed_is_read_again_now_and_then() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("f");
        fs::write(&path, "x").unwrap();
        let start = crate::clock::monotonic();
        let thing = Reloading::new(vec![path], start, || Ok(1)).unwrap();
        assert_eq!(*thing.current(start + REBUILD_AFTER - RELOAD_CHECK_INTERVAL, || Ok(2)), 1);
        assert_eq!(*thing.current(start + REBUILD_AFTER, || Ok(3)), 3);
    }

    #[test]
    fn a_first_failure_is_the_callers() {
        let start = crate::clock::monotonic();
        let missing = std::path::Path::new("/nonexistent");
        assert!(Reloading::new(vec![missing.to_owned()], start, || read(missing)).is_err());
    }
}
