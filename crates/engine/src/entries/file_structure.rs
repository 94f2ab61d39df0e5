//! The structure of a ROOT file once it is parsed, with the columns that its readers use.

use forebay_structure::{Advice, AdviceBounds, Adviser, Reader};
use forebay_types::ByteRange;
use parking_lot::Mutex;
use std::{mem, sync::Arc};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// The structure of one file, shared by all handles of it.
#[derive(Default)]
pub(crate) struct FileStructure(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Unknown,
    Parsing,
    Known {
        adviser: Adviser,
        _memory: OwnedSemaphorePermit,
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

    /// Longest record that is parsed, in bytes.
    pub(crate) const fn record_bytes_max(&self) -> u64 {
        self.record_bytes_max
    }
}

impl FileStructure {
    /// Begins to parse; `false` when that was begun before.
    pub(crate) fn begin(&self) -> bool {
        let mut state = self.0.lock();
        let is_unknown = matches!(*state, State::Unknown);
        if is_unknown {
            *state = State::Parsing;
        }
        is_unknown
    }

    /// Ends it with the result, if there is one that can be used.
    pub(crate) fn end(&self, result: Option<(Adviser, OwnedSemaphorePermit)>) {
        let state = result.map_or(State::Useless, |(adviser, memory)| State::Known { adviser, _memory: memory });
        drop(mem::replace(&mut *self.0.lock(), state));
    }

    /// Begins again with the next reader: there was no place for it.
    pub(crate) fn postpone(&self) {
        *self.0.lock() = State::Unknown;
    }

    /// Notes a request; whether it is for data of a tree of known structure.
    pub(crate) fn handle_read(
        &self,
        reader: &mut Reader,
        ranges: &[ByteRange],
        is_unread: &dyn Fn(ByteRange) -> bool,
    ) -> bool {
        match &mut *self.0.lock() {
            State::Known { adviser, .. } => adviser.handle_read(reader, ranges, is_unread),
            _ => false,
        }
    }

    /// What the reader comes to next and has not accepted.
    pub(crate) fn wanted(&self, reader: &Reader, bounds: AdviceBounds) -> Advice {
        self.ask(|adviser| adviser.wanted(reader, bounds)).unwrap_or_default()
    }

    /// Where reads show that more may be wanted.
    pub(crate) fn zone(&self, reader: &Reader) -> Option<ByteRange> {
        self.ask(|adviser| adviser.zone(reader)).flatten()
    }

    /// Bytes that were fetched ahead of the reader, in whole blocks, and that it has not come to.
    pub(crate) fn expected(&self, reader: &Reader, block_len: u64) -> u64 {
        self.ask(|adviser| adviser.expected(reader, block_len)).unwrap_or_default()
    }

    fn ask<T>(&self, question: impl FnOnce(&Adviser) -> T) -> Option<T> {
        match &*self.0.lock() {
            State::Known { adviser, .. } => Some(question(adviser)),
            _ => None,
        }
    }
}
