//! Values read from files, and reloaded when the files change.

use crate::files::Fingerprint;
use parking_lot::{Mutex, RwLock};
use std::{fmt, path::PathBuf, sync::Arc};

type Load<T> = Box<dyn Fn() -> Result<T, LoadError> + Send + Sync>;

/// How many parts of a value could not be read, although they may be good.
type Unread<T> = fn(&T) -> usize;

/// Why a value could not be read: the file, and a remedy.
pub type LoadError = Box<dyn std::error::Error + Send + Sync>;

/// A value read from files. Callers get the newest valid value; values in use stay valid.
pub struct ReloadingFile<T> {
    paths: Vec<PathBuf>,
    load: Load<T>,
    unread: Unread<T>,
    current: RwLock<Arc<T>>,
    /// Fingerprint of the files from which the current value was read.
    seen: Mutex<Fingerprint>,
    /// The problem since then, so that it is logged once.
    problem: Mutex<Option<String>>,
}

impl<T> ReloadingFile<T> {
    /// Reads a value by `load`, again when one of `paths` changes. Blocks on the disk.
    ///
    /// # Errors
    /// The error of `load`.
    pub fn read(
        paths: Vec<PathBuf>,
        load: impl Fn() -> Result<T, LoadError> + Send + Sync + 'static,
    ) -> Result<Self, LoadError> {
        Self::read_whole(paths, load, |_| 0)
    }

    /// As [`Self::read`], and reads values again that are not whole, at each refresh until they are.
    ///
    /// # Errors
    /// The error of `load`.
    pub(crate) fn read_whole(
        paths: Vec<PathBuf>,
        load: impl Fn() -> Result<T, LoadError> + Send + Sync + 'static,
        unread: Unread<T>,
    ) -> Result<Self, LoadError> {
        // Before the files are read: a change during the read is detected later.
        let seen = Mutex::new(Fingerprint::of(&paths));
        let current = RwLock::new(Arc::new(load()?));
        Ok(Self { paths, load: Box::new(load), unread, current, seen, problem: Mutex::default() })
    }

    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.current.read())
    }

    /// Reloads the value if its files have changed, and returns whether they had. If they are unusable, the old value stays, and the
    /// next refresh reads them again: the disk may have failed, not the files. Blocks on the disk.
    fn refresh(&self) -> Result<bool, LoadError> {
        let mut seen = self.seen.lock();
        let now = Fingerprint::of(&self.paths);
        let is_changed = *seen != now;
        let unread_before = (self.unread)(&self.get());
        if !is_changed && unread_before == 0 {
            return Ok(false);
        }
        let value = (self.load)()?;
        if !is_changed && (self.unread)(&value) >= unread_before {
            return Ok(false);
        }
        *seen = now;
        *self.current.write() = Arc::new(value);
        Ok(true)
    }

    /// Reloads the value if its files have changed, and logs it. Returns whether there is a new value. Blocks on the disk.
    pub fn refresh_and_log(&self) -> bool {
        let files = self.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        let refreshed = self.refresh();
        let is_new_problem = self.note_problem(refreshed.as_ref().err().map(ToString::to_string));
        match &refreshed {
            Ok(false) => {}
            Ok(true) => tracing::info!(files, "changed file reloaded"),
            Err(error) if is_new_problem => {
                tracing::error!(files, %error, "changed file is unusable; the old content stays in use");
            }
            Err(_) => {}
        }
        refreshed.unwrap_or(false)
    }

    /// Remembers the result of a refresh. Whether it is a problem that the one before did not have.
    fn note_problem(&self, problem: Option<String>) -> bool {
        let mut last = self.problem.lock();
        let is_new = problem.is_some() && *last != problem;
        *last = problem;
        is_new
    }
}

impl<T> fmt::Debug for ReloadingFile<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ReloadingFile({:?})", self.paths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    };

    fn number(path: PathBuf) -> Result<ReloadingFile<u32>, LoadError> {
        ReloadingFile::read(vec![path.clone()], move || Ok(fs::read_to_string(&path)?.trim().parse()?))
    }

    #[test]
    fn a_changed_file_is_reloaded_and_an_invalid_one_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("number");
        fs::write(&path, "1").unwrap();
        let watched = number(path.clone()).unwrap();
        assert!(!watched.refresh().unwrap());
        fs::write(&path, "22").unwrap();
        assert_eq!(*watched.get(), 1, "it was not refreshed yet");
        assert!(watched.refresh().unwrap());
        assert_eq!(*watched.get(), 22);
        fs::write(&path, "not a number").unwrap();
        assert!(watched.refresh().is_err());
        assert!(watched.refresh().is_err(), "it is read again");
        assert_eq!(*watched.get(), 22);
        fs::write(&path, "333").unwrap();
        assert!(watched.refresh().unwrap());
        assert_eq!(*watched.get(), 333);
        assert!(number(PathBuf::from("/no/such/file")).is_err());
    }

    #[test]
    fn a_failed_read_is_repeated_without_another_change_and_logged_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let fails = Arc::new(AtomicBool::new(false));
        let does_fail = Arc::clone(&fails);
        let load = move || if does_fail.load(Relaxed) { Err("input/output error".into()) } else { Ok(()) };
        let watched = ReloadingFile::read(vec![file.path().to_owned()], load).unwrap();
        fs::write(file.path(), "changed").unwrap();
        fails.store(true, Relaxed);
        assert!(watched.refresh().is_err());
        fails.store(false, Relaxed);
        assert!(watched.refresh_and_log() && !watched.refresh_and_log());
        let problem = || Some("input/output error".to_owned());
        let is_logged = [problem(), problem(), None, problem()].map(|problem| watched.note_problem(problem));
        assert_eq!(is_logged, [true, false, false, true]);
    }

    #[test]
    fn a_value_that_is_not_whole_is_read_until_it_is() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let unread = Arc::new(AtomicUsize::new(2));
        let read = Arc::clone(&unread);
        let load = move || Ok(read.load(Relaxed));
        let watched = ReloadingFile::read_whole(vec![file.path().to_owned()], load, |unread| *unread).unwrap();
        assert!(!watched.refresh().unwrap(), "there is nothing new");
        for left in [1, 0] {
            unread.store(left, Relaxed);
            assert!(watched.refresh().unwrap() && *watched.get() == left);
            assert!(!watched.refresh().unwrap());
        }
    }
}
