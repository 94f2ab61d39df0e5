//! The trace: a stream of what clients read, as lines of JSON in files that are rotated.
//!
//! Whether a file is traced is decided when it is opened. Each [`TracedFile`] collects what happens to it and hands that over in
//! batches to one thread, which alone makes lines of it and touches the disk. What does not fit the queue is dropped and counted:
//! nobody waits for a trace.

mod event;
mod line;
mod writer;

use crate::Metrics;
use forebay_types::{ByteRange, Outcome};
use parking_lot::{Mutex, MutexGuard};
use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{self, SyncSender, TrySendError},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

pub use event::TracedOpen;
use event::{Event, Opened};
use writer::Writer;

/// Batches that wait for the disk; further ones are dropped.
const BATCHES_MAX: usize = 512;

/// Each time that so many more have been handed over, a writer that rests is woken.
const BATCHES_TO_WAKE: u64 = BATCHES_MAX as u64 / 4;

/// Memory of events that are handed over together, or what there is when the oldest has waited for so long.
const BATCH_LEN: usize = 8 << 10;
const BATCH_AGE: Duration = Duration::from_secs(1);

/// Where a trace is kept, and how much of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TraceOptions {
    /// The directory.
    pub directory: PathBuf,
    /// The part of all opens that is traced.
    pub sample: Sample,
    /// Size at which a file is ended and the next one begun.
    pub file_bytes: u64,
    /// Files that are kept, the one being written included; older ones are removed.
    pub files_max: usize,
}

/// A part of all opens: `of` for every `per`, drawn so that no rhythm of clients meets it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sample {
    /// Opens that are traced; not more than `per`.
    pub of: u64,
    /// Of so many; not 0.
    pub per: u64,
}

/// The trace of a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Trace(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    sample: Sample,
    opens: AtomicU64,
    queue: SyncSender<Message>,
    /// Batches handed over so far.
    batches: AtomicU64,
    writer: Thread,
    metrics: Metrics,
}

/// A point in time on both clocks; the second is microseconds of the Unix epoch.
#[derive(Clone, Copy, Debug)]
struct Clock(Instant, i64);

/// Time after which a flush tries again to get into a full queue.
const FLUSH_STEP: Duration = Duration::from_millis(1);

/// What is told to the writer.
enum Message {
    Events(Batch),
    /// Write all that came before, and say so.
    Flush(SyncSender<()>),
}

/// Events of one open, handed over at a point in time.
struct Batch {
    number: u64,
    events: Vec<Event>,
    at: Instant,
}

/// What kind of read it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TracedRead {
    /// Of one range.
    Read,
    /// Of one range, with checksums of its pages.
    PageRead,
}

/// When a request came, when it was answered, and from where.
#[derive(Clone, Copy, Debug)]
pub struct TracedAnswer {
    /// When it came.
    pub received: Instant,
    /// When the last byte of its answer was handed on.
    pub done: Instant,
    /// [`Outcome::Hit`] when all bytes were there.
    pub outcome: Outcome,
}

/// An open file whose reads are traced.
#[derive(Debug)]
pub struct TracedFile {
    shared: Arc<Shared>,
    number: u64,
    waiting: Mutex<Waiting>,
}

/// Events that are not handed over yet.
#[derive(Debug)]
struct Waiting {
    events: Vec<Event>,
    /// Memory that they take.
    len: usize,
    since: Instant,
}

impl Trace {
    /// Starts a trace. `now` is this moment on the monotonic clock and in microseconds of the Unix epoch. A directory that cannot be
    /// written is tried again from time to time.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(options: TraceOptions, now: (Instant, i64), metrics: Metrics) -> io::Result<Self> {
        let (queue, messages) = mpsc::sync_channel(BATCHES_MAX);
        let sample = options.sample;
        let writer = Writer::new(options, Clock(now.0, now.1), metrics.clone());
        let thread = thread::Builder::new().name("trace".to_owned()).spawn(move || writer.run(&messages))?;
        Ok(Self(Arc::new(Shared::new(sample, queue, thread.thread().clone(), metrics))))
    }

    /// Takes note of an open at `at`; `None` when it is not drawn.
    #[must_use]
    pub fn open(&self, open: &TracedOpen<'_>, at: Instant) -> Option<TracedFile> {
        let number = self.0.opens.fetch_add(1, Relaxed) + 1;
        if scattered(number) % self.0.sample.per >= self.0.sample.of {
            return None;
        }
        let shared = Arc::clone(&self.0);
        let waiting = Mutex::new(Waiting { events: Vec::new(), len: 0, since: at });
        let file = TracedFile { shared, number, waiting };
        file.add(Event::Open(Box::new(Opened::new(open, at))), at);
        Some(file)
    }

    /// Waits until all that was handed over is written, or for `patience`. Blocking.
    pub fn flush(&self, patience: Duration) {
        let (done, written) = mpsc::sync_channel(1);
        let mut left = patience;
        while let Err(TrySendError::Full(_)) = self.0.queue.try_send(Message::Flush(done.clone())) {
            if left.is_zero() {
                return;
            }
            self.0.writer.unpark();
            thread::sleep(FLUSH_STEP);
            left = left.saturating_sub(FLUSH_STEP);
        }
        self.0.writer.unpark();
        drop(done);
        // A writer whose disk hangs is left behind.
        let _ = written.recv_timeout(left);
    }
}

