//! The structure of a ROOT file once it is parsed, with the columns that its readers use.

use crate::{base::latch::Latch, catalog::column_sets::Expected};
use forebay_structure::{Advice, AdviceBounds, Adviser, Evidence, Observed, Reader, Tree};
use forebay_types::ByteRange;
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// The structure of one file, shared by all handles of it.
#[derive(Default)]
pub(crate) struct FileStructure {
    state: Mutex<State>,
    /// Set when the first trees are known, or none will be.
    answered: Latch,
    /// Lengths of the metadata at both ends that were requested.
    head_len: AtomicU32,
    tail_len: AtomicU32,
    /// Length of the tail that was fetched at the open.
    fetched_tail_len: AtomicU32,
}

#[derive(Default)]
enum State {
    #[default]
    Unknown,
    Parsing,
    Known {
        adviser: Adviser,
        /// Bytes that may be fetched for each reader because of other files, if columns are expected.
        history_max: Option<u64>,
        memory: OwnedSemaphorePermit,
    },
    /// It has none that can be used.
    Useless,
}

/// Limits on the structures of all files.
pub(crate) struct Structures {
    /// A file that is being parsed holds one.
    places: Semaphore,
    /// Held while bytes are parsed.
    turn: Semaphore,
    table_bytes: Arc<Semaphore>,
    table_bytes_max: usize,
    record_bytes_max: u64,
}

/// Files that are parsed at the same time: those beyond are read as files of unknown structure.
const PLACES: usize = 64;

/// Part of the memory budget's size that the tables of all files may take, on top of it, and the most.
const TABLES_PART: u64 = 8;
const TABLES_BYTES_MAX: u64 = 128 << 20;

/// Part of the memory budget's size up to which a record is parsed. Inflated, it is some ten times as long.
const RECORD_PART: u64 = 64;

/// With so many processors two files are parsed at a time.
const PROCESSORS_FOR_TWO: usize = 16;

impl Structures {
    pub(crate) fn new(budget_bytes: u64) -> Self {
        // At most 128 MiB.
        let table_bytes = usize::try_from((budget_bytes / TABLES_PART).min(TABLES_BYTES_MAX)).unwrap_or_default();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            places: Semaphore::new(PLACES),
            turn: Semaphore::new(if processors < PROCESSORS_FOR_TWO { 1 } else { 2 }),
            table_bytes: Arc::new(Semaphore::new(table_bytes)),
            table_bytes_max: table_bytes,
            record_bytes_max: budget_bytes / RECORD_PART,
        }
    }

    /// A place for one more file, if there is one.
    pub(crate) fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.places.try_acquire().ok()
    }

    /// Waits until bytes may be parsed.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turn.acquire().await.ok()
    }

    /// Memory for tables of `len` bytes, if there is any.
    pub(crate) fn memory(&self, len: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.table_bytes).try_acquire_many_owned(u32::try_from(len).ok()?).ok()
    }

    /// Returns the bytes that all tables take.
    pub(crate) fn used_bytes(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let (table_bytes, max) = (Arc::clone(&self.table_bytes), self.table_bytes_max);
        move || (max - table_bytes.available_permits()) as u64
    }

    /// Longest record that is parsed, in bytes.
    pub(crate) const fn record_bytes_max(&self) -> u64 {
        self.record_bytes_max
    }
}

impl FileStructure {
    /// Begins to parse; `false` when that was begun before.
    pub(crate) fn begin(&self) -> bool {
        let mut state = self.state.lock();
        let is_unknown = matches!(*state, State::Unknown);
        if is_unknown {
            *state = State::Parsing;
        }
        is_unknown
    }

    /// Adds what is known by now, with memory for it, and the columns of its trees that are expected to be read. Because of these
    /// `history_max` bytes are fetched for each reader at most.
    pub(crate) fn add(
        &self,
        mut adviser: Adviser,
        memory: OwnedSemaphorePermit,
        expected: &[(usize, Expected)],
        history_max: u64,
    ) {
        expected.iter().for_each(|(tree, expected)| adviser.expect(*tree, &expected.columns));
        // Trees of one file are read by one job: what was wrong in one counts for all.
        let history_max = expected.iter().map(|(_, expected)| expected.budget(history_max)).min();
        let mut state = self.state.lock();
        match &mut *state {
            State::Known { adviser: known, history_max: known_max, memory: held } => {
                known.add(adviser);
                held.merge(memory);
                *known_max = match (*known_max, history_max) {
                    (Some(one), Some(other)) => Some(one.min(other)),
                    (one, other) => one.or(other),
                };
            }
            unknown => *unknown = State::Known { adviser, history_max, memory },
        }
        drop(state);
        self.answered.set();
    }

