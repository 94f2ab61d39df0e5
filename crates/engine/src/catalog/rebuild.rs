//! Making the index again from what is on disk, while files are served.
//!
//! A disk is walked over in slices; what a slice has found is committed together with nothing that was noted of the same
//! entries since the slice was begun, for that is newer. Between slices there is a pause, so that reads keep most of the disk.

use crate::catalog::{
    Catalog,
    entry_info::{disk_facts, learnt},
};
use forebay_cache::{CacheKey, EntryId};
use forebay_index::{Change, Facts};
use forebay_store::{Scan, ScanSlice, ScannedEntry, StoreError, VolumeId, VolumeInfo};
use forebay_telemetry::{DiskOperation, IndexPhase};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

/// Names that are examined before the next commit of what was found.
const SLICE_NAMES: usize = 4096;

/// Names that are examined by one call: short of what a slow disk needs longer for than a disk may be silent.
const STEP_NAMES: usize = 256;

/// Longest pause between slices.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How long before the last commit an entry may have come that is not in the index, in seconds: what comes is noted at once,
/// and committed with the next tick.
const MISSED_SECONDS_MAX: i64 = 60;

pub(super) struct Walk {
    /// Only over what changed since then, in seconds of the Unix epoch: all else is in the index.
    changed_since: Option<i64>,
    volume: VolumeId,
    root: PathBuf,
    scan: Box<dyn Scan>,
    /// The next number when the walk began.
    since: EntryId,
    files: u64,
    orphans: u64,
    unusable: u64,
}

/// The walk that is to come, if any.
enum NextWalk {
    Begun(Walk),
    /// All disks that can be read were walked over; whether these are all disks.
    None {
        has_all: bool,
    },
}

pub(super) enum WalkedTo {
    Slice(Walk),
    End(VolumeId),
    /// A failure: it is begun again later.
    Failure,
}

impl Catalog {
    /// Begins a walk over the first disk whose entries are not all in the index, if there is one that can be read.
    /// After a walk, it is one after `after`.
    pub(super) async fn begin_walk(self: &Arc<Self>, after: Option<VolumeId>) -> Option<Walk> {
        // Reported before the walk begins, so that an empty cache is ready at once.
        let (walk, has_all) = match self.find_walk(after).await {
            NextWalk::Begun(walk) => (Some(walk), false),
            NextWalk::None { has_all } => (None, has_all),
        };
        // A walk over recent changes only finds the entries of the last seconds before a crash: the index counts as
        // complete.
        let is_complete = walk.as_ref().is_none_or(|walk| walk.changed_since.is_some());
        self.state.lock().serve(is_complete, has_all);
        if self.index().is_some() {
            self.metrics.set_index_phase(if is_complete { IndexPhase::Ready } else { IndexPhase::Rebuilding });
        }
        match &walk {
            Some(Walk { root, changed_since: None, .. }) => {
                tracing::info!(disk = %root.display(), "rebuilding the index from the disk");
            }
            Some(Walk { root, .. }) => {
                tracing::info!(disk = %root.display(), "looking for entries added just before the last shutdown");
            }
            None => {}
        }
        walk
    }

    /// Begins walks over all disks: the index has missed something.
    pub(super) async fn restart_walks(self: &Arc<Self>) -> Option<Walk> {
        tracing::warn!("more entries changed than could be noted: rebuilding the index");
        // The walk has to be begun later: the lost mark is set again.
        if self.ask(forebay_index::Index::forget_walks).await.is_none() {
            self.notes.lock().note_lost();
            return None;
        }
        self.begin_walk(None).await
    }

