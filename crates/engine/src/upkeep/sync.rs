//! Making written blocks durable, and letting go of files nobody uses.
//!
//! The order is what a crash survives: first the data is synced, then a cinfo is written whose bits name no block but those
//! that were written before that sync began. Nothing of this happens on the way of a read or a close.

use crate::{
    Workers,
    entries::{block_sums, cached_file::CachedFile, open_files::OpenFiles, stored_entry::StoredEntry},
    upkeep::entry_check::facts_of,
};
use forebay_cache::{CacheKey, Cinfo};
use forebay_index::Change;
use forebay_store::{DataFile, NewRecord, OriginMark, StoreError, VolumeId};
use forebay_telemetry::{DiskOperation, DropReason};
use parking_lot::MutexGuard;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::Semaphore, task::JoinSet};

/// How often files are looked at.
const TICK: Duration = Duration::from_millis(500);

/// Files of one disk synced at the same time: more would only queue in the disk.
const SYNCS_MAX: usize = 8;

/// Files that are synced together at most: each has a record open meanwhile.
const BATCH_MAX: usize = 256;

/// How long a shutdown waits for syncs: what a disk has not taken by then it does not take.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(60);

/// Syncs files as they become due, `interval` after they changed at the latest, for ever.
pub(crate) async fn run(table: Arc<OpenFiles>, interval: Duration, workers: Workers) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut batches: BTreeMap<VolumeId, JoinSet<()>> = BTreeMap::new();
    loop {
        ticks.tick().await;
        batches.retain(|_, batch| {
            while batch.try_join_next().is_some() {}
            !batch.is_empty()
        });
        let files = table.files();
        let due = files.iter().filter(|file| is_due(file, interval)).map(Arc::clone);
        for (volume, files) in by_volume(due) {
            // One batch at a time: a disk that hangs keeps nothing waiting but itself.
            let batch = batches.entry(volume).or_default();
            if batch.is_empty() {
                let (table, workers) = (Arc::clone(&table), workers.clone());
                batch.spawn(async move {
                    sync_all(files.clone(), &workers).await;
                    files.iter().for_each(|file| table.remove_if_idle(file));
                });
            }
        }
        for file in &files {
            table.remove_if_idle(file);
        }
    }
}

fn by_volume(files: impl Iterator<Item = Arc<CachedFile>>) -> BTreeMap<VolumeId, Vec<Arc<CachedFile>>> {
    let mut by_volume: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for file in files {
        if let Some(volume) = file.volume() {
            by_volume.entry(volume).or_default().push(file);
        }
    }
    by_volume
}

/// Syncs everything that is not on disk yet.
pub(crate) async fn flush(table: &OpenFiles, workers: &Workers) {
    let batches = by_volume(table.files().into_iter()).into_values().map(|files| {
        let workers = workers.clone();
        async move { sync_all(files, &workers).await }
    });
    let mut batches: JoinSet<()> = batches.collect();
    let all = async { while batches.join_next().await.is_some() {} };
    if tokio::time::timeout(FLUSH_TIME_MAX, all).await.is_err() {
        tracing::error!("a disk did not take what was to be synced: it is fetched again later");
    }
}

fn is_due(file: &CachedFile, interval: Duration) -> bool {
    let Some(stored) = file.stored() else { return false };
    let (dirty_since, has_failed) = {
        let record = stored.record();
        (record.dirty_since, record.failed_syncs > 0)
    };
    let Some(dirty_since) = dirty_since else { return false };
    let age = forebay_net::clock::monotonic().saturating_duration_since(dirty_since);
    let is_finished = !file.is_open() || (stored.map.is_complete() && stored.map.unsynced_count() > 0);
    age >= interval || (is_finished && !has_failed)
}

