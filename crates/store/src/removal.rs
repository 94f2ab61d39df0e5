//! Removing many entries at once, without a sync for each.

use crate::{
    StoreError,
    tree::{Place, Tree},
};
use forebay_cache::CacheKey;
use rustix::fs::{AtFlags, unlinkat};
use std::{
    collections::{BTreeMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Keys whose record was removed and the removal not synced: should one of them get a new entry, its directory is synced
/// first, so that a crash cannot bring the old record back beside the new data.
#[derive(Debug, Default)]
pub(crate) struct UnsyncedRemovals {
    hashes: Mutex<HashSet<u64>>,
}

/// Keys that are remembered at most; then the whole file system is synced once.
const UNSYNCED_MAX: usize = 65_536;

impl UnsyncedRemovals {
    /// Remembers keys whose record is about to be removed.
    pub(crate) fn note(&self, tree: &Tree, keys: &[&CacheKey]) -> Result<(), StoreError> {
        let is_full = self.hashes().len().saturating_add(keys.len()) > UNSYNCED_MAX;
        if is_full {
            // Taken out first: what is removed during the sync may miss it.
            let synced = std::mem::take(&mut *self.hashes());
            rustix::fs::syncfs(tree.root()).map_err(|errno| {
                self.hashes().extend(synced);
                StoreError::io("syncing the file system of", tree.path())(errno)
            })?;
        }
        self.hashes().extend(keys.iter().map(|key| hash_of(key)));
        Ok(())
    }

    /// Whether the removal of this key's record may not be on disk yet; the caller syncs the directory now.
    pub(crate) fn take(&self, key: &CacheKey) -> bool {
        self.hashes().remove(&hash_of(key))
    }

    fn hashes(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.hashes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Positions of `keys` by their directory.
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

fn hash_of(key: &CacheKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}
