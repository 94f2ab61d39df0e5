//! The engine's view of the index: changes of entries are noted here at once and committed to the index later.
//!
//! Notes never wait: they are merged in memory and committed once per tick, on the workers. No request depends on the
//! index: one
//! that fails is counted and opened again later, and made again from the disk when something was missed meanwhile.

pub(crate) mod column_sets;
pub(crate) mod commit;
pub(crate) mod entry_info;
pub(crate) mod handover;
pub(crate) mod notes;
pub(crate) mod rebuild;
pub(crate) mod run;
pub(crate) mod state;

use crate::{
    Workers,
    catalog::{
        column_sets::ColumnSets,
        notes::Notes,
        state::{IndexState, Known, Presence, State},
    },
};
use forebay_cache::CacheKey;
use forebay_index::{Applied, Change, DiskFacts, Facts, Generation, Index, IndexError, IndexPlace, Record};
use forebay_store::{Disk, VolumeId};
use forebay_telemetry::{FileEvents as _, Metrics, Observers};
use forebay_types::Lfn;
use parking_lot::Mutex;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// The engine's view of the index.
pub(crate) struct Catalog {
    place: Arc<dyn IndexPlace>,
    disk: Arc<dyn Disk>,
    workers: Workers,
    metrics: Metrics,
    events: Observers,
    notes: Mutex<Notes>,
    state: Mutex<State>,
    observer: Arc<dyn IndexObserver>,
    known: Known,
    /// Held while a commit is under way, so that changes of one entry are committed in their order.
    committing: tokio::sync::Mutex<()>,
    column_sets: ColumnSets,
    /// Disks that have come with entries of another process: they are to be walked over.
    unwalked: Mutex<BTreeSet<VolumeId>>,
}

impl Catalog {
    /// A catalog whose index is not open yet: see [`run::run`].
    pub(crate) fn new(
        place: Arc<dyn IndexPlace>,
        disk: Arc<dyn Disk>,
        workers: Workers,
        (metrics, events): (Metrics, Observers),
        observer: Arc<dyn IndexObserver>,
    ) -> Arc<Self> {
        Arc::new(Self {
            place,
            disk,
            workers,
            metrics,
            events,
            notes: Mutex::default(),
            state: Mutex::default(),
            observer,
            known: Known::default(),
            committing: tokio::sync::Mutex::default(),
            column_sets: ColumnSets::default(),
            unwalked: Mutex::default(),
        })
    }

    /// Notes an entry as it is on disk by now.
    pub(crate) fn note_seen(&self, key: &CacheKey, disk: DiskFacts) {
        self.note(key, Change::seen(disk));
    }

    /// Notes that an entry is not on disk any more, and reports that.
    pub(crate) fn note_removed(&self, key: &CacheKey) {
        self.note(key, Change::removed());
        if let Ok(lfn) = Lfn::parse(key.as_str()) {
            self.events.removed(&lfn);
        }
    }

    /// Notes what was learnt of an entry whose files are of `generation`.
    pub(crate) fn note_learnt(&self, key: &CacheKey, generation: Generation, facts: Facts) {
        self.note(key, Change::learnt(generation, facts));
    }

    /// Notes what became of an entry. Never waits; beyond a limit the note is lost, and the index made again from the disk.
    pub(crate) fn note(&self, key: &CacheKey, change: Change) {
        // Counted here; whether the index has to be made again is decided by the task that commits.
        if !self.notes.lock().add(key, change) {
            self.metrics.add_index_error();
        }
    }

    /// Whether the disk may hold an entry of `key`, answered without asking the disk. False is wrong when files
    /// were put on the disk by another process.
    pub(crate) fn may_have(&self, key: &CacheKey) -> bool {
        // A commit makes keys known before the notes let go of them: in this order none is missed on its way.
        !self.state.lock().has_all() || self.notes.lock().concern(key) || self.known.has(key)
    }

    /// Whether there is an entry of `key`, by memory alone.
    pub(crate) fn presence(&self, key: &CacheKey) -> Presence {
        // In the same order as above: a commit makes keys known before the notes let go of them.
        let has_all = self.state.lock().has_all();
        let noted = self.notes.lock().existence(key);
        match noted.unwrap_or_else(|| self.known.has(key)) {
            true => Presence::Have,
            // A disk that has not been walked over may hold it.
            false if !has_all && noted.is_none() => Presence::Maybe,
            false => Presence::No,
        }
    }

    pub(crate) fn index(&self) -> Option<Arc<Index>> {
        self.state.lock().index.clone()
    }

    pub(crate) fn index_state(&self) -> IndexState {
        self.state.lock().tell()
    }

