//! Making written blocks durable, and closing files that are not in use.
//!
//! Reads and closes never wait for it.

use crate::{
    Workers,
    entries::{cached_file::CachedFile, file_sync::sync_batch, open_files::OpenFiles},
};
use forebay_store::VolumeId;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::Semaphore, task::JoinSet};

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
                let table = Arc::clone(&table);
                let workers = workers.clone();
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
    let Some(stored) = file.stored.as_ref() else { return false };
    let (dirty_since, has_failed) = {
        let record = stored.record.lock();
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
            sync_batch(&batch);
        });
        syncs.spawn(syncing);
    }
    while syncs.join_next().await.is_some() {}
}

/// Files that are synced in one piece of work: many in one batch, a few in parallel, like those that gain
/// nothing from a batch.
fn batches(files: Vec<Arc<CachedFile>>) -> Vec<Vec<Arc<CachedFile>>> {
    let gains = |file: &Arc<CachedFile>| {
        let disk = file.context.disk.as_ref();
        let stored = file.stored.as_ref();
        disk.zip(stored).is_some_and(|(disk, stored)| disk.gains_from_batch_sync(stored.data.as_ref()))
    };
    let has_data = |file: &Arc<CachedFile>| file.stored.as_ref().is_some_and(|stored| stored.map.unsynced_count() > 0);
    let (gaining, alone): (Vec<_>, Vec<_>) = files.into_iter().partition(gains);
    let (with_data, without): (Vec<_>, Vec<_>) = gaining.into_iter().partition(has_data);
    let len_of = |files: &[_]| if files.len() <= SYNCS_MAX { 1 } else { BATCH_MAX };
    let of_len = |files: Vec<_>, len: usize| files.chunks(len).map(<[_]>::to_vec).collect::<Vec<_>>();
    let lens = [len_of(&with_data), len_of(&without), 1];
    [with_data, without, alone].into_iter().zip(lens).flat_map(|(files, len)| of_len(files, len)).collect()
}
