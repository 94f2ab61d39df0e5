//! The directories from which files are moved into a part, one for each epoch of its owners.

use crate::{StoreError, prepare::OWN_DIRECTORY};
use std::{
    ffi::OsStr,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::Path,
};

const PREFIX: &str = "tmp-";

/// Attempts to remove the directory of a former owner, which may create files in it meanwhile.
const REMOVALS_MAX: u32 = 16;

/// The directory of `epoch`, below the root of a part.
pub(crate) fn staging_of(epoch: u64) -> String {
    format!("{OWN_DIRECTORY}/{PREFIX}{epoch}")
}

/// Creates the directory of `epoch` in the part below `root`.
///
/// # Errors
/// When the disk fails.
pub(crate) fn enter(root: &Path, epoch: u64) -> Result<(), StoreError> {
    let own = root.join(OWN_DIRECTORY);
    let path = root.join(staging_of(epoch));
    for directory in [own, path] {
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(StoreError::io("creating", &directory)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes the directories of epochs below `epoch` from the part below `root`: former owners move no more files into the part.
///
/// # Errors
/// When the disk fails, or a former owner creates files faster than they are removed.
pub(crate) fn clear_lower(root: &Path, epoch: u64) -> Result<(), StoreError> {
    let own = root.join(OWN_DIRECTORY);
    for entry in fs::read_dir(&own).map_err(StoreError::io("listing", &own))? {
        let entry = entry.map_err(StoreError::io("listing", &own))?;
        if epoch_of(&entry.file_name()).is_some_and(|other| other < epoch) {
            remove(&entry.path()).map_err(StoreError::io("removing", &entry.path()))?;
        }
    }
    Ok(())
}

fn epoch_of(name: &OsStr) -> Option<u64> {
    name.to_str()?.strip_prefix(PREFIX)?.parse().ok()
}

fn remove(directory: &Path) -> io::Result<()> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match fs::remove_dir_all(directory) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if attempts == REMOVALS_MAX => return Err(error),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, OFlags, openat, renameat};

    #[test]
    fn a_former_owner_moves_no_file_into_the_part() {
        let root = tempfile::tempdir().unwrap();
        enter(root.path(), 3).unwrap();
        let staging = root.path().join(staging_of(3));
        let open = OFlags::RDONLY | OFlags::DIRECTORY;
        let late = openat(CWD, &staging, open, Mode::empty()).unwrap();
        fs::write(staging.join("record"), "late").unwrap();
        enter(root.path(), 4).unwrap();
        clear_lower(root.path(), 4).unwrap();
        let target = root.path().join("a.cinfo");
        assert!(renameat(&late, "record", CWD, &target).is_err(), "what was written before the end");
        let create = OFlags::WRONLY | OFlags::CREATE;
        assert!(openat(&late, "record", create, Mode::RUSR).is_err(), "nor is anything written afterwards");
        assert!(!target.exists());
        assert!(root.path().join(staging_of(4)).is_dir(), "the directory of the new owner stays");
    }
}
