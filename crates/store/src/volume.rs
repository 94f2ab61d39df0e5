//! Disks of a store as others see them: number, state, room; and the identity of files on them.

use forebay_cache::Health;
use std::{fmt, path::PathBuf, time::Duration};

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