impl Shared {
    const fn new(sample: Sample, queue: SyncSender<Message>, writer: Thread, metrics: Metrics) -> Self {
        Self { sample, opens: AtomicU64::new(0), queue, batches: AtomicU64::new(0), writer, metrics }
    }
}

impl TracedFile {
    /// Notes a read that was answered. The range is the one that was given: it ends at the end of the file.
    pub fn read(&self, kind: TracedRead, range: ByteRange, answer: &TracedAnswer) {
        self.add(Event::Read { kind, range, answer: *answer }, answer.done);
    }

    /// Notes the elements that a vector read had of this file.
    pub fn read_vector(&self, elements: impl Iterator<Item = ByteRange>, answer: &TracedAnswer) {
        self.add(Event::ReadVector { elements: elements.collect(), answer: *answer }, answer.done);
    }

    /// Notes the close at `at`, and what the client has got by then. The last that is told of the file.
    pub fn close(&self, bytes: impl Fn(Outcome) -> u64, at: Instant) {
        let mut waiting = self.waiting();
        waiting.add(Event::Close { bytes: Box::new(Outcome::ALL.map(bytes)), at }, at);
        self.hand_over(&mut waiting, at);
    }

    /// Adds what happened; it is `now`.
    fn add(&self, event: Event, now: Instant) {
        let mut waiting = self.waiting();
        waiting.add(event, now);
        if waiting.is_due(now) {
            self.hand_over(&mut waiting, now);
        }
    }

    /// Hands over what waits. Under its lock, so that the events of a file stay in their order; it does not wait.
    fn hand_over(&self, waiting: &mut Waiting, at: Instant) {
        let batch = Batch { number: self.number, events: waiting.take(), at };
        let sent = self.shared.queue.try_send(Message::Events(batch));
        if let Err(TrySendError::Full(Message::Events(batch)) | TrySendError::Disconnected(Message::Events(batch))) =
            sent
        {
            self.shared.metrics.add_trace_dropped(batch.events.len() as u64);
        }
        if self.shared.batches.fetch_add(1, Relaxed).is_multiple_of(BATCHES_TO_WAKE) {
            self.shared.writer.unpark();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }
}

impl Waiting {
    fn add(&mut self, event: Event, now: Instant) {
        if self.events.is_empty() {
            self.since = now;
        }
        self.len += event.len();
        self.events.push(event);
    }

    fn take(&mut self) -> Vec<Event> {
        self.len = 0;
        std::mem::take(&mut self.events)
    }

    fn is_due(&self, now: Instant) -> bool {
        self.len >= BATCH_LEN || now.saturating_duration_since(self.since) >= BATCH_AGE
    }
}

impl Clock {
    /// `at` in microseconds of the Unix epoch.
    fn micros(self, at: Instant) -> i64 {
        let whole = |duration| i64::try_from(micros(duration)).unwrap_or(i64::MAX);
        match at.checked_duration_since(self.0) {
            Some(later) => self.1.saturating_add(whole(later)),
            None => self.1.saturating_sub(whole(self.0.saturating_duration_since(at))),
        }
    }
}

impl Sample {
    /// All opens.
    pub const ALL: Self = Self { of: 1, per: 1 };

    /// Reads `OF/PER`, such as `1/10`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (of, per) = text.split_once('/')?;
        let (of, per) = (of.trim().parse().ok()?, per.trim().parse().ok()?);
        (1..=per).contains(&of).then_some(Self { of, per })
    }
}

/// Whole microseconds.
fn micros(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000).saturating_add(u64::from(duration.subsec_micros()))
}

/// A number that looks drawn by chance (the finalizer of `SplitMix64`).
const fn scattered(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests;
