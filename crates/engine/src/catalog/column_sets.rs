//! The columns that jobs read of the files of each dataset: learned here, kept in the index, and used for the next file.
//!
//! The use of columns is noted in memory, without waiting, and merged into the sets before the next lookup or commit. A set that is
//! lost or damaged costs its dataset one file without advice.

use crate::catalog::Catalog;
use forebay_index::{SetBounds, StoredSet};
use forebay_structure::{ColumnSet, Observed, SET_AGE_MAX_SECONDS, SetKey, Tree, dataset_of};
use forebay_telemetry::{Client, ColumnEvent};
use forebay_types::Lfn;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// The reader of a file, and the dataset.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Job {
    dataset: String,
    user: String,
    program: String,
    /// The process, as it says: what it read last says most.
    host: String,
    pid: u32,
}

/// Columns of a tree that a job is expected to read.
pub(crate) struct Expected {
    pub(crate) columns: Vec<usize>,
    set: ColumnSet,
}

/// Sets in memory, and notes for them.
#[derive(Default)]
pub(super) struct ColumnSets {
    held: Mutex<Held>,
    /// Held while notes are merged: two of one set would be lost to each other.
    merging: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Held {
    sets: BTreeMap<String, HeldSet>,
    noted: VecDeque<Note>,
    /// Counts lookups: the order of use.
    time: u64,
    committed: i64,
    aged: i64,
}

struct HeldSet {
    set: ColumnSet,
    used: u64,
    is_changed: bool,
}

/// The use of the columns of one file.
struct Note {
    job: Job,
    trees: Vec<(String, Observed)>,
    head_len: u32,
    tail_len: u32,
}

/// Sets that the index keeps.
const STORED_MAX: usize = 10_000;

/// Sets in memory: at most 5 KiB each.
const HELD_MAX: usize = 1024;

/// Files whose reads were noted and not merged yet. Those beyond are not learned from.
const NOTED_MAX: usize = 1024;

/// Time between commits, in seconds: what a crash costs.
const COMMIT_SECONDS: i64 = 60;

/// Time between searches for sets that are too old, in seconds.
const AGING_SECONDS: i64 = 86_400;

/// Begins the keys of the sets of single processes, which stay in memory. No path begins with it.
const OF_PROCESS: char = '\u{1}';

impl Job {
    pub(crate) fn new(lfn: &Lfn, client: &Client) -> Self {
        Self {
            dataset: dataset_of(lfn.as_str()).to_owned(),
            user: client.user.clone(),
            program: client.program.clone(),
            host: client.host.clone(),
            pid: client.pid,
        }
    }

    /// The keys for a tree, the most specific first.
    fn keys(&self, tree: &str) -> Vec<String> {
        let of_tree = SetKey::of_tree(&self.dataset, tree);
        let of_job = SetKey { job: Some((self.user.clone(), self.program.clone())), ..of_tree.clone() };
        let Self { user, host, pid, .. } = self;
        let of_process = format!("{OF_PROCESS}{user}\0{host}\0{pid}\0{tree}");
        let stored = [of_job, of_tree].into_iter().filter_map(|key| key.to_text());
        // A process without a number is not known.
        (*pid > 0).then_some(of_process).into_iter().chain(stored).collect()
    }

    fn key_of_ends(&self) -> Option<String> {
        SetKey::of_dataset(&self.dataset).to_text()
    }
}

impl Expected {
    /// The part of `max` bytes that may be fetched because of it.
    pub(crate) const fn budget(&self, max: u64) -> u64 {
        self.set.budget(max)
    }
}

impl Catalog {
    /// Notes what a file has shown of the columns that a job reads, and how long its metadata were at both ends. Never waits.
    pub(crate) fn note_columns(&self, job: &Job, trees: Vec<(String, Observed)>, head_len: u32, tail_len: u32) {
        let noted = &mut self.column_sets.held.lock().noted;
        if noted.len() < NOTED_MAX {
            noted.push_back(Note { job: job.clone(), trees, head_len, tail_len });
        }
    }

    /// The lengths of head and tail that were requested of the last file of the dataset, if any are known.
    pub(crate) async fn known_ends(self: &Arc<Self>, job: &Job) -> Option<(u32, u32)> {
        self.merge_notes().await;
        let set = self.column_set(&job.key_of_ends()?).await?;
        Some((set.head_len, set.tail_len))
    }

    /// The columns of `tree` that `job` is expected to read.
    pub(crate) async fn expected_columns(self: &Arc<Self>, job: &Job, tree: &Tree) -> Option<Expected> {
        self.merge_notes().await;
        for key in job.keys(&tree.name) {
            if let Some(set) = self.column_set(&key).await
                && let Some(columns) = set.columns_of(tree)
            {
                return Some(Expected { columns, set });
            }
        }
        None
    }

    /// Commits changed sets, when that is due; with `is_last` in any case.
    pub(super) async fn commit_column_sets(self: &Arc<Self>, is_last: bool) {
        let now = forebay_net::clock::now_unix();
        let is_due = now.saturating_sub(self.column_sets.held.lock().committed) >= COMMIT_SECONDS;
        let Some(index) = self.index().filter(|_| is_due || is_last) else { return };
        self.merge_notes().await;
        let (changed, oldest) = self.column_sets.held.lock().take_changed(now);
        if changed.is_empty() && oldest.is_none() {
            return;
        }
        let bounds = SetBounds { count_max: STORED_MAX, oldest };
        let open = Arc::clone(&index);
        let stored = self.workers.run(move || open.put_column_sets(&changed, bounds)).await;
        // The sets of this commit are lost: the next file of each dataset is read without advice, or with an older set.
        if let Ok(Err(error)) = stored {
            self.give_up(&index, &error);
        }
    }

