//! Values that are read from files, and read again when the files have changed.

use crate::files::Fingerprint;
use parking_lot::{Mutex, RwLock};
use std::{fmt, path::PathBuf, sync::Arc};

/// Reads a value from its files.
type Load<T> = Box<dyn Fn(&[PathBuf]) -> Result<T, LoadError> + Send + Sync>;

/// Why a value could not be read: with the name of the file, and what to do.
pub type LoadError = Box<dyn std::error::Error + Send + Sync>;

/// A value that comes from files. Whoever asks gets the newest that could be read; one that is in use stays.
pub struct Watched<T> {
    paths: Vec<PathBuf>,
    load: Load<T>,
    current: RwLock<Arc<T>>,
    /// What the files were when they were last read, successfully or not.
    seen: Mutex<Fingerprint>,
}

/// What a look at the files has led to.
#[derive(Debug)]
pub enum Refreshed {
    /// They are as they were.
    Same,
    /// They had changed, and were read.
    Read,
    /// They had changed, and cannot be used: the value is still the old one.
    Failed(LoadError),
}

impl<T> Watched<T> {
    /// Reads a value from `paths` by `load`. Blocks on the disk.
    ///
    /// # Errors
    /// What `load` says.
    pub fn read(
        paths: Vec<PathBuf>,
        load: impl Fn(&[PathBuf]) -> Result<T, LoadError> + Send + Sync + 'static,
    ) -> Result<Self, LoadError> {
        // Looked at before it is read: a change meanwhile shows later.
        let seen = Fingerprint::of(&paths);
        let current = RwLock::new(Arc::new(load(&paths)?));
        Ok(Self { paths, load: Box::new(load), current, seen: Mutex::new(seen) })
    }

    /// The value as last read.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.current.read())
    }

    /// Reads the value again if its files have changed since. Blocks on the disk.
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

    /// As [`Watched::refresh`], and tells the log. Whether there is a new value.
    pub fn refresh_and_log(&self) -> bool {
        let files = self.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        match self.refresh() {
            Refreshed::Same => false,
            Refreshed::Read => {
                tracing::info!(files, "read again, because it has changed");
                true
            }
            Refreshed::Failed(error) => {
                tracing::error!(files, %error, "has changed and cannot be used: what was read before stays in use");
                false
            }
        }
    }
}

impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Watched({:?})", self.paths)
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
    fn a_changed_file_is_read_again_and_a_bad_one_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("number");
        fs::write(&path, "1").unwrap();
        let watched = Watched::read(vec![path.clone()], number).unwrap();
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
    fn a_value_that_cannot_be_read_at_first_is_none() {
        assert!(Watched::read(vec![PathBuf::from("/no/such/file")], number).is_err());
    }
}
