//! Disks that change hands while the engine runs: parts of a store that several fillers share.

use crate::catalog::Catalog;
use forebay_cache::CacheKey;
use forebay_index::Change;
use forebay_store::VolumeId;
use std::{collections::BTreeSet, sync::Arc};

/// Entries that are looked at together.
const PAGE: usize = 1000;

impl Catalog {
    /// Has the disk `volume` walked over, whose entries are those of another process.
    pub(crate) fn begin_volume(&self, volume: VolumeId) {
        self.unwalked.lock().insert(volume);
    }

    /// Removes the entries of `volumes` from the index. They stay on disk, for another process.
    pub(crate) async fn forget_volumes(self: &Arc<Self>, volumes: &BTreeSet<VolumeId>) {
        self.unwalked.lock().retain(|volume| !volumes.contains(volume));
        let mut after: Option<CacheKey> = None;
        // Without an index there is nothing to remove; its records are compared with the files when it is opened again.
        while let Some(page) = self.page(after.take(), PAGE).await {
            let gone = page.iter().filter(|(_, record)| volumes.contains(&VolumeId(record.disk.volume)));
            gone.for_each(|(key, _)| self.note(key, Change::removed()));
            after = page.into_iter().next_back().map(|(key, _)| key);
            if after.is_none() {
                break;
            }
        }
        self.commit().await;
    }

    /// Marks the disks that have come as not walked over; whether there were any.
    pub(super) async fn note_new_volumes(self: &Arc<Self>) -> bool {
        let volumes = std::mem::take(&mut *self.unwalked.lock());
        if volumes.is_empty() {
            return false;
        }
        let noted = volumes.clone();
        let is_noted = self.ask(move |index| noted.iter().try_for_each(|volume| index.forget_walk(volume.0))).await;
        if is_noted.is_none() {
            // As soon as the index is open again.
            self.unwalked.lock().extend(volumes);
        }
        is_noted.is_some()
    }
}
