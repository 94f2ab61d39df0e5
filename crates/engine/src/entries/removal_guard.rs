//! Entries on their way out: who opens one waits until it is gone, and then misses.

use crate::entries::open_files::Table;
use forebay_cache::CacheKey;
use std::sync::Arc;

/// Keys whose entries are being removed; nobody opens them until this is dropped.
pub(crate) struct Leaving {
    table: Arc<Table>,
    keys: Vec<CacheKey>,
}

impl Leaving {
    pub(crate) const fn new(table: Arc<Table>, keys: Vec<CacheKey>) -> Self {
        Self { table, keys }
    }

    /// Keys that may be removed: those in use are not among them.
    pub(crate) fn keys(&self) -> &[CacheKey] {
        &self.keys
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.table.left(&self.keys);
    }
}
