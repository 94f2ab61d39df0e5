//! Complete entries of a store that another process fills: looked at, and never changed but for the time of last access.

use crate::{
    OriginMark, Permissions, StoreError, cinfo_file, last_check,
    parts::{directory_of, part_of},
    permissions::Creation,
    tree::{Place, Tree},
};
use forebay_cache::{CacheKey, Cinfo};
use rustix::fs::{OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens};
use std::{
    fs::File,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::PathBuf,
};

/// The directories of a store that another process fills. Nothing is locked, created or remembered: each look is a new one, so that
/// a file system that is mounted later, or again, is seen.
#[derive(Clone, Debug)]
pub struct SharedView {
    roots: Vec<PathBuf>,
    /// Number of parts of the store, if it has any: then a file is in one of them.
    parts: Option<u16>,
    creation: Creation,
    /// Permission bits that a file has, all of them, once its owner has opened it to others.
    shown_mode: u32,
}

/// A complete file that its owner has opened to others.
#[derive(Debug)]
pub struct SharedFile {
    pub path: PathBuf,
    pub cinfo: Cinfo,
    pub origin: Option<OriginMark>,
    data: File,
    place: Place,
    shown_mode: u32,
}

impl SharedView {
    /// Looks at the directories `roots`, where a file is open to others when it has all bits of `shown_mode`.
    pub fn new(roots: Vec<PathBuf>, shown_mode: u32) -> Self {
        // Nothing is ever created.
        Self { roots, parts: None, creation: Creation::with(Permissions::default()), shown_mode }
    }

    /// The same directories, each divided into `parts`, if any.
    #[must_use]
    pub fn divided(self, parts: Option<u16>) -> Self {
        Self { parts, ..self }
    }

    /// The file of `key`, if it is complete and open to others. Blocking.
    ///
    /// # Errors
    /// When a disk fails, and no other one has the file.
    pub fn find(&self, key: &CacheKey) -> Result<Option<SharedFile>, StoreError> {
        let mut failure = None;
        for root in &self.roots {
            // Opened for each look: the file system may have been mounted again since.
            let part = self.parts.map(|parts| directory_of(root, part_of(key, parts)));
            let root = part.as_deref().unwrap_or(root);
            let found = Tree::open(root, self.creation).and_then(|tree| self.find_in(&tree, key));
            match found {
                Ok(Some(file)) => return Ok(Some(file)),
                Ok(None) => {}
                // Another disk may have the file; the failure counts only if none has.
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(None), Err)
    }

    fn find_in(&self, tree: &Tree, key: &CacheKey) -> Result<Option<SharedFile>, StoreError> {
        let Some(place) = tree.place(key)? else { return Ok(None) };
        let Some((data, metadata)) = place.open_data(OFlags::RDONLY)? else { return Ok(None) };
        if metadata.permissions().mode() & self.shown_mode != self.shown_mode {
            return Ok(None);
        }
        // The record of a file that has taken the place of `data` has no block at first; the name is looked at again later.
        let Some(stored) = cinfo_file::read(&place)? else { return Ok(None) };
        let Ok(cinfo) = stored.cinfo else { return Ok(None) };
        // A client reads the file without asking again, so every byte must be there.
        if !cinfo.is_complete() || metadata.len() < cinfo.expected_data_len() {
            return Ok(None);
        }
        let path = tree.path_of(key);
        let shown_mode = self.shown_mode;
        Ok(Some(SharedFile { path, cinfo, origin: stored.origin, data, place, shown_mode }))
    }
}

impl SharedFile {
    /// When the entry was last found to be its origin's file, in seconds of the Unix epoch.
    pub fn last_check(&self) -> i64 {
        last_check(&self.cinfo, self.origin.as_ref())
    }

