//! Values read from files, and reloaded when the files change.

use crate::files::Fingerprint;
use parking_lot::{Mutex, RwLock};
use std::{fmt, path::PathBuf, sync::Arc};

type Load<T> = Box<dyn Fn(&[PathBuf]) -> Result<T, LoadError> + Send + Sync>;

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

/// Result of a reload.
#[derive(Debug)]
pub enum Refreshed {
    /// The files are unchanged.
    Same,
    /// The files had changed and were read.
    Read,
    /// The files had changed and are unusable: the old value stays.
    Failed(LoadError),
}

impl<T> ReloadingFile<T> {
    /// Reads a value from `paths` by `load`. Blocks on the disk.
    ///
    /// # Errors
    /// The error of `load`.
    pub fn read(
        paths: Vec<PathBuf>,
        load: impl Fn(&[PathBuf]) -> Result<T, LoadError> + Send + Sync + 'static,
    ) -> Result<Self, LoadError> {
        // Before the files are read: a change during the read is detected later.
        let seen = Fingerprint::of(&paths);
        let current = RwLock::new(Arc::new(load(&paths)?));
        Ok(Self { paths, load: Box::new(load), current, seen: Mutex::new(seen) })
    }

    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.current.read())
    }

    /// Reloads the value if its files have changed. Blocks on the disk.
    pub fn refresh(&self) -> Refreshed {
        let mut seen = self.seen.lock();
        let now = Fingerprint::of(&self.paths);
        if *seen == now {
            return Refreshed::Same;
        }
        *seen = now;
        match (self.load)(&self.paths) {
            Ok(value) => {
                *self.current.write() = Arc::new(value);
                Refreshed::Read
            }
            Err(error) => Refreshed::Failed(error),
        }
    }

    /// Like [`ReloadingFile::refresh`], with log messages. Returns whether there is a new value.
    pub fn refresh_and_log(&self) -> bool {
        let files = self.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        match self.refresh() {
            Refreshed::Same => false,
            Refreshed::Read => {
                tracing::info!(files, "changed file reloaded");
                true
            }
            Refreshed::Failed(error) => {
                tracing::error!(files, %error, "changed file is unusable; the old content stays in use");
                false
            }
        }
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

    fn number(paths: &[PathBuf]) -> Result<u32, LoadError> {
        let mut sum = 0;
        for path in paths {
            sum += fs::read_to_string(path)?.trim().parse::<u32>()?;
        }
        Ok(sum)
    }

    #[test]
    fn a_changed_file_is_reloaded_and_an_invalid_one_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("number");
        fs::write(&path, "1").unwrap();
        let watched = ReloadingFile::read(vec![path.clone()], number).unwrap();
        assert!(matches!(watched.refresh(), Refreshed::Same));
        fs::write(&path, "22").unwrap();
        assert_eq!(*watched.get(), 1, "nobody has looked yet");
        assert!(matches!(watched.refresh(), Refreshed::Read));
        assert_eq!(*watched.get(), 22);
        fs::write(&path, "not a number").unwrap();
        assert!(matches!(watched.refresh(), Refreshed::Failed(_)));
        assert!(matches!(watched.refresh(), Refreshed::Same), "it is told once");
        assert_eq!(*watched.get(), 22);
        fs::write(&path, "333").unwrap();
        assert!(matches!(watched.refresh(), Refreshed::Read));
        assert_eq!(*watched.get(), 333);
    }

    #[test]
    fn the_first_read_must_succeed() {
        assert!(ReloadingFile::read(vec![PathBuf::from("/no/such/file")], number).is_err());
    }
}
