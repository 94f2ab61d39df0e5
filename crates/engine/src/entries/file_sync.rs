//! Making written blocks of files durable.
//!
//! The order is what a crash survives: first the data is synced, then a cinfo is written whose bits name no block but those
//! that were written before that sync began.

use crate::{
    catalog::entry_info::facts_of,
    entries::{cached_file::CachedFile, file_context::CompletedFile, stored_entry::StoredEntry},
};
use forebay_cache::{CacheKey, Cinfo};
use forebay_index::Change;
use forebay_store::{DataFile, FileState, NewRecord, OriginMark, StoreError};
use forebay_telemetry::{DiskOperation, DropReason};
use parking_lot::MutexGuard;
use std::sync::Arc;

/// Syncs one file, after a sync of it that is under way. Blocking.
///
/// When the data cannot be synced, nothing is known of what was written before: the entry is given up. So it is when its
/// record cannot be written because of what is in its place.
pub(crate) fn sync(file: &Arc<CachedFile>) {
    sync_batch(std::slice::from_ref(file));
}

/// Syncs different files, in the order of their keys: a thread that has the turn of one of them may wait for that of the next.
/// Blocking.
pub(crate) fn sync_batch(files: &[Arc<CachedFile>]) {
    let syncings = files.iter().filter_map(Syncing::begin).collect();
    let syncings = sync_data(syncings);
    let Some(disk) = syncings.first().and_then(|syncing| syncing.file.context.disk.clone()) else { return };
    let new_records: Vec<NewRecord<'_>> = syncings.iter().map(Syncing::new_record).collect();
    let written = disk.write_cinfos(&new_records);
    drop(new_records);
    for (syncing, written) in syncings.into_iter().zip(written) {
        syncing.end(written);
    }
}

/// Makes the data durable of those that have some that is not; those that have failed are out.
fn sync_data(syncings: Vec<Syncing<'_>>) -> Vec<Syncing<'_>> {
    let Some(disk) = syncings.first().and_then(|syncing| syncing.file.context.disk.clone()) else {
        return Vec::new();
    };
    let (unsynced, mut done): (Vec<_>, Vec<_>) =
        // Only access times or counts have changed: the data needs no sync.
        syncings.into_iter().partition(|syncing| syncing.stored.map.has_unsynced(&syncing.cinfo.blocks));
    let data: Vec<&dyn DataFile> = unsynced.iter().map(|syncing| syncing.stored.data.as_ref()).collect();
    let results = disk.sync_data_of(&data);
    drop(data);
    for (syncing, result) in unsynced.into_iter().zip(results) {
        let file = syncing.file;
        let stored = syncing.stored;
        match result {
            Ok(()) => {
                file.context.metrics.add_disk_sync();
                done.push(syncing);
            }
            Err(error) => {
                // After a failed sync the kernel may have dropped the pages: a second sync would report success
                // without the data.
                file.context.note_io_failure(DiskOperation::Sync, file.volume(), &error);
                file.retire(DropReason::Damaged);
                stored.forget_unsynced();
            }
        }
    }
    done
}

/// A sync under way: unless it is done in the end, it has failed, and the file stays dirty.
struct Syncing<'a> {
    file: &'a Arc<CachedFile>,
    key: &'a CacheKey,
    stored: &'a StoredEntry,
    /// The record to write; it names blocks that were written before the sync of the data.
    cinfo: Cinfo,
    mark: Option<OriginMark>,
    is_first: bool,
    is_done: bool,
    _turn: MutexGuard<'a, ()>,
}