async fn sync_all(files: Vec<Arc<CachedFile>>, workers: &Workers) {
    let places = Arc::new(Semaphore::new(SYNCS_MAX));
    let mut syncs = JoinSet::new();
    for batch in batches(files) {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let syncing = workers.start(move || {
            let _place = place;
            sync_together(&batch);
        });
        syncs.spawn(syncing);
    }
    while syncs.join_next().await.is_some() {}
}

/// Files that are synced in one piece of work: many wait for the disk together, a few beside each other, as those do that gain
/// nothing by company.
fn batches(files: Vec<Arc<CachedFile>>) -> Vec<Vec<Arc<CachedFile>>> {
    let gains = |file: &Arc<CachedFile>| {
        let (disk, stored) = (file.shared().disk.as_ref(), file.stored());
        disk.zip(stored).is_some_and(|(disk, stored)| disk.gains_from_batch_sync(stored.data.as_ref()))
    };
    let has_data = |file: &Arc<CachedFile>| file.stored().is_some_and(|stored| stored.map.unsynced_count() > 0);
    let (vector, alone): (Vec<_>, Vec<_>) = files.into_iter().partition(gains);
    let (with_data, without): (Vec<_>, Vec<_>) = vector.into_iter().partition(has_data);
    let len_of = |files: &[_]| if files.len() <= SYNCS_MAX { 1 } else { BATCH_MAX };
    let of_len = |files: Vec<_>, len: usize| files.chunks(len).map(<[_]>::to_vec).collect::<Vec<_>>();
    let lens = [len_of(&with_data), len_of(&without), 1];
    [with_data, without, alone].into_iter().zip(lens).flat_map(|(files, len)| of_len(files, len)).collect()
}

/// Syncs one file, after a sync of it that is under way. Blocking.
///
/// When the data cannot be synced, nothing is known of what was written before: the entry is given up. So it is when its
/// record cannot be written because of what is in its place.
pub(crate) fn sync(file: &Arc<CachedFile>) {
    sync_together(std::slice::from_ref(file));
}

/// Syncs different files, in the order of their keys: whoever has the turn of one of them may wait for that of the next.
/// Blocking.
fn sync_together(files: &[Arc<CachedFile>]) {
    let syncings = files.iter().filter_map(Syncing::begin).collect();
    let syncings = sync_data(syncings);
    let Some(disk) = syncings.first().and_then(|syncing| syncing.file.shared().disk.clone()) else { return };
    let new_records: Vec<NewRecord<'_>> = syncings.iter().map(Syncing::new_record).collect();
    let written = disk.write_cinfos(&new_records);
    drop(new_records);
    for (syncing, written) in syncings.into_iter().zip(written) {
        syncing.end(written);
    }
}

/// Makes the data durable of those that have some that is not; those that have failed are out.
fn sync_data(syncings: Vec<Syncing<'_>>) -> Vec<Syncing<'_>> {
    let Some(disk) = syncings.first().and_then(|syncing| syncing.file.shared().disk.clone()) else { return Vec::new() };
    let (unsynced, mut done): (Vec<_>, Vec<_>) =
        syncings.into_iter().partition(|syncing| syncing.stored.map.has_unsynced(&syncing.cinfo.blocks));
    let data: Vec<&dyn DataFile> = unsynced.iter().map(|syncing| syncing.stored.data.as_ref()).collect();
    let results = disk.sync_data_of(&data);
    drop(data);
    for (syncing, result) in unsynced.into_iter().zip(results) {
        let (file, stored) = (syncing.file, syncing.stored);
        match result {
            Ok(()) => {
                file.shared().metrics.add_disk_sync();
                done.push(syncing);
            }
            Err(error) => {
                file.shared().note_disk_failure(DiskOperation::Sync, file.volume(), &error);
                file.retire(DropReason::Damaged);
                stored.forget_unsynced();
            }
        }
    }
    done
}

/// A file on a disk that is offline is about to be let go: there is nothing to be recorded, and nobody to take it.
fn is_disk_online(file: &CachedFile) -> bool {
    let disk = file.shared().disk.as_ref().zip(file.volume());
    disk.is_some_and(|(disk, volume)| disk.is_online(volume))
}

/// A sync under way: unless it is done in the end, it has failed, and the file stays dirty.
struct Syncing<'a> {
    file: &'a Arc<CachedFile>,
    key: &'a CacheKey,
    stored: &'a StoredEntry,
    /// What is to be recorded: blocks that were written before the sync of the data.
    cinfo: Cinfo,
    mark: Option<OriginMark>,
    is_first: bool,
    is_done: bool,
    _turn: MutexGuard<'a, ()>,
}

