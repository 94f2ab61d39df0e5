//! Making written blocks durable, and letting go of files nobody uses.
//!
//! The order is what a crash survives: first the data is synced, then a cinfo is written whose bits name no block but those
//! that were written before that sync began. Nothing of this happens on the way of a read or a close.

use crate::{Workers, cached::CachedFile, kept::Kept, table::Table};
use forebay_cache::BlockSet;
use forebay_store::{StoreError, VolumeId};
use forebay_telemetry::{DiskOperation, DropReason};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::Semaphore, task::JoinSet};

/// How often files are looked at.
const TICK: Duration = Duration::from_millis(500);

/// Files of one disk synced at the same time: more would only queue in the disk.
const SYNCS_MAX: usize = 8;

/// How long a shutdown waits for syncs: what a disk has not taken by then it does not take.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(60);

/// Syncs files as they become due, `interval` after they changed at the latest, for ever.
pub(crate) async fn run(table: Arc<Table>, interval: Duration, workers: Workers) {
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
pub(crate) async fn flush(table: &Table, workers: &Workers) {
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
    let Some(kept) = file.kept() else { return false };
    let (dirty_since, has_failed) = {
        let record = kept.record();
        (record.dirty_since, record.failed_syncs > 0)
    };
    let Some(dirty_since) = dirty_since else { return false };
    let age = forebay_net::clock::monotonic().saturating_duration_since(dirty_since);
    let is_finished = !file.is_open() || (kept.map.is_complete() && kept.map.unsynced_count() > 0);
    age >= interval || (is_finished && !has_failed)
}

async fn sync_all(files: Vec<Arc<CachedFile>>, workers: &Workers) {
    let places = Arc::new(Semaphore::new(SYNCS_MAX));
    let mut syncs = JoinSet::new();
    for file in files {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let syncing = workers.start(move || {
            let _place = place;
            sync(&file);
        });
        syncs.spawn(syncing);
    }
    while syncs.join_next().await.is_some() {}
}

/// Syncs one file, after a sync of it that is under way. Blocking.
///
/// When the data cannot be synced, nothing is known of what was written before: the entry is given up. So it is when its
/// record cannot be written because of what is in its place.
pub(crate) fn sync(file: &Arc<CachedFile>) {
    let Some(kept) = file.kept() else { return };
    let _turn = kept.sync_turn();
    if file.is_retired() || !is_disk_online(file) {
        return;
    }
    let Some(syncing) = Syncing::begin(kept) else { return };
    let blocks = kept.map.snapshot_written();
    file.store_sums(kept);
    if kept.map.has_unsynced(&blocks) {
        if let Err(error) = kept.data.sync_data() {
            file.shared().note_disk_failure(DiskOperation::Sync, file.volume(), &error);
            file.retire(DropReason::Damaged);
            kept.forget_unsynced();
            return;
        }
        file.shared().metrics.add_disk_sync();
    }
    match write_cinfo(file, kept, blocks) {
        Ok(()) => syncing.done(),
        Err(StoreError::Superseded { .. }) if file.is_retired() => syncing.done(),
        Err(error) => {
            file.shared().note_store_failure(DiskOperation::Cinfo, file.volume(), &error);
            if error.concerns_one_entry() {
                file.retire(DropReason::Damaged);
            }
        }
    }
}

/// A file on a disk that is offline is about to be let go: there is nothing to be recorded, and nobody to take it.
fn is_disk_online(file: &CachedFile) -> bool {
    let disk = file.shared().disk.as_ref().zip(file.volume());
    disk.is_some_and(|(disk, volume)| disk.is_online(volume))
}

fn write_cinfo(file: &CachedFile, kept: &Kept, blocks: BlockSet) -> Result<(), StoreError> {
    let (Some(key), Some(disk)) = (file.key(), &file.shared().disk) else { return Ok(()) };
    let (mut cinfo, mark) = {
        let mut record = kept.record();
        file.refresh_access(&mut record);
        (record.cinfo.clone(), record.mark.clone())
    };
    cinfo.blocks = blocks;
    disk.write_cinfo(key, kept.data.as_ref(), &cinfo, mark.as_ref())?;
    let is_complete_now = kept.note_synced(&cinfo.blocks);
    let last_use = if file.is_open() { forebay_net::clock::now_unix() } else { cinfo.last_access() };
    file.shared().note_entry(key, kept.data.as_ref(), &cinfo, mark.as_ref(), last_use);
    if is_complete_now && !file.shared().options.integrity.checksums.is_empty() {
        file.shared().completions.add(key);
    }
    Ok(())
}

/// A sync under way: unless it is done in the end, it has failed, and the file stays dirty.
struct Syncing<'a> {
    kept: &'a Kept,
    is_done: bool,
}

impl<'a> Syncing<'a> {
    /// `None` when there is nothing to sync. What changes from now on makes the file dirty again.
    fn begin(kept: &'a Kept) -> Option<Self> {
        let mut record = kept.record();
        record.dirty_since.take()?;
        record.is_syncing = true;
        Some(Self { kept, is_done: false })
    }

    fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Syncing<'_> {
    fn drop(&mut self) {
        let mut record = self.kept.record();
        record.is_syncing = false;
        if self.is_done {
            record.failed_syncs = 0;
        } else {
            record.failed_syncs = record.failed_syncs.saturating_add(1);
            record.note_change();
        }
    }
}
