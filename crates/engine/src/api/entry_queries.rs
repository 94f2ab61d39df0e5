//! Queries about entries.

use crate::{
    Engine, Error,
    catalog::{entry_info::EntryInfo, state::IndexState},
};
use forebay_cache::CacheKey;

/// Largest number of entries in one page.
pub const ENTRIES_PER_PAGE_MAX: usize = 10_000;

impl Engine {
    /// Up to `limit` entries, [`ENTRIES_PER_PAGE_MAX`] at most, after `after` in the order of their keys; from the first one
    /// without it.
    ///
    /// # Errors
    /// When the index is not in use, or being read after a start.
    pub async fn entries(&self, after: Option<&CacheKey>, limit: usize) -> Result<Vec<EntryInfo>, Error> {
        let catalog = self.context().catalog.as_ref().ok_or(Error::NoIndex)?;
        // Bounded: a page is collected in memory before it is sent.
        let page = catalog.page(after.cloned(), limit.min(ENTRIES_PER_PAGE_MAX)).await.ok_or(Error::NoIndex)?;
        Ok(page.into_iter().map(|(key, record)| self.entry_info(key, record)).collect())
    }

    /// An entry; `None` when there is none of this key.
    ///
    /// # Errors
    /// As for [`Self::entries`].
    pub async fn entry(&self, key: &CacheKey) -> Result<Option<EntryInfo>, Error> {
        let catalog = self.context().catalog.as_ref().ok_or(Error::NoIndex)?;
        let record = catalog.record(key).await.ok_or(Error::NoIndex)?;
        Ok(record.map(|record| self.entry_info(key.clone(), record)))
    }

    /// How the index is.
    pub fn index_state(&self) -> IndexState {
        self.context().catalog.as_ref().map_or(IndexState::Off, |catalog| catalog.index_state())
    }

    fn entry_info(&self, key: CacheKey, record: forebay_index::Record) -> EntryInfo {
        // Looked up per entry without a lock across the page: the answer is a snapshot anyway.
        let is_open = self.open_files().find(&key).is_some_and(|file| file.is_open());
        EntryInfo::new(key, record, is_open)
    }
}
