//! Making many files durable at once.
//!
//! A sync of each of many small files costs a wait for the disk, and some work, per file. From a handful of files on, one sync
//! of their whole file system is cheaper. It tells as much: since Linux 5.8 `syncfs` fails when anything could not be
//! written to the file system since the last call on the same descriptor. Then each file is asked for itself, and those
//! answer for themselves that were not written.

use crate::{DataFile, StoreError, tree::Tree};
use rustix::fs::{fstat, fstatfs, syncfs};
use std::{io, os::fd::OwnedFd, sync::Arc};

/// Files from which on the file system is synced as a whole.
pub(crate) const TOGETHER_MIN: usize = 8;

/// The file system of a store.
#[derive(Debug)]
pub(crate) struct WholeSync {
    root: Arc<OwnedFd>,
    /// Number of the file system; `None` when one of this kind, or an older kernel, may keep a failure to itself.
    device: Option<u64>,
}

/// The first Linux whose `syncfs` tells of data that could not be written.
const TELLING_SINCE: (u32, u32) = (5, 8);

/// Local file systems, by the number of their kind: ext2 to ext4, XFS, Btrfs, F2FS, tmpfs.
const TELLING_KINDS: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

impl WholeSync {
    pub(crate) fn of(tree: &Tree) -> Result<Self, StoreError> {
        let failed = || StoreError::io("examining the file system of", tree.path());
        let root = tree.directory("").map_err(failed())?;
        let kind = fstatfs(&*root).map_err(failed())?.f_type;
        let is_telling = u64::try_from(kind).is_ok_and(|kind| TELLING_KINDS.contains(&kind));
        let device = fstat(&*root).map_err(failed())?.st_dev;
        let device = (is_telling && kernel_version().is_some_and(|version| version >= TELLING_SINCE)).then_some(device);
        Ok(Self { root, device })
    }

    /// Syncs the data of `files`, together when that is worth it.
    pub(crate) fn sync_data(&self, files: &[&dyn DataFile]) -> Vec<io::Result<()>> {
        if files.iter().all(|file| Some(file.identity().device) == self.device) && self.sync_all(files.len()) {
            return files.iter().map(|_| Ok(())).collect();
        }
        files.iter().map(|file| file.sync_data()).collect()
    }

    /// Syncs the whole file system for the sake of `count` files on it; `false` when each must be synced for itself.
    pub(crate) fn sync_all(&self, count: usize) -> bool {
        count >= TOGETHER_MIN && self.device.is_some() && syncfs(&*self.root).is_ok()
    }

    /// Whether a file is on this file system.
    pub(crate) fn covers(&self, file: &std::fs::File) -> bool {
        self.device.is_some() && fstat(file).is_ok_and(|stat| Some(stat.st_dev) == self.device)
    }
}

/// Major and minor number of the running kernel.
fn kernel_version() -> Option<(u32, u32)> {
    version_of(rustix::system::uname().release().to_str().ok()?)
}

fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_kernels_are_read() {
        for (release, version) in [
            ("6.18.44-fc-v669", Some((6, 18))),
            ("5.4.0", Some((5, 4))),
            ("5.10-rc1", Some((5, 10))),
            ("x", None),
            ("6", None),
        ] {
            assert_eq!(version_of(release), version, "{release}");
        }
        assert!(version_of("5.10") > version_of("5.8"));
    }
}
