//! Servers that may sign attributes: a directory in the layout of VOMS.

use crate::{
    authorities::Fault,
    files::{FileError, list, read},
    reloading_file::{LoadError, ReloadingFile},
};
use forebay_auth::voms::VomsDir;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};

/// The content of a directory of organizations: `VO/HOST.lsc` and `VO/*.pem`.
#[derive(Debug, Default)]
pub struct Organizations {
    /// The signers of each organization.
    pub dir: VomsDir,
    /// Unusable files, with the reasons. They count for nothing.
    pub faults: Vec<Fault>,
    /// Files that failed to be read for a reason that may pass without a change of the file.
    unread: usize,
}

impl Organizations {
    /// Reads the directory at `path`; a missing one is empty.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        Self::read_and_log(path, &mut Vec::new())
    }

    /// Reads the directory at `path`, and reloads it when it changes, and while a file of it cannot be read.
    ///
    /// # Errors
    /// As for [`Organizations::read`].
    pub fn watch(path: &Path) -> Result<ReloadingFile<Self>, LoadError> {
        let (directory, logged) = (path.to_owned(), Mutex::default());
        let load = move || Self::read_and_log(&directory, &mut logged.lock());
        ReloadingFile::read_whole(vec![path.to_owned()], load, |organizations| organizations.unread)
    }

    /// Logs the faults that the read before did not have.
    fn read_and_log(path: &Path, logged: &mut Vec<Fault>) -> Result<Self, LoadError> {
        let mut organizations = Self::default();
        if !path.exists() {
            return Ok(organizations);
        }
        for directory in list(path)?.into_iter().filter(|entry| entry.is_dir()) {
            let Some(name) = directory.file_name().and_then(|name| name.to_str()) else { continue };
            for file in list(&directory)? {
                organizations.add(name, file);
            }
        }
        for fault in organizations.faults.iter().filter(|fault| !logged.contains(fault)) {
            tracing::warn!(file = %fault.path.display(), reason = fault.reason, "unusable file of an organization");
        }
        logged.clone_from(&organizations.faults);
        Ok(organizations)
    }

    fn add(&mut self, organization: &str, path: PathBuf) {
        let add = |kind: &str| -> Result<(), LoadError> {
            match kind {
                "lsc" => Ok(self.dir.add_lsc(organization, &read(&path)?)?),
                "pem" => Ok(self.dir.add_certificates(organization, &read(&path)?)?),
                _ => Ok(()),
            }
        };
        let added = path.extension().and_then(|extension| extension.to_str()).map_or(Ok(()), add);
        if let Err(error) = added {
            self.note(path, &error);
        }
    }

    fn note(&mut self, path: PathBuf, error: &LoadError) {
        self.unread += usize::from(error.downcast_ref::<FileError>().is_some_and(FileError::is_transient));
        self.faults.push(Fault { path, reason: error.to_string() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, io};

    #[test]
    fn organizations_are_directories_with_lists_of_servers() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("atlas")).unwrap();
        fs::write(directory.path().join("atlas/voms.cern.ch.lsc"), "/DC=ch/CN=voms.cern.ch\n/DC=ch/CN=CA\n").unwrap();
        fs::create_dir(directory.path().join("cms")).unwrap();
        fs::write(directory.path().join("cms/broken.lsc"), "not a name\n").unwrap();
        let read = Organizations::read(directory.path()).unwrap();
        assert_eq!(read.dir.organizations().collect::<Vec<_>>(), ["atlas"]);
        assert_eq!(read.faults.len(), 1);
        assert!(read.faults[0].path.ends_with("cms/broken.lsc"));
        let read = Organizations::read(Path::new("/no/such/directory")).unwrap();
        assert_eq!(read.dir.organizations().count(), 0);
    }

    #[test]
    fn files_that_a_failing_disk_does_not_give_are_counted() {
        let (mut read, path) = (Organizations::default(), PathBuf::from("atlas/voms.cern.ch.lsc"));
        read.note(path.clone(), &"not a name".into());
        assert_eq!(read.unread, 0, "another attempt finds the same");
        let source = io::Error::from_raw_os_error(5);
        read.note(path.clone(), &FileError::Read { path, source }.into());
        assert_eq!((read.unread, read.faults.len()), (1, 2));
    }
}
