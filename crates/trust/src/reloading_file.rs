//! Values read from files, and reloaded when the files change.

use crate::files::Fingerprint;
use parking_lot::{Mutex, RwLock};
use std::{fmt, path::PathBuf, sync::Arc};

type Load<T> = Box<dyn Fn() -> Result<T, LoadError> + Send + Sync>;

/// Why a value could not be read: the file, and a remedy.
pub type LoadError = Box<dyn std::error::Error + Send + Sync>;

/// A value read from files. Callers get the newest valid value; values in use stay valid.
pub struct ReloadingFile<T> {
    paths: Vec<PathBuf>,
    load: Load<T>,
    current: RwLock<Arc<T>>,
    /// Fingerprint of the files when they were last read, successfully or not.
    seen: Mutex<Fingerprint>,
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
        // Before the files are read: a change during the read is detected later.
        let seen = Fingerprint::of(&paths);
        let current = RwLock::new(Arc::new(load()?));
        Ok(Self { paths, load: Box::new(load), current, seen: Mutex::new(seen) })
    }

    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.current.read())
    }

    /// Reloads the value if its files have changed, and returns whether they had. If they are unusable, the old value stays. Blocks on
    /// the disk.
    fn refresh(&self) -> Result<bool, LoadError> {
        let mut seen = self.seen.lock();
        let now = Fingerprint::of(&self.paths);
        if *seen == now {
            return Ok(false);
        }
        *seen = now;
        *self.current.write() = Arc::new((self.load)()?);
        Ok(true)
    }

    /// Reloads the value if its files have changed, and logs it. Returns whether there is a new value. Blocks on the disk.
    pub fn refresh_and_log(&self) -> bool {
        let files = self.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        let refreshed = self.refresh();
        match &refreshed {
            Ok(false) => {}
            Ok(true) => tracing::info!(files, "changed file reloaded"),
            Err(error) => tracing::error!(files, %error, "changed file is unusable; the old content stays in use"),
        }
        refreshed.unwrap_or(false)
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
    use std::fs;

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
        assert!(!watched.refresh().unwrap(), "it is reported once");
        assert_eq!(*watched.get(), 22);
        fs::write(&path, "333").unwrap();
        assert!(watched.refresh().unwrap());
        assert_eq!(*watched.get(), 333);
        assert!(number(PathBuf::from("/no/such/file")).is_err());
    }
}