    /// Protects the file from its owner for the time of a lease, by setting the time of last access; false if the file has
    /// left its name meanwhile, or was closed to others. Blocking.
    ///
    /// # Errors
    /// When the time cannot be set: the file system can only be read, or the file belongs to another user.
    pub fn lease(&self) -> Result<bool, StoreError> {
        let now = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
            last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        };
        // Set before the checks below: the owner looks in the opposite order, so one of the two notices the other.
        futimens(&self.data, &now).map_err(StoreError::io("setting the time of access of", &self.path))?;
        let metadata = self.data.metadata().map_err(StoreError::io("examining", &self.path))?;
        let is_here = self
            .place
            .data_identity()?
            .is_some_and(|identity| (identity.device, identity.inode) == (metadata.dev(), metadata.ino()));
        let has_record = self.place.open_cinfo(OFlags::RDONLY)?.is_some();
        Ok(is_here && has_record && metadata.permissions().mode() & self.shown_mode == self.shown_mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk as _, LocalDisk};
    use bytes::Bytes;
    use forebay_cache::{ChecksumState, Geometry};
    use forebay_types::{BlockIndex, BlockSize, Lfn};
    use std::{fs, path::Path, time::SystemTime};

    const SHOWN: u32 = 0o044;

    fn key() -> CacheKey {
        CacheKey::fixed(&Lfn::parse("/a/f").unwrap()).unwrap()
    }

    /// An entry of two blocks, of which `blocks` are there.
    fn entry(root: &Path, blocks: u64) -> LocalDisk {
        let disk = LocalDisk::open(root).unwrap();
        let geometry = Geometry::of_new_file(BlockSize::new(4096).unwrap(), 8192).unwrap();
        let mut cinfo = Cinfo::new(geometry, 1_000, ChecksumState::Net);
        let entry = disk.create_entry(&key(), cinfo.clone(), None).unwrap();
        for index in 0..blocks {
            entry.data.write_vectored_at(index * 4096, &[Bytes::from(vec![7; 4096])]).unwrap();
            cinfo.blocks.insert(BlockIndex(index));
        }
        disk.write_cinfo(&key(), entry.data.as_ref(), &cinfo, None).unwrap();
        disk
    }

    fn set_mode(root: &Path, mode: u32) {
        fs::set_permissions(root.join("a/f"), fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_complete_files_are_found_that_are_open_to_others() {
        let root = tempfile::tempdir().unwrap();
        let none = tempfile::tempdir().unwrap();
        let view = SharedView::new(vec![none.path().join("absent"), root.path().to_owned()], SHOWN);
        let find = || view.find(&key());
        assert!(find().is_err(), "a disk that is not there may have it");
        let view = SharedView::new(vec![none.path().to_owned(), root.path().to_owned()], SHOWN);
        let find = || view.find(&key()).unwrap();
        assert!(find().is_none());
        drop(entry(root.path(), 1));
        set_mode(root.path(), 0o644);
        assert!(find().is_none(), "a block is missing");
        let _owner = entry(root.path(), 2);
        assert!(find().is_none(), "it is not open to others");
        set_mode(root.path(), 0o640);
        assert!(find().is_none(), "nor to all of them");
        set_mode(root.path(), 0o644);
        let found = find().unwrap();
        assert_eq!((found.path.as_path(), found.cinfo.geometry.file_size()), (root.path().join("a/f").as_path(), 8192));
        assert_eq!(fs::read_dir(none.path()).unwrap().count(), 0, "nothing was made");
    }

    #[test]
    fn a_lease_sets_the_time_of_access_alone_and_tells_when_the_file_has_gone() {
        let root = tempfile::tempdir().unwrap();
        let owner = entry(root.path(), 2);
        set_mode(root.path(), 0o644);
        let path = root.path().join("a/f");
        File::open(&path).unwrap().set_times(fs::FileTimes::new().set_accessed(SystemTime::UNIX_EPOCH)).unwrap();
        let view = SharedView::new(vec![root.path().to_owned()], SHOWN);
        let found = view.find(&key()).unwrap().unwrap();
        let before = path.metadata().unwrap();
        assert!(found.lease().unwrap());
        let after = path.metadata().unwrap();
        assert!(after.atime() > 1_700_000_000);
        assert_eq!((after.mtime(), after.mtime_nsec()), (before.mtime(), before.mtime_nsec()));
        set_mode(root.path(), 0o600);
        assert!(!found.lease().unwrap(), "it was closed to others");
        set_mode(root.path(), 0o644);
        owner.remove_entry(&key()).unwrap();
        assert!(!found.lease().unwrap(), "it has gone");
    }
}