impl<'a> Syncing<'a> {
    /// Waits for a sync of the file under way. `None` when there is nothing to sync. What changes from now on makes the file
    /// dirty again.
    fn begin(file: &'a Arc<CachedFile>) -> Option<Self> {
        let (stored, key) = (file.stored()?, file.key()?);
        let turn = stored.sync_turn();
        let _noting = stored.noting();
        if file.is_retired() || !is_disk_online(file) {
            return None;
        }
        let mut record = stored.record();
        record.dirty_since.take()?;
        if !stored.is_on_disk() {
            // Nothing was written: there is nothing that a record would tell of.
            return None;
        }
        record.is_syncing = true;
        file.refresh_access(&mut record);
        let cinfo = Cinfo { blocks: stored.map.snapshot_written(), ..record.cinfo.clone() };
        let (mark, is_first) = (record.mark.clone(), !record.names_blocks);
        drop(record);
        file.store_sums(stored);
        Some(Self { file, key, stored, cinfo, mark, is_first, is_done: false, _turn: turn })
    }

    fn new_record(&self) -> NewRecord<'_> {
        let (data, origin) = (self.stored.data.as_ref(), self.mark.as_ref());
        NewRecord { key: self.key, data, cinfo: &self.cinfo, origin, is_first: self.is_first }
    }

    fn end(mut self, written: Result<(), StoreError>) {
        match written {
            Ok(()) => {
                self.is_done = true;
                self.note_recorded();
            }
            Err(StoreError::Superseded { .. }) if self.file.is_retired() => self.is_done = true,
            Err(error) => {
                self.file.shared().note_store_failure(DiskOperation::Cinfo, self.file.volume(), &error);
                if error.concerns_one_entry() {
                    self.file.retire(DropReason::Damaged);
                }
            }
        }
    }

    /// Notes that the record is on disk, unless the file was retired while it was on its way there.
    fn note_recorded(&self) {
        let Self { file, key, stored, cinfo, mark, .. } = self;
        let _noting = stored.noting();
        if file.is_retired() {
            return;
        }
        stored.record().names_blocks = cinfo.blocks.last().is_some();
        let is_complete_now = stored.note_synced(&cinfo.blocks);
        let last_use = if file.is_open() { forebay_net::clock::now_unix() } else { cinfo.last_access() };
        file.shared().note_entry(key, stored.data.as_ref(), cinfo, mark.as_ref(), last_use);
        if let (Some(catalog), Some(owner)) = (&file.shared().catalog, file.owner()) {
            catalog.note(key, Change::owned(owner.to_owned()));
        }
        if is_complete_now {
            note_complete(file, stored, key);
        }
        if file.shared().options.publishes_complete && stored.is_to_be_published() {
            file.publish();
        }
    }
}

impl Drop for Syncing<'_> {
    fn drop(&mut self) {
        let mut record = self.stored.record();
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
    let shared = file.shared();
    let algorithms = &shared.options.integrity.checksums;
    if algorithms.is_empty() {
        return;
    }
    let checksums = block_sums::of_file(stored, algorithms);
    if let (Some(checksums), Some(catalog)) = (&checksums, &shared.catalog) {
        catalog.note_learnt(key, stored.generation(), facts_of(checksums));
    }
    shared.completions.add(key, stored.generation(), checksums);
}