    /// Finds a disk after `after` to walk over.
    async fn find_walk(self: &Arc<Self>, after: Option<VolumeId>) -> NextWalk {
        let nothing_known = NextWalk::None { has_all: false };
        let Some(index) = self.index() else { return nothing_known };
        let asked = Arc::clone(&index);
        let disk = Arc::clone(&self.disk);
        let found = self.on_worker(move || {
            // Read before the walk: entries with this number or a later one were noted after it began.
            let since = asked.next_id();
            let missed_since = asked.missed_since()?.map(|time| time.saturating_sub(MISSED_SECONDS_MAX));
            let mut has_all = true;
            for VolumeInfo { id, path, health, is_elsewhere, .. } in disk.volumes() {
                let mut is_walked = asked.is_walked(id.0, &path)?;
                let is_next = after.is_none_or(|after| id > after);
                // When it is back, the time from which on entries are missing is forgotten.
                if is_next && is_walked && missed_since.is_some() && !health.is_online() && !is_elsewhere {
                    asked.forget_walk(id.0)?;
                    is_walked = false;
                }
                // An offline disk keeps its entries in the index; it is walked over when it is back. Entries of parts that another process
                // holds are not looked for here.
                has_all &= is_walked || is_elsewhere;
                if is_next && health.is_online() && (!is_walked || missed_since.is_some()) {
                    // A disk that was never walked over is read as a whole.
                    let changed_since = if is_walked { missed_since } else { None };
                    return Ok(Ok((id, path, disk.scan(id, changed_since), since, changed_since)));
                }
            }
            // Only when no disk is left to look at: an interrupted walk begins again with the same times.
            if missed_since.is_some() {
                asked.forget_missed()?;
            }
            Ok(Err(has_all))
        });
        match found.await {
            Ok(Err(has_all)) => NextWalk::None { has_all },
            Ok(Ok((volume, root, Ok(scan), since, changed_since))) => {
                NextWalk::Begun(Walk { volume, root, scan, since, changed_since, files: 0, orphans: 0, unusable: 0 })
            }
            Ok(Ok((_, root, Err(error), ..))) => {
                self.note_walk_failure(&root, &error);
                nothing_known
            }
            Err(error) => {
                self.give_up(&index, &error);
                nothing_known
            }
        }
    }

    /// Walks on for a slice, commits what it has found, and pauses.
    pub(super) async fn walk_on(self: &Arc<Self>, walk: Walk) -> WalkedTo {
        let began = forebay_net::clock::monotonic();
        // Before the disk is read: notes during the slice are newer than its results.
        self.notes.lock().begin_slice();
        let (mut walk, found) = match self.workers.run(move || walk.slice()).await {
            Ok((walk, Ok(found))) => (walk, found),
            Ok((walk, Err(error))) => {
                // Also after a failure: the record of notes would grow until the next slice.
                self.notes.lock().end_slice();
                self.note_walk_failure(&walk.root, &error);
                return WalkedTo::Failure;
            }
            Err(_) => {
                self.notes.lock().end_slice();
                return WalkedTo::Failure;
            }
        };
        walk.files += found.entries.len() as u64;
        walk.orphans += found.orphans;
        walk.unusable += found.unusable;
        let changes = found.entries.iter().map(|entry| change_of(entry, walk.since)).collect::<BTreeMap<_, _>>();
        self.commit_slice(changes).await;
        if found.is_last {
            let volume = walk.volume;
            self.end_walk(walk).await;
            return WalkedTo::End(volume);
        }
        let took = forebay_net::clock::monotonic().saturating_duration_since(began);
        // In proportion to the work: a busy disk, which takes longer, gets longer pauses too.
        tokio::time::sleep((took / 2).min(PAUSE_MAX)).await;
        WalkedTo::Slice(walk)
    }

    async fn end_walk(self: &Arc<Self>, walk: Walk) {
        let Walk { volume, root, files, orphans, unusable, changed_since, .. } = walk;
        // The disk was walked over before: its mark does not change.
        if changed_since.is_some() {
            tracing::info!(disk = %root.display(), files, "looked for entries added just before the last shutdown");
            return;
        }
        tracing::info!(disk = %root.display(), files, orphans, unusable, "the index has every entry on the disk");
        self.ask(move |index| index.set_walked(volume.0, &root)).await;
    }

    fn note_walk_failure(&self, root: &std::path::Path, error: &StoreError) {
        self.metrics.add_disk_error(DiskOperation::Read);
        tracing::warn!(disk = %root.display(), %error, "the disk cannot be scanned: retrying in a minute");
    }
}

impl Walk {
    fn slice(mut self) -> (Self, Result<ScanSlice, StoreError>) {
        let mut all = ScanSlice::default();
        // In small steps, so that a disk counts as silent only if one step hangs.
        for _ in 0..SLICE_NAMES / STEP_NAMES {
            match self.scan.next_slice(STEP_NAMES) {
                Ok(step) => {
                    all.entries.extend(step.entries);
                    all.orphans += step.orphans;
                    all.unusable += step.unusable;
                    all.is_last = step.is_last;
                }
                Err(error) => return (self, Err(error)),
            }
            if all.is_last {
                break;
            }
        }
        (self, Ok(all))
    }
}

fn change_of(entry: &ScannedEntry, since: EntryId) -> (CacheKey, Change) {
    let disk = disk_facts(entry.volume, entry.identity, &entry.cinfo, entry.last_use);
    let facts = entry.origin.as_ref().map_or_else(Facts::default, learnt);
    (entry.key.clone(), Change::walked(disk, facts, since))
}
