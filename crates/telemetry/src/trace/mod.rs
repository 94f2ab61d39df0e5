//! The trace: the reads of clients as lines of JSON, in files that are rotated.
//!
//! An open is sampled when it happens. Each [`TracedFile`] collects its events and hands them over in batches to one thread,
//! which alone formats lines and writes them to disk. Batches that do not fit the queue are dropped and counted: no request waits
//! for the trace.

mod event;
mod line;
mod writer;

use crate::{
    Metrics, ReadKind,
    file_events::{AdviceEvent, CloseEvent, FileEvents, OpenEvent, OpenPurpose, ReadAnswer, ReadEvents},
};
use forebay_cache::{PathPattern, name_for_rules};
use forebay_types::{ByteRange, Lfn, Outcome};
use parking_lot::Mutex;
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

use event::{Event, Opened};
use writer::Writer;

/// Batches that wait for the disk; further ones are dropped. Each close hands one over: with 10,000 closes per second, the disk may be late
/// by 0.4 s. Full batches take 32 MiB.
const BATCHES_MAX: usize = 4096;

/// Batches after which a resting writer is woken.
const BATCHES_TO_WAKE: u64 = 128;

/// A batch is handed over when its events take this memory, or when the oldest is this old.
const BATCH_LEN: usize = 8 << 10;
const BATCH_AGE: Duration = Duration::from_secs(1);

/// Where a trace is kept, and how much of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TraceOptions {
    pub directory: PathBuf,
    /// The part of the opens that is traced.
    pub sample: Sample,
    /// Paths that are traced; `/root:/HOST:PORT/path` for files whose origin the client names. All, when it is empty.
    pub only: Vec<PathPattern>,
    /// Size at which the next file is begun.
    pub file_bytes: u64,
    /// Files that are kept, the one being written included; older ones are removed.
    pub files_max: usize,
}

/// Everything is traced; the directory has to be set.
impl Default for TraceOptions {
    fn default() -> Self {
        Self { directory: PathBuf::new(), sample: Sample::ALL, only: Vec::new(), file_bytes: 256 << 20, files_max: 8 }
    }
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
    only: Vec<PathPattern>,
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

/// Time after which a flush tries a full queue again.
const FLUSH_STEP: Duration = Duration::from_millis(1);

/// A message to the writer.
enum Message {
    Events(Batch),
    /// Write everything before this message, then reply.
    Flush(SyncSender<()>),
}

/// Events of one open, handed over at a point in time.
struct Batch {
    number: u64,
    events: Vec<Event>,
    at: Instant,
}

/// An open file whose reads are traced.
#[derive(Debug)]
struct TracedFile {
    shared: Arc<Shared>,
    number: u64,
    waiting: Mutex<Waiting>,
}

/// Events that are not handed over yet.
#[derive(Debug)]
struct Waiting {
    events: Vec<Event>,
    /// Their memory in bytes.
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
        let (sample, only) = (options.sample, options.only.clone());
        let writer = Writer::new(options, Clock(now.0, now.1), metrics.clone());
        let thread = thread::Builder::new().name("trace".to_owned()).spawn(move || writer.run(&messages))?;
        Ok(Self(Arc::new(Shared::new(sample, only, queue, thread.thread().clone(), metrics))))
    }

    /// The trace of an open; `None` if it is not sampled.
    fn open(&self, event: &OpenEvent<'_>) -> Option<TracedFile> {
        if !self.0.includes(event.lfn) {
            return None;
        }
        let number = self.0.opens.fetch_add(1, Relaxed) + 1;
        if scattered(number) % self.0.sample.per >= self.0.sample.of {
            return None;
        }
        let shared = Arc::clone(&self.0);
        let waiting = Mutex::new(Waiting { events: Vec::new(), len: 0, since: event.at });
        let file = TracedFile { shared, number, waiting };
        let (path, client) = (event.lfn.as_str().to_owned(), Arc::clone(event.client));
        file.add(Event::Open(Box::new(Opened { at: event.at, path, size: event.size, client })), event.at);
        Some(file)
    }

    /// Waits for `patience` at most until all batches handed over so far are written. Blocking.
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
        // A writer whose disk hangs does not delay the end of the process.
        let _ = written.recv_timeout(left);
    }
}

impl Shared {
    const fn new(
        sample: Sample,
        only: Vec<PathPattern>,
        queue: SyncSender<Message>,
        writer: Thread,
        metrics: Metrics,
    ) -> Self {
        Self { sample, only, opens: AtomicU64::new(0), queue, batches: AtomicU64::new(0), writer, metrics }
    }

    fn includes(&self, lfn: &Lfn) -> bool {
        self.only.is_empty()
            || name_for_rules(lfn).is_some_and(|name| self.only.iter().any(|pattern| pattern.matches(name.as_str())))
    }
}

impl FileEvents for Trace {
    fn opened(&self, event: &OpenEvent<'_>) -> Option<Box<dyn ReadEvents>> {
        // No client reads through other opens.
        if event.purpose != OpenPurpose::Read {
            return None;
        }
        self.open(event).map(|file| Box::new(file) as Box<dyn ReadEvents>)
    }
}

impl ReadEvents for TracedFile {
    fn read(&self, kind: ReadKind, range: ByteRange, answer: &ReadAnswer) {
        self.add(Event::Read { kind, range, answer: *answer }, answer.done);
    }

    fn read_vector(&self, elements: &[ByteRange], answer: &ReadAnswer) {
        self.add(Event::ReadVector { elements: elements.into(), answer: *answer }, answer.done);
    }

    fn advised(&self, event: &AdviceEvent<'_>) {
        match *event {
            AdviceEvent::Given { at, source, ranges } => {
                self.add(Event::Advice { at, source, ranges: ranges.into() }, at);
            }
            AdviceEvent::GivenUp { at, reason } => self.add(Event::GivenUp { at, reason }, at),
        }
    }

    fn closed(&self, event: &CloseEvent<'_>) {
        let bytes = Box::new(Outcome::ALL.map(|outcome| event.account.bytes(outcome)));
        let mut waiting = self.waiting.lock();
        waiting.add(Event::Close { bytes, at: event.at }, event.at);
        self.hand_over(&mut waiting, event.at);
    }
}

impl TracedFile {
    fn add(&self, event: Event, now: Instant) {
        let mut waiting = self.waiting.lock();
        waiting.add(event, now);
        if waiting.is_due(now) {
            self.hand_over(&mut waiting, now);
        }
    }

    /// Hands over the waiting events. It is called under their lock, which keeps the events of a file in order, and does not
    /// block.
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
