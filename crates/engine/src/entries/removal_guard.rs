//! Entries that are being removed: an open of one waits until it is gone, and then misses.

use crate::entries::open_files::OpenFiles;
use forebay_cache::CacheKey;
use std::sync::Arc;

/// Keys whose entries are being removed; opens of them wait until this is dropped.
pub(crate) struct RemovalGuard {
    open_files: Arc<OpenFiles>,
    keys: Vec<CacheKey>,
}

impl RemovalGuard {
    pub(crate) const fn new(open_files: Arc<OpenFiles>, keys: Vec<CacheKey>) -> Self {
        Self { open_files, keys }
    }

    /// Keys that may be removed: those in use are not among them.
    pub(crate) fn keys(&self) -> &[CacheKey] {
        &self.keys
    }
}

impl Drop for RemovalGuard {
    fn drop(&mut self) {
        self.open_files.release(&self.keys);
    }
}
