//! Disks of a store as others see them: number, state, room; and the identity of files on them.

use forebay_cache::Health;
use std::{fmt, fs::Metadata, os::unix::fs::MetadataExt, path::PathBuf, time::Duration};

/// Number of a disk among those of the store: its position in the configuration.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct VolumeId(pub u16);

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The state of a disk of the store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VolumeInfo {
    pub id: VolumeId,
    pub path: PathBuf,
    /// Its share of new files, relative to the other disks', for the same room.
    pub weight: u32,
    /// Room on it; `None` if it cannot be measured.
    pub space: Option<Space>,
    pub health: Health,
    /// Whether another process has it, as a part of a store: then it is not used here, and does not fail.
    pub is_elsewhere: bool,
    /// Operations that failed since the start, for reasons that lie in the disk.
    pub errors: u64,
    pub latency: Duration,
}

/// Names a file independently of its path.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct FileIdentity {
    pub device: u64,
    pub inode: u64,
}

/// A data file as it was when it was closed: what shows that it is still that file, and was not written since.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileState {
    pub identity: FileIdentity,
    pub len: u64,
    /// When its bytes changed last, in seconds and nanoseconds of the Unix epoch.
    pub modified: (i64, i64),
}

impl FileState {
    /// The state of the file that `metadata` is of.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            identity: FileIdentity { device: metadata.dev(), inode: metadata.ino() },
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// Whether a call may wait for the disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MayWait {
    Yes,
    /// It fails where it would have to wait.
    No,
}

/// Room on a disk.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Space {
    pub total_bytes: u64,
    /// Bytes of it that we may still write.
    pub free_bytes: u64,
    /// Number of its inodes; 0 when it makes them as needed.
    pub total_inodes: u64,
    pub free_inodes: u64,
}
