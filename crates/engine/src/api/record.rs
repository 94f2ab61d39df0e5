//! The record of an entry, for inspection.

use crate::{
    Engine,
    entries::{cached_file::CachedFile, loader::open_entry},
};
use forebay_cache::{CacheKey, Cinfo};

impl Engine {
    /// The record of an entry as it is now, with blocks that are not yet synced; `None` when there is no such entry.
    /// A lookup does not count as a use of the entry. A disk that fails holds nothing.
    pub async fn record(&self, key: &CacheKey) -> Option<Cinfo> {
        // An open file first: its record in memory is newer than the one on disk.
        if let Some(cinfo) = self.open_files().find(key).and_then(|file| of_open_file(&file)) {
            return Some(cinfo);
        }
        open_entry(self.context(), key.clone(), false).await.map(|entry| entry.cinfo)
    }
}

fn of_open_file(file: &CachedFile) -> Option<Cinfo> {
    let stored = file.stored.as_ref()?;
    let mut cinfo = stored.record.lock().cinfo.clone();
    // Written, not only synced: administrators want to see the blocks that readers get.
    cinfo.blocks = stored.map.snapshot_written();
    Some(cinfo)
}