    /// The record of an entry, if it has one, with all that was noted of it; `None` while the index is not open.
    pub(crate) async fn record(self: &Arc<Self>, key: &CacheKey) -> Option<Option<Record>> {
        // The notes of the entry first: a record without them would be older than the last answer.
        self.commit_of(key).await;
        let key = key.clone();
        self.ask(move |index| index.get(&key)).await
    }

    /// Up to `limit` entries after `after` in the order of their keys, and `None` while the index is not open.
    pub(crate) async fn page(
        self: &Arc<Self>,
        after: Option<CacheKey>,
        limit: usize,
    ) -> Option<Vec<(CacheKey, Record)>> {
        // As above, but a page may touch any entry: everything is committed.
        self.commit().await;
        self.ask(move |index| index.page(after.as_ref(), limit)).await
    }

    /// Asks the index on a worker; `None` when it is not open or fails.
    pub(crate) async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Index) -> Result<T, IndexError> + Send + 'static,
    ) -> Option<T> {
        let index = self.index()?;
        let asked = Arc::clone(&index);
        // A panic yields nothing: the index itself did not report a failure, so it stays in use.
        match self.workers.run(move || question(&asked)).await.ok()? {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.give_up(&index, &error);
                None
            }
        }
    }

    /// Takes a failed index out of use, unless that is done already: it is opened again later.
    fn give_up(&self, failed: &Arc<Index>, error: &IndexError) {
        self.metrics.add_index_error();
        let mut state = self.state.lock();
        // Only the index that failed: another task may have opened a new one in the meantime.
        if state.index.as_ref().is_some_and(|index| Arc::ptr_eq(index, failed)) {
            tracing::error!(
                reason = crate::base::error::with_cause(error),
                "the index failed: continuing without it until it is opened again"
            );
            // A damaged index is discarded at the next open; one whose disk failed is kept.
            state.fail(error.is_damage());
            self.metrics.set_index_phase(forebay_telemetry::IndexPhase::Off);
        }
    }
}

/// Is notified of every entry in the index, and of every change, in the order of the changes. The methods run on a worker
/// and must not wait.
pub(crate) trait IndexObserver: Send + Sync + 'static {
    /// Everything reported so far is void: every entry is reported again.
    fn begin(&self);

    fn found(&self, key: &CacheKey, record: &Record);

    fn changed(&self, applied: &Applied);
}

impl IndexObserver for () {
    fn begin(&self) {}

    fn found(&self, _key: &CacheKey, _record: &Record) {}

    fn changed(&self, _applied: &Applied) {}
}

/// How often it is asked whether the index is open by now.
const POLL: Duration = Duration::from_millis(10);

/// Positions in a chunk are the same in the index and in memory.
const _: () = assert!(forebay_index::SUMS_PER_CHUNK == forebay_cache::SUMS_PER_CHUNK);

impl Catalog {
    /// Waits until the index is open, or known not to be, for `wait_max` at most.
    pub(crate) async fn settled(&self, wait_max: Duration) {
        let opening = || self.index().is_none() && self.index_state() == IndexState::Loading;
        let settled = async {
            while opening() {
                tokio::time::sleep(POLL).await;
            }
        };
        // A caller that continues without the index finds that out when it asks.
        let _ = tokio::time::timeout(wait_max, settled).await;
    }

    /// The checksums in chunk number `chunk` of the blocks of an entry, by their position; `None` without an index to ask.
    /// Blocking.
    pub(crate) fn block_sums(&self, key: &CacheKey, generation: Generation, chunk: u64) -> Option<Vec<(usize, u32)>> {
        self.ask_here(|index| {
            // Of another generation: the sums would be those of a file that had the name before. No sums is an answer.
            let Some(record) = index.get(key)?.filter(|record| record.disk.generation == generation) else {
                return Ok(Vec::new());
            };
            sums_of(index, &record, chunk)
        })
    }

    fn ask_here<T>(&self, question: impl FnOnce(&Index) -> Result<T, IndexError>) -> Option<T> {
        let index = self.index()?;
        question(&index).inspect_err(|error| self.give_up(&index, error)).ok()
    }
}

fn sums_of(index: &Index, record: &Record, chunk: u64) -> Result<Vec<(usize, u32)>, IndexError> {
    // A file has at most 2^31-1 blocks.
    let sums = index.block_sums(record.id, u32::try_from(chunk).unwrap_or(u32::MAX))?;
    let positions = 0..usize::try_from(forebay_index::SUMS_PER_CHUNK).unwrap_or(0);
    Ok(positions.filter_map(|position| Some((position, sums.get(position)?))).collect())
}
