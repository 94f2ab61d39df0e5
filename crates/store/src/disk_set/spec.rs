//! The disks that a set is made of, before they are opened.

use crate::{Disk, LocalDisk, Permissions, StoreError, VolumeId, is_mount_point};
use std::{fmt, path::PathBuf, sync::Arc, time::Instant};

/// Returns the time, which never runs backwards.
pub type Clock = fn() -> Instant;

/// Opens a disk, at the start and whenever it may have come back.
pub type Opener = Box<dyn Fn(VolumeId) -> Result<Arc<dyn Disk>, StoreError> + Send + Sync>;

/// One disk of a [`DiskSet`](crate::DiskSet).
pub struct VolumeSpec {
    pub path: PathBuf,
    /// Its share of new files, relative to the other disks', for the same room.
    pub weight: u32,
    pub open: Opener,
}

impl VolumeSpec {
    /// A directory of a local file system, created if need be.
    pub fn local(path: PathBuf, weight: u32, permissions: Permissions) -> Self {
        let root = path.clone();
        let open: Opener = Box::new(move |id| Ok(Arc::new(LocalDisk::open_volume(&root, id, permissions)?)));
        Self { path, weight, open }
    }

    /// A directory of a local file system that must exist, and be a mount point if `is_mounted`: nothing is to be written where
    /// the disk should be and is not.
    pub fn existing(path: PathBuf, weight: u32, is_mounted: bool, permissions: Permissions) -> Self {
        let root = path.clone();
        let open: Opener = Box::new(move |id| {
            if !root.is_dir() {
                return Err(StoreError::NotADirectory { path: root.clone() });
            }
            if is_mounted && !is_mount_point(&root) {
                return Err(StoreError::NotMounted { path: root.clone() });
            }
            Ok(Arc::new(LocalDisk::open_volume(&root, id, permissions)?))
        });
        Self { path, weight, open }
    }
}

impl fmt::Debug for VolumeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VolumeSpec").field("path", &self.path).field("weight", &self.weight).finish_non_exhaustive()
    }
}
