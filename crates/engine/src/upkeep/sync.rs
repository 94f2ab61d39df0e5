//! Making written blocks durable, and closing files that are not in use.
//!
//! Reads and closes never wait for it.

use crate::{
    Workers,
    entries::{
        cached_file::CachedFile, closed_uses::save_uses_of, file_context::FileContext, file_sync::sync_batch,
        open_files::OpenFiles,
    },
};
use forebay_cache::CacheKey;
use forebay_store::VolumeId;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::Semaphore, task::JoinSet};

const TICK: Duration = Duration::from_millis(500);

/// Files of one disk synced at the same time: more would only queue in the disk.
const SYNCS_MAX: usize = 8;

/// Files that are synced together at most: each has a record open meanwhile.
const BATCH_MAX: usize = 256;

/// Files that leave the table in one turn of the task: some tenths of a millisecond.
const CLOSES_PER_TURN: usize = 32;

/// Closed files whose uses are written in one tick at most.
const USES_MAX: usize = 4096;

/// Batches of them after which the index is committed.
const BATCHES_NOTED_MAX: usize = 32;

/// How long a shutdown waits for syncs: what a disk has not taken by then it does not take.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(60);

/// How long a shutdown writes uses of closed files: a service manager that waits in vain kills the process.
const USES_FLUSH_TIME_MAX: Duration = Duration::from_secs(15);

/// Syncs files as they become due, for ever: those that have changed soon, those that were used later.
pub(crate) async fn run(table: Arc<OpenFiles>, context: Arc<FileContext>) {
    let workers = context.options.workers.clone();
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
        let due = files.iter().filter(|file| is_due(file)).map(Arc::clone);
        let mut uses = uses_by_volume(&context, context.options.uses_interval, USES_MAX);
        let mut due = by_volume(due);
        for volume in uses.keys() {
            due.entry(*volume).or_default();
        }
        for (volume, files) in due {
            // One batch at a time: a disk that hangs keeps nothing waiting but itself.
            let batch = batches.entry(volume).or_default();
            if batch.is_empty() {
                let table = Arc::clone(&table);
                let context = Arc::clone(&context);
                let workers = workers.clone();
                let uses = uses.remove(&volume).unwrap_or_default();
                batch.spawn(async move {
                    sync_all(files.clone(), &workers).await;
                    remove_idle(&table, files).await;
                    save_uses(context, uses).await;
                });
            }
        }
        remove_idle(&table, files).await;
    }
}

/// Takes those of `files` out of the table that may leave it. Connections are served in between: there may be thousands, and each
/// closes a file.
async fn remove_idle(table: &OpenFiles, files: Vec<Arc<CachedFile>>) {
    let mut files = files.into_iter();
    loop {
        let batch: Vec<_> = files.by_ref().take(CLOSES_PER_TURN).collect();
        if batch.is_empty() {
            return;
        }
        table.remove_idle(&batch);
        drop(batch);
        tokio::task::yield_now().await;
    }
}

fn by_volume(files: impl Iterator<Item = Arc<CachedFile>>) -> BTreeMap<VolumeId, Vec<Arc<CachedFile>>> {
    let mut by_volume: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for file in files {
        if let Some(volume) = file.volume() {
            by_volume.entry(volume).or_default().push(file);
        }
    }
    // Syncs take the turns of their files in this order.
    by_volume.values_mut().for_each(|files: &mut Vec<Arc<CachedFile>>| files.sort_by(|a, b| a.key().cmp(&b.key())));
    by_volume
}

/// Closed files whose uses are due to be written, by their disks.
fn uses_by_volume(context: &FileContext, age: Duration, limit: usize) -> BTreeMap<VolumeId, Vec<CacheKey>> {
    let mut by_volume: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (key, volume) in context.closed.due(age, limit) {
        by_volume.entry(volume).or_default().push(key);
    }
    by_volume
}

/// Writes the records of closed files that were used, one batch after the other: no client waits for them.
async fn save_uses(context: Arc<FileContext>, keys: Vec<CacheKey>) {
    for batches in keys.chunks(BATCH_MAX * BATCHES_NOTED_MAX) {
        for batch in batches.chunks(BATCH_MAX) {
            let batch = batch.to_vec();
            let saving = Arc::clone(&context);
            // A panic has been logged; the uses of its files are tried again.
            let _ = context.options.workers.run(move || save_uses_of(&saving, &batch)).await;
        }
        // Notes that wait to be committed have a limit, and a shutdown has ended the task that commits them.
        if batches.len() == BATCH_MAX * BATCHES_NOTED_MAX
            && let Some(catalog) = &context.catalog
        {
            catalog.commit().await;
        }
    }
}

/// Syncs everything that is not on disk yet.
pub(crate) async fn flush(table: &OpenFiles, context: &Arc<FileContext>) {
    let workers = &context.options.workers;
    let syncs = by_volume(table.files().into_iter()).into_values().map(|files| {
        let workers = workers.clone();
        async move { sync_all(files, &workers).await }
    });
    if !all_within(FLUSH_TIME_MAX, syncs.collect()).await {
        tracing::error!("a disk did not take what was to be synced: it is fetched again later");
    }
    let uses = uses_by_volume(context, Duration::ZERO, usize::MAX).into_values();
    if !all_within(USES_FLUSH_TIME_MAX, uses.map(|keys| save_uses(Arc::clone(context), keys)).collect()).await {
        tracing::warn!("the last uses of some files are not in their records: these took too long to write");
    }
}

/// Whether all of `tasks` end within `limit`.
async fn all_within(limit: Duration, mut tasks: JoinSet<()>) -> bool {
    let all = async { while tasks.join_next().await.is_some() {} };
    tokio::time::timeout(limit, all).await.is_ok()
}

fn is_due(file: &CachedFile) -> bool {
    let Some(stored) = file.stored.as_ref() else { return false };
    let options = &file.context.options;
    let (dirty_since, used_since, has_failed) = {
        let record = stored.record.lock();
        (record.dirty_since, record.used_since, record.failed_syncs > 0)
    };
    let age = |since| forebay_net::clock::monotonic().saturating_duration_since(since);
    let is_use_due = used_since.is_some_and(|since| {
        // A file that was whole when it was found is opened to others with its next record.
        age(since) >= options.uses_interval || (options.publishes_complete && stored.is_to_be_published())
    });
    let Some(dirty_since) = dirty_since else { return is_use_due };
    let is_finished = !file.is_open() || (stored.map.is_complete() && stored.map.unsynced_count() > 0);
    is_use_due || age(dirty_since) >= options.sync_interval || (is_finished && !has_failed)
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
