//! Reading of files and directories maintained by administrators, within limits.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Longest file in bytes: revocation lists of large authorities have some MiB.
pub const FILE_LEN_MAX: u64 = 64 << 20;

/// Most entries of a directory.
pub const DIRECTORY_ENTRIES_MAX: usize = 20_000;

/// Why a file or directory could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is longer than {FILE_LEN_MAX} bytes", path.display())]
    TooLong { path: PathBuf },
    /// More entries than [`DIRECTORY_ENTRIES_MAX`].
    #[error("{} has more than {DIRECTORY_ENTRIES_MAX} entries", path.display())]
    TooMany { path: PathBuf },
    #[error("{} can be read by others (mode {mode:o}): run chmod {wanted:o} on it", path.display())]
    Open { path: PathBuf, mode: u32, wanted: u32 },
}

impl FileError {
    /// Whether the file itself may be good: another attempt can succeed without a change of the file.
    pub(crate) fn is_transient(&self) -> bool {
        use io::ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied};
        let is_lasting = |kind| matches!(kind, IsADirectory | NotADirectory | NotFound | PermissionDenied);
        matches!(self, Self::Read { source, .. } if !is_lasting(source.kind()))
    }
}

/// The bytes of a file.
///
/// # Errors
/// If it cannot be read, or is too long.
pub fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let failed = |source| FileError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_LEN_MAX {
        return Err(FileError::TooLong { path: path.to_owned() });
    }
    Ok(bytes)
}

/// Like [`read`], for a secret: only its owner, and with `group_may_read` its group, may have access.
///
/// # Errors
/// As for [`read`], and if other users can read it.
pub fn read_secret(path: &Path, group_may_read: bool) -> Result<Vec<u8>, FileError> {
    let failed = |source| FileError::Read { path: path.to_owned(), source };
    let mode = fs::metadata(path).map_err(failed)?.mode() & 0o777;
    let wanted = if group_may_read { 0o640 } else { 0o600 };
    if mode & 0o077 & !wanted != 0 {
        return Err(FileError::Open { path: path.to_owned(), mode, wanted });
    }
    read(path)
}

/// The paths of the entries of a directory, sorted.
///
/// # Errors
/// If it cannot be listed, or has too many entries.
pub fn list(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let failed = |source| FileError::Read { path: path.to_owned(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        if paths.len() == DIRECTORY_ENTRIES_MAX {
            return Err(FileError::TooMany { path: path.to_owned() });
        }
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Detects changes of files by inode, size and times, and of directories by those of all their entries, two levels deep.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Fingerprint(Vec<(PathBuf, Option<Seen>)>);

/// Inode, size, and times of modification and change.
type Seen = (u64, u64, [i64; 4]);

/// Levels of directories included in the fingerprint.
const DEPTH: usize = 2;

impl Fingerprint {
    /// The current fingerprint of `paths`. Inaccessible files are part of it, too.
    pub fn of(paths: &[PathBuf]) -> Self {
        let mut fingerprint = Self::default();
        for path in paths {
            fingerprint.add(path, DEPTH);
        }
        fingerprint
    }

    fn add(&mut self, path: &Path, depth: usize) {
        let metadata = fs::metadata(path).ok();
        let seen = metadata.as_ref().map(|found| {
            (found.ino(), found.len(), [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()])
        });
        self.0.push((path.to_owned(), seen));
        if depth > 0 && metadata.is_some_and(|found| found.is_dir()) {
            for entry in list(path).unwrap_or_default() {
                self.add(&entry, depth - 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn secrets_readable_by_others_are_refused_and_errors_name_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, group_may_read, is_read) in [
            (0o600, false, true),
            (0o400, false, true),
            (0o640, false, false),
            (0o640, true, true),
            (0o644, true, false),
        ] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_secret(file.path(), group_may_read).is_ok(), is_read, "{mode:o}");
        }
        let error = read(Path::new("/no/such/file")).unwrap_err();
        assert!(error.to_string().contains("/no/such/file"), "{error}");
        assert!(list(Path::new("/no/such/directory")).is_err());
    }

    #[test]
    fn failures_of_the_disk_may_pass_without_a_change_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!read(directory.path()).unwrap_err().is_transient());
        assert!(!read(&directory.path().join("absent")).unwrap_err().is_transient());
        let failed = |source| FileError::Read { path: PathBuf::new(), source };
        assert!(!failed(io::ErrorKind::PermissionDenied.into()).is_transient());
        let (input_output, no_descriptors) = (5, 24);
        for number in [input_output, no_descriptors] {
            assert!(failed(io::Error::from_raw_os_error(number)).is_transient(), "{number}");
        }
    }

    #[test]
    fn a_fingerprint_changes_with_the_content_of_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let paths = [directory.path().to_owned()];
        fs::create_dir(directory.path().join("vo")).unwrap();
        fs::write(directory.path().join("vo/host.lsc"), "one").unwrap();
        let first = Fingerprint::of(&paths);
        assert_eq!(Fingerprint::of(&paths), first);
        fs::write(directory.path().join("vo/host.lsc"), "other").unwrap();
        let second = Fingerprint::of(&paths);
        assert_ne!(second, first);
        fs::remove_file(directory.path().join("vo/host.lsc")).unwrap();
        assert_ne!(Fingerprint::of(&paths), second);
    }
}