    /// Up to `limit` stored sets after the key `after`, without those that are damaged, and the key of the last one. `None` while the
    /// index is not open.
    pub(crate) async fn page_of_column_sets(
        self: &Arc<Self>,
        after: Option<String>,
        limit: usize,
    ) -> Option<(Vec<(SetKey, ColumnSet)>, Option<String>)> {
        // Everything that is known: a set that was learned just now is shown too.
        self.commit_column_sets(true).await;
        let stored = self.ask(move |index| index.column_sets(after.as_deref(), limit)).await?;
        let last = stored.last().map(|last| last.key.clone());
        let read = |stored: StoredSet| Some((SetKey::of_text(&stored.key)?, ColumnSet::decode(&stored.bytes)?));
        Some((stored.into_iter().filter_map(read).collect(), last))
    }

    /// Forgets the sets whose keys are chosen, and what processes read; the number of stored ones. `None` while the index is not
    /// open.
    pub(crate) async fn forget_column_sets(
        self: &Arc<Self>,
        is_chosen: impl Fn(&SetKey) -> bool + Send + 'static,
    ) -> Option<u64> {
        // Notes are merged and committed first: they must not bring a set back.
        self.commit_column_sets(true).await;
        let is_one = move |key: &str| SetKey::of_text(key).is_none_or(|key| is_chosen(&key));
        self.column_sets.held.lock().sets.retain(|key, _| !key.starts_with(OF_PROCESS) && !is_one(key));
        self.ask(move |index| index.remove_column_sets(is_one)).await
    }

    /// A set that can be used, from memory or from the index.
    async fn column_set(self: &Arc<Self>, key: &str) -> Option<ColumnSet> {
        let now = forebay_net::clock::now_unix();
        if let Some(set) = self.column_sets.held.lock().get(key) {
            return Some(set).filter(|set| !set.is_outdated(now));
        }
        if key.starts_with(OF_PROCESS) {
            return None;
        }
        let name = key.to_owned();
        let bytes = self.ask(move |index| index.column_set(&name)).await??;
        let set = ColumnSet::decode(&bytes).filter(|set| !set.is_outdated(now))?;
        self.column_sets.held.lock().put(key.to_owned(), set.clone(), false);
        Some(set)
    }

    async fn merge_notes(self: &Arc<Self>) {
        let _turn = self.column_sets.merging.lock().await;
        loop {
            // In a statement of its own: the lock must not be held over the lookups.
            let note = self.column_sets.held.lock().noted.pop_front();
            let Some(note) = note else { return };
            self.merge(note).await;
        }
    }

    async fn merge(self: &Arc<Self>, note: Note) {
        let now = forebay_net::clock::now_unix();
        for (tree, observed) in &note.trees {
            let mut counted = None;
            for key in note.job.keys(tree) {
                let mut set = self.column_set(&key).await.unwrap_or_default();
                let was_known = !set.is_empty();
                let change = set.note(observed);
                // Of several sets of one tree the most specific one that was known counts: it was used.
                counted = counted.filter(|(is_known, _)| *is_known || !was_known).or(Some((was_known, change)));
                set.last_use = now;
                // Nothing was learned, and there was nothing: no reader needs that to be remembered.
                if !set.is_empty() || set.uses > 0 {
                    self.column_sets.held.lock().put(key, set, true);
                }
            }
            let change = counted.map(|(_, change)| change).unwrap_or_default();
            self.metrics.add_columns(ColumnEvent::Confirmed, change.confirmed);
            self.metrics.add_columns(ColumnEvent::Refuted, change.refuted);
            self.metrics.add_columns(ColumnEvent::Learned, change.learned);
        }
        if let Some(key) = note.job.key_of_ends() {
            let (head_len, tail_len) = (note.head_len, note.tail_len);
            let mut set = ColumnSet::default();
            (set.head_len, set.tail_len, set.last_use) = (head_len, tail_len, now);
            self.column_sets.held.lock().put(key, set, true);
        }
    }
}

impl Held {
    fn get(&mut self, key: &str) -> Option<ColumnSet> {
        self.time += 1;
        let held = self.sets.get_mut(key)?;
        held.used = self.time;
        Some(held.set.clone())
    }

    fn put(&mut self, key: String, set: ColumnSet, is_changed: bool) {
        self.time += 1;
        let is_changed = is_changed && !key.starts_with(OF_PROCESS);
        self.sets.insert(key, HeldSet { set, used: self.time, is_changed });
        // Rarely, and some at a time: the search for the oldest ones looks at all.
        if self.sets.len() > HELD_MAX {
            let mut ages: Vec<u64> = self.sets.values().map(|held| held.used).collect();
            let (_, &mut limit, _) = ages.select_nth_unstable(HELD_MAX / 10);
            self.sets.retain(|_, held| held.used > limit);
        }
    }

    /// The sets to be stored, and the age beyond which stored ones are to be removed, if that is due.
    fn take_changed(&mut self, now: i64) -> (Vec<StoredSet>, Option<i64>) {
        self.committed = now;
        let is_aging = now.saturating_sub(self.aged) >= AGING_SECONDS;
        if is_aging {
            self.aged = now;
        }
        let changed = self.sets.iter_mut().filter_map(|(key, held)| {
            std::mem::take(&mut held.is_changed).then(|| StoredSet {
                key: key.clone(),
                last_use: held.set.last_use,
                bytes: held.set.encode(),
            })
        });
        (changed.collect(), is_aging.then(|| now.saturating_sub(SET_AGE_MAX_SECONDS)))
    }
}
