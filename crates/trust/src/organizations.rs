//! Servers that may sign attributes: a directory in the layout of VOMS.

use crate::{
    authorities::Fault,
    files::{list, read},
    reloading_file::{LoadError, ReloadingFile},
};
use forebay_auth::voms::VomsDir;
use std::path::{Path, PathBuf};

/// The content of a directory of organizations: `VO/HOST.lsc` and `VO/*.pem`.
#[derive(Debug, Default)]
pub struct Organizations {
    /// The signers of each organization.
    pub dir: VomsDir,
    /// Unusable files, with the reasons. They count for nothing.
    pub faults: Vec<Fault>,
}

impl Organizations {
    /// Reads the directory at `path`; a missing one is empty.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
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
        for Fault { path, reason } in &organizations.faults {
            tracing::warn!(file = %path.display(), reason, "unusable file of an organization");
        }
        Ok(organizations)
    }

    /// Reads the directory at `path`, and reloads it when it changes.
    ///
    /// # Errors
    /// As for [`Organizations::read`].
    pub fn watch(path: &Path) -> Result<ReloadingFile<Self>, LoadError> {
        let directory = path.to_owned();
        ReloadingFile::read(vec![path.to_owned()], move || Self::read(&directory))
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
            let reason = error.to_string();
            self.faults.push(Fault { path, reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
}
