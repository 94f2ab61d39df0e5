//! Removing many entries at once, without a sync for each.

use crate::{
    PieceRunner, StoreError,
    tree::{Place, Tree},
};
use forebay_cache::CacheKey;
use parking_lot::Mutex;
use rustix::fs::{AtFlags, unlinkat};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
};

/// Keys whose record was removed and the removal not synced: should one of them get a new entry, its directory is synced
/// first, so that a crash cannot bring the old record back next to the new data.
#[derive(Debug, Default)]
pub(crate) struct UnsyncedRemovals {
    removals: Mutex<Removals>,
}

#[derive(Debug, Default)]
struct Removals {
    last: u64,
    /// By the hash of the key: its last removal.
    keys: HashMap<u64, Removal>,
    /// By path below the root: the number of the last removal in it.
    directories: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct Removal {
    number: u64,
    /// Hash of the path of its directory.
    directory: u64,
}

/// Keys that are remembered at most; then their directories are synced.
const UNSYNCED_MAX: usize = 65_536;

/// Directories that are synced in one piece: the time of a hanging disk is to differ from that of many syncs.
const DIRECTORIES_PER_PIECE: usize = 16;

impl UnsyncedRemovals {
    /// Remembers keys whose record is about to be removed from `directory`.
    pub(crate) fn note(&self, tree: &Tree, directory: &str, keys: &[(usize, &CacheKey)]) -> Result<(), StoreError> {
        // Bounds the memory. Syncing all at once is cheaper than forgetting, which would need a sync per key.
        let are_too_many = || self.removals.lock().keys.len().saturating_add(keys.len()) > UNSYNCED_MAX;
        if are_too_many()
            && let Err(error) = self.settle(tree, &|piece| piece())
            && are_too_many()
        {
            return Err(error);
        }
        let mut removals = self.removals.lock();
        removals.last += 1;
        let number = removals.last;
        // Hashes suffice: two keys with the same one cost a needless sync, never a missing one.
        let hash = hash_of(directory);
        removals.keys.extend(keys.iter().map(|(_, key)| (hash_of(*key), Removal { number, directory: hash })));
        removals.directories.insert(directory.to_owned(), number);
        Ok(())
    }

    /// Whether the removal of this key's record may not be on disk yet.
    pub(crate) fn has(&self, key: &CacheKey) -> bool {
        self.removals.lock().keys.contains_key(&hash_of(key))
    }

    /// Forgets a key after its directory was synced.
    pub(crate) fn forget(&self, key: &CacheKey) {
        self.removals.lock().keys.remove(&hash_of(key));
    }

    /// Number of keys that are remembered.
    pub(crate) fn len(&self) -> usize {
        self.removals.lock().keys.len()
    }

    /// Syncs all directories, in pieces that `run` runs. After a failure of one the others follow: only those of its piece stay.
    pub(crate) fn settle(&self, tree: &Tree, run: &PieceRunner<'_>) -> Result<(), StoreError> {
        // The lock is not held during the syncs; removals that are noted meanwhile have higher numbers and stay.
        let (last, directories) = {
            let removals = self.removals.lock();
            (removals.last, removals.directories.keys().cloned().collect::<Vec<_>>())
        };
        let mut failed = BTreeSet::new();
        let mut result = Ok(());
        for piece in directories.chunks(DIRECTORIES_PER_PIECE) {
            let synced = run(&|| piece.iter().try_for_each(|directory| sync_directory(tree, directory)));
            if synced.is_err() {
                failed.extend(piece.iter().map(|directory| hash_of(directory.as_str())));
            }
            result = result.and(synced);
        }
        let mut removals = self.removals.lock();
        removals.keys.retain(|_, removal| removal.number > last || failed.contains(&removal.directory));
        removals.directories.retain(|path, number| *number > last || failed.contains(&hash_of(path.as_str())));
        result
    }
}

/// Syncs a directory, or, when it is gone itself, the one above it.
fn sync_directory(tree: &Tree, path: &str) -> Result<(), StoreError> {
    let mut rest = path;
    loop {
        match tree.directory(rest) {
            Ok(directory) => {
                return rustix::fs::fsync(&*directory).map_err(StoreError::io("syncing", &tree.path.join(rest)));
            }
            // A removed directory cannot be synced; its own removal, in the one above, includes those of its names.
            Err(_) if !rest.is_empty() => rest = rest.rsplit_once('/').map_or("", |(parent, _)| parent),
            Err(errno) => return Err(StoreError::io("opening", &tree.path)(errno)),
        }
    }
}

pub(crate) fn by_directory(keys: &[CacheKey]) -> BTreeMap<&str, Vec<(usize, &CacheKey)>> {
    let mut directories: BTreeMap<&str, Vec<(usize, &CacheKey)>> = BTreeMap::new();
    for (position, key) in keys.iter().enumerate() {
        directories.entry(key.split().0).or_default().push((position, key));
    }
    directories
}

/// Removes both files of an entry, the record first, and syncs nothing.
pub(crate) fn remove_unsynced(place: &Place) -> Result<(), StoreError> {
    let cinfo = place.cinfo()?;
    if cinfo.remove()? && cinfo.is_linked() {
        // In a space of XCache, which may be on another file system.
        cinfo.sync_directory()?;
    }
    place.data()?.remove()?;
    Ok(())
}

/// Removes the directory `path` below the root if it is empty, and then those above it.
pub(crate) fn remove_empty_directories(tree: &Tree, path: &str) {
    let mut rest = path;
    while !rest.is_empty() {
        let (parent, name) = rest.rsplit_once('/').unwrap_or(("", rest));
        let Ok(directory) = tree.directory(parent) else { return };
        // Mostly it is not empty, which costs one call.
        if unlinkat(&*directory, name, AtFlags::REMOVEDIR).is_err() {
            return;
        }
        rest = parent;
    }
}

fn hash_of(name: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permissions::{Creation, Permissions};
    use std::cell::Cell;

    #[test]
    fn a_directory_that_cannot_be_synced_keeps_no_other_unsettled() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::open(root.path(), Creation::with(Permissions::default())).unwrap();
        let removals = UnsyncedRemovals::default();
        let directories = 3 * DIRECTORIES_PER_PIECE;
        for number in 0..directories {
            let key = CacheKey::from_text(&format!("/{number:03}/f")).unwrap();
            std::fs::create_dir(root.path().join(key.split().0)).unwrap();
            removals.note(&tree, key.split().0, &[(0, &key)]).unwrap();
        }
        let pieces = Cell::new(0);
        let second_fails = |piece: &dyn Fn() -> Result<(), StoreError>| {
            pieces.set(pieces.get() + 1);
            if pieces.get() == 2 { Err(StoreError::NoVolume) } else { piece() }
        };
        assert!(removals.settle(&tree, &second_fails).is_err());
        assert_eq!((pieces.get(), removals.len()), (3, DIRECTORIES_PER_PIECE));
        let left = |number: usize| removals.has(&CacheKey::from_text(&format!("/{number:03}/f")).unwrap());
        assert!((0..directories).all(|number| left(number) == (number / DIRECTORIES_PER_PIECE == 1)));
        removals.settle(&tree, &|piece| piece()).unwrap();
        assert_eq!(removals.len(), 0);
    }
}