impl<'a> Syncing<'a> {
    /// Waits for a sync of the file under way. `None` when there is nothing to sync. Later changes make the file
    /// dirty again.
    fn begin(file: &'a Arc<CachedFile>) -> Option<Self> {
        let stored = file.stored.as_ref()?;
        let key = file.key()?;
        // Held until the record is written: two syncs of one file would write their records in any order.
        let turn = stored.sync_turn.lock();
        let _noting = stored.noting.lock();
        // Asked under the lock that retiring waits for: no note follows the note of the end. A file on a disk that is offline is about to be
        // closed: there is nothing to record, and no disk to take it.
        if file.is_retired() || !file.is_disk_online() {
            return None;
        }
        let mut record = stored.record.lock();
        // Taken before the blocks are read: a change in between makes the file dirty again.
        let (changed, used) = (record.dirty_since.take(), record.used_since.take());
        changed.or(used)?;
        if !stored.is_on_disk() {
            // Nothing was written: a record would have no blocks to name.
            return None;
        }
        record.is_syncing = true;
        file.refresh_access(&mut record);
        let cinfo = Cinfo { blocks: stored.map.snapshot_written(), ..record.cinfo.clone() };
        let mark = record.mark.clone();
        let is_first = !record.names_blocks;
        // Released before the disk is used: opens and closes change the record.
        drop(record);
        file.store_sums(stored);
        Some(Self { file, key, stored, cinfo, mark, is_first, is_done: false, _turn: turn })
    }

    fn new_record(&self) -> NewRecord<'_> {
        let data = self.stored.data.as_ref();
        let origin = self.mark.as_ref();
        NewRecord { key: self.key, data, cinfo: &self.cinfo, origin, is_first: self.is_first }
    }

    fn end(mut self, written: Result<(), StoreError>) {
        match written {
            Ok(()) => {
                self.is_done = true;
                self.note_recorded();
            }
            // The entry was removed or replaced under way: a retired file has no record to write.
            Err(StoreError::Superseded { .. }) if self.file.is_retired() => self.is_done = true,
            Err(error) => {
                self.file.context.note_store_failure(DiskOperation::Cinfo, self.file.volume(), &error);
                if error.concerns_one_entry() {
                    self.file.retire(DropReason::Damaged);
                }
            }
        }
    }

    /// Notes that the record is on disk, unless the file was retired while it was on its way there.
    fn note_recorded(&self) {
        let Self { file, key, stored, cinfo, mark, .. } = self;
        let data_state = stored.data.file().metadata().ok().map(|metadata| FileState::of(&metadata));
        let _noting = stored.noting.lock();
        // Its end may be in the index already: a note of the entry would bring it back.
        if file.is_retired() {
            return;
        }
        {
            let mut record = stored.record.lock();
            record.names_blocks = cinfo.blocks.last().is_some();
            record.data_state = data_state;
            // A use since then is noted with the next record, or before a purge.
            record.is_use_unnoted &= record.used_since.is_some();
        }
        let is_complete_now = stored.note_synced(&cinfo.blocks);
        // An open file is in use: its entry must not be purged as if the last open were its last use.
        let last_use = if file.is_open() { forebay_net::clock::now_unix() } else { cinfo.last_access() };
        file.context.note_entry(key, stored.data.as_ref(), cinfo, mark.as_ref(), last_use);
        if let (Some(catalog), Some(owner)) = (&file.context.catalog, file.owner()) {
            catalog.note(key, Change::owned(owner.to_owned()));
        }
        if is_complete_now {
            note_complete(file, stored, key);
        }
        // Only after the record is on disk: a crash must not leave a readable file whose blocks are not recorded.
        if file.context.options.publishes_complete && stored.is_to_be_published() {
            file.publish();
        }
    }
}

impl Drop for Syncing<'_> {
    fn drop(&mut self) {
        let mut record = self.stored.record.lock();
        record.is_syncing = false;
        if self.is_done {
            record.failed_syncs = 0;
        } else {
            record.failed_syncs = record.failed_syncs.saturating_add(1);
            record.note_change();
        }
    }
}

/// Sees to the checksums of a file that is complete and on disk as a whole since a moment.
fn note_complete(file: &CachedFile, stored: &StoredEntry, key: &CacheKey) {
    let context = &file.context;
    let algorithms = &context.options.integrity.checksums;
    if algorithms.is_empty() {
        return;
    }
    let checksums = stored.file_checksums(algorithms);
    if let (Some(checksums), Some(catalog)) = (&checksums, &context.catalog) {
        catalog.note_learnt(key, stored.generation(), facts_of(checksums));
    }
    let completed = CompletedFile { key: key.clone(), generation: stored.generation(), checksums };
    // If the queue is full, the next scrub makes up for it.
    let _ = context.completed.try_send(completed);
}