    /// Nothing is added any more.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        if !matches!(*state, State::Known { .. }) {
            *state = State::Useless;
        }
        drop(state);
        self.answered.set();
    }

    /// Resolves when the first trees are known, or none will be.
    pub(crate) async fn answered(&self) {
        self.answered.wait().await;
    }

    /// Whether trees, if there are any, are not known yet.
    pub(crate) fn is_parsing(&self) -> bool {
        matches!(*self.state.lock(), State::Parsing)
    }

    /// Begins again with the next reader: there was no place for it.
    pub(crate) fn postpone(&self) {
        *self.state.lock() = State::Unknown;
    }

    /// Notes that a reader requested so many bytes at the beginning.
    pub(crate) fn note_head(&self, len: u64) {
        self.head_len.fetch_max(u32::try_from(len).unwrap_or(u32::MAX), Relaxed);
    }

    /// Notes that the records begin so many bytes before the end.
    pub(crate) fn note_tail(&self, len: u64) {
        self.tail_len.fetch_max(u32::try_from(len).unwrap_or(u32::MAX), Relaxed);
    }

    /// Notes that so many bytes at the end are fetched.
    pub(crate) fn note_fetched_tail(&self, len: u64) {
        self.fetched_tail_len.fetch_max(u32::try_from(len).unwrap_or(u32::MAX), Relaxed);
    }

    /// Bytes at the end that are being fetched, or were.
    pub(crate) fn fetched_tail(&self) -> u64 {
        self.fetched_tail_len.load(Relaxed).into()
    }

    /// The lengths of head and tail that were requested.
    pub(crate) fn ends(&self) -> (u32, u32) {
        (self.head_len.load(Relaxed), self.tail_len.load(Relaxed))
    }

    /// Places a reader that has not read data yet where it is expected to begin; whether it is expected to read.
    pub(crate) fn begin_reader(&self, reader: &mut Reader) -> bool {
        self.ask(|adviser, _| adviser.begin(reader)).unwrap_or(false)
    }

    /// The use of columns by `reader`, for each tree by its name.
    pub(crate) fn observed(
        &self,
        reader: &Reader,
        evidence: &dyn Fn(ByteRange) -> Evidence,
    ) -> Vec<(String, Observed)> {
        let observed = self.ask(|adviser, _| {
            let names: Vec<&Tree> = adviser.trees().collect();
            let named = |(tree, observed)| Some((names.get::<usize>(tree)?.name.clone(), observed));
            adviser.observed(reader, evidence).into_iter().filter_map(named).collect()
        });
        observed.unwrap_or_default()
    }

    /// Notes a request; whether it is for data of a tree of known structure.
    pub(crate) fn handle_read(
        &self,
        reader: &mut Reader,
        ranges: &[ByteRange],
        evidence: &dyn Fn(ByteRange) -> Evidence,
    ) -> bool {
        match &mut *self.state.lock() {
            State::Known { adviser, .. } => adviser.handle_read(reader, ranges, evidence),
            _ => false,
        }
    }

    /// The ranges that the reader comes to next and has not accepted: `window` bytes ahead at most, and no more than `len_max`.
    pub(crate) fn wanted(&self, reader: &Reader, window: u64, len_max: u64, block_len: u64) -> Advice {
        let wanted = self.ask(|adviser, history_max| {
            adviser.wanted(reader, AdviceBounds { window, len_max, history_max, block_len })
        });
        wanted.unwrap_or_default()
    }

    /// Where reads show that more may be wanted.
    pub(crate) fn zone(&self, reader: &Reader) -> Option<ByteRange> {
        self.ask(|adviser, _| adviser.zone(reader)).flatten()
    }

    /// Bytes that were fetched ahead of the reader, in whole blocks, and that it has not come to.
    pub(crate) fn expected(&self, reader: &Reader, block_len: u64) -> u64 {
        self.ask(|adviser, _| adviser.expected(reader, block_len)).unwrap_or_default()
    }

    fn ask<T>(&self, question: impl FnOnce(&Adviser, u64) -> T) -> Option<T> {
        match &*self.state.lock() {
            State::Known { adviser, history_max, .. } => Some(question(adviser, history_max.unwrap_or(0))),
            _ => None,
        }
    }
}
