//! Queries about entries.

use crate::{
    Delegation, Engine, Error, OpenRequest, Presence,
    catalog::{entry_info::EntryInfo, state::IndexState},
    entries::{cached_file::CachedFile, loader::closed_entry},
    namespace::routes::Target,
};
use forebay_cache::{CacheKey, Cinfo};

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
        self.inner.purge.learn().await;
        // Bounded: a page is collected in memory before it is sent.
        let page = catalog.page(after.cloned(), limit.min(ENTRIES_PER_PAGE_MAX)).await.ok_or(Error::NoIndex)?;
        Ok(page.into_iter().map(|(key, record)| self.entry_info(key, record)).collect())
    }

    /// Names and cached bytes of up to `limit` entries, as [`Self::entries`], from the last commit of the index: cheap enough for all
    /// entries again and again. `None` when the index is not open.
    pub async fn committed_files(&self, after: Option<CacheKey>, limit: usize) -> Option<Vec<(CacheKey, u64)>> {
        let limit = limit.min(ENTRIES_PER_PAGE_MAX);
        let page = self.context().catalog.as_ref()?.ask(move |index| index.page(after.as_ref(), limit)).await?;
        Some(page.into_iter().map(|(key, record)| (key, record.disk.present_bytes)).collect())
    }

    /// An entry; `None` when there is none of this key.
    ///
    /// # Errors
    /// As for [`Self::entries`].
    pub async fn entry(&self, key: &CacheKey) -> Result<Option<EntryInfo>, Error> {
        let catalog = self.context().catalog.as_ref().ok_or(Error::NoIndex)?;
        match self.inner.open_files.find(key) {
            Some(file) => drop(file.note_use()),
            None => self.context().note_uses_of(key),
        }
        let record = catalog.record(key).await.ok_or(Error::NoIndex)?;
        Ok(record.map(|record| self.entry_info(key.clone(), record)))
    }

    pub fn index_state(&self) -> IndexState {
        self.context().catalog.as_ref().map_or(IndexState::Off, |catalog| catalog.index_state())
    }

    fn entry_info(&self, key: CacheKey, record: forebay_index::Record) -> EntryInfo {
        // Looked up per entry without a lock across the page: the answer is a snapshot anyway.
        let is_open = self.inner.open_files.find(&key).is_some_and(|file| file.is_open());
        EntryInfo { key, record, is_open }
    }
}

impl Engine {
    /// Whether the cache has the file of a name, or a part of it. Answered from memory, in microseconds: neither the disk nor
    /// an origin is asked, so files of exported directories are [`Presence::Maybe`].
    ///
    /// # Errors
    /// When no export covers the name, or it names an origin that is not allowed.
    pub fn has(&self, request: &OpenRequest) -> Result<Presence, Error> {
        let target = match self.target(request, &Delegation::Operator)? {
            Target::Local { .. } => return Ok(Presence::Maybe),
            Target::Origin(target) => target,
        };
        let Some(key) = &target.key else { return Ok(Presence::No) };
        // An open file first: what it has written may not be in the index yet.
        let open = self.inner.open_files.find(key);
        if open.is_some_and(|file| file.stored.as_ref().is_some_and(|stored| stored.is_on_disk())) {
            return Ok(Presence::Have);
        }
        Ok(self.context().catalog.as_ref().map_or(Presence::No, |catalog| catalog.presence(key)))
    }
}

impl Engine {
    /// The record of an entry as it is now, with blocks that are not yet synced; `None` when there is no such entry.
    /// A lookup does not count as a use of the entry. A disk that fails holds nothing.
    pub async fn record(&self, key: &CacheKey) -> Option<Cinfo> {
        // An open file first: its record in memory is newer than the one on disk.
        if let Some(cinfo) = self.inner.open_files.find(key).and_then(|file| of_open_file(&file)) {
            return Some(cinfo);
        }
        closed_entry(self.context(), key).await.map(|entry| entry.cinfo)
    }
}

fn of_open_file(file: &CachedFile) -> Option<Cinfo> {
    let stored = file.stored.as_ref()?;
    let mut cinfo = stored.record.lock().cinfo.clone();
    // Written, not only synced: administrators want to see the blocks that readers get.
    cinfo.blocks = stored.map.snapshot_written();
    Some(cinfo)
}
