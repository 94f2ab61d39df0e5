//! Errors of the disk.

use crate::reserve::is_out_of_space;
use forebay_cache::Fault;
use forebay_types::Side;
use rustix::io::Errno;
use std::{
    io,
    path::{Path, PathBuf},
};

/// Errors of a disk.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{operation} {path}", path = path.display())]
    Io { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("{path} is a symbolic link out of the store: not followed", path = path.display())]
    ForeignLink { path: PathBuf },
    #[error("{path} is not a regular file", path = path.display())]
    NotAFile { path: PathBuf },
    #[error("the entry of {path} was replaced or removed meanwhile", path = path.display())]
    Superseded { path: PathBuf },
    #[error("{path} is not a directory", path = path.display())]
    NotADirectory { path: PathBuf },
    #[error("{path} is not a mount point: its file system is not mounted", path = path.display())]
    NotMounted { path: PathBuf },
    #[error("{path} is not the directory any more that was opened", path = path.display())]
    Replaced { path: PathBuf },
    #[error("the disk at {path} is offline", path = path.display())]
    Offline { path: PathBuf },
    #[error("the store {path} is divided into {parts} parts (1: not divided): write that number as store.parts, or choose another directory", path = path.display())]
    Divided { path: PathBuf, parts: u16 },
    #[error("no disk of the store takes new files: each is offline, full or cannot be written")]
    NoVolume,
    #[error("another forebay process uses this store (it holds {path}): stop it or choose another directory", path = path.display())]
    Locked { path: PathBuf },
    #[error(
        "the store {path} is filled by {url} on {node}, as of {age_s} s ago: stop that one, or choose another directory; 30 s after its death the store is free",
        path = path.display()
    )]
    Filled {
        path: PathBuf,
        url: String,
        node: String,
        /// When it was heard of last, in seconds.
        age_s: i64,
    },
}

impl StoreError {
    /// Wraps what the operating system said about `operation` on `path`.
    pub(crate) fn io<E: Into<io::Error>>(operation: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { operation, path: path.to_owned(), source: source.into() }
    }

    /// Whose side the error is on: always the cache's own disk.
    pub const fn side(&self) -> Side {
        Side::Disk
    }

    /// Whether the same operation may succeed shortly without intervention.
    pub fn is_retryable(&self) -> bool {
        self.errno().is_some_and(|errno| PASSING.contains(&errno))
    }

    /// Whether the disk, or our share of it, is full: purging helps, retrying does not.
    pub fn is_out_of_space(&self) -> bool {
        let Self::Io { source, .. } = self else { return false };
        is_out_of_space(source)
    }

    /// Whether the error concerns the entry alone, not the disk: something else is in its place, or it was moved. Clients
    /// can bring that about by the names they ask for.
    pub fn concerns_one_entry(&self) -> bool {
        matches!(self, Self::ForeignLink { .. } | Self::NotAFile { .. } | Self::Superseded { .. })
            || self.errno().is_some_and(|errno| OF_ITS_PLACE.contains(&errno))
    }

    /// The fault of the disk; `None` if the error concerns one entry or the whole process.
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Self::Io { source, .. } => fault_of(source),
            Self::NotADirectory { .. } | Self::NotMounted { .. } | Self::Replaced { .. } => Some(Fault::Absent),
            // The disk works, but it is not ours until the other process ends.
            Self::Locked { .. } | Self::Filled { .. } | Self::Divided { .. } => Some(Fault::Absent),
            Self::ForeignLink { .. }
            | Self::NotAFile { .. }
            | Self::Superseded { .. }
            | Self::Offline { .. }
            | Self::NoVolume => None,
        }
    }

    /// Whether something on the way to the entry does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.errno() == Some(Errno::NOENT)
    }

    fn errno(&self) -> Option<Errno> {
        let Self::Io { source, .. } = self else { return None };
        Errno::from_io_error(source)
    }
}

/// The fault of the disk that an error of the operating system shows; `None` for none.
pub(crate) fn fault_of(error: &io::Error) -> Option<Fault> {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Some(Fault::Full),
        Some(Errno::ROFS) => Some(Fault::ReadOnly),
        Some(errno) if OF_ITS_PLACE.contains(&errno) || PASSING.contains(&errno) => None,
        Some(_) => Some(Fault::Broken),
        None if error.kind() == io::ErrorKind::StorageFull => Some(Fault::Full),
        None if error.kind() == io::ErrorKind::TimedOut => Some(Fault::Hung),
        // Ours, such as the end of a file that came too early.
        None => None,
    }
}

/// Caused by the file in the entry's place, not by the disk.
const OF_ITS_PLACE: [Errno; 9] = [
    Errno::NOENT,
    Errno::NOTDIR,
    Errno::ISDIR,
    Errno::NOTEMPTY,
    Errno::EXIST,
    Errno::LOOP,
    Errno::NAMETOOLONG,
    Errno::ACCESS,
    Errno::PERM,
];

const PASSING: [Errno; 6] = [Errno::INTR, Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::BUSY];

#[cfg(test)]
mod tests {
    use super::*;

    fn error(errno: Errno) -> StoreError {
        StoreError::io("writing", Path::new("/store/a"))(errno)
    }

    #[test]
    fn a_full_disk_is_distinguished() {
        for (errno, is_out_of_space, is_retryable) in [
            (Errno::NOSPC, true, false),
            (Errno::DQUOT, true, false),
            (Errno::MFILE, false, true),
            (Errno::INTR, false, true),
            (Errno::IO, false, false),
            (Errno::ROFS, false, false),
        ] {
            let error = error(errno);
            assert_eq!(error.fault() == Some(Fault::Full), is_out_of_space, "{errno}");
            assert_eq!((error.is_out_of_space(), error.is_retryable()), (is_out_of_space, is_retryable), "{errno}");
            assert_eq!(error.side(), Side::Disk);
        }
        let superseded = StoreError::Superseded { path: "/store/a".into() };
        assert!(!superseded.is_out_of_space() && !superseded.is_retryable());
    }

    #[test]
    fn a_foreign_file_in_the_place_of_an_entry_is_not_a_fault_of_the_disk() {
        for errno in [Errno::NOTDIR, Errno::ISDIR, Errno::NOENT, Errno::ACCESS] {
            assert!(error(errno).concerns_one_entry(), "{errno}");
            assert_eq!(error(errno).fault(), None, "{errno}");
        }
        for errno in [Errno::NOSPC, Errno::IO, Errno::ROFS, Errno::MFILE] {
            assert!(!error(errno).concerns_one_entry(), "{errno}");
        }
        assert!(StoreError::NotAFile { path: "/store/a".into() }.concerns_one_entry());
    }

    #[test]
    fn errors_name_the_operation_and_the_path() {
        assert_eq!(error(Errno::IO).to_string(), "writing /store/a");
    }
}
