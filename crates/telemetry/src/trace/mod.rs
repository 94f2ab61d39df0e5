//! The trace: a stream of what clients read, as lines of JSON in files that are rotated.
//!
//! Whether a file is traced is decided when it is opened. Each [`TracedFile`] collects its lines and hands them over in batches
//! to one thread, which alone touches the disk. What does not fit the queue is dropped and counted: nobody waits for a trace.

mod line;
mod writer;

use crate::Metrics;
use forebay_types::{ByteRange, Outcome};
use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{self, SyncSender, TrySendError},
    },
    time::{Duration, Instant},
};

use line::Line;
pub use line::TracedOpen;
use writer::Writer;

/// Batches that wait for the disk; further ones are dropped. A batch is some 8 KiB.
const BATCHES_MAX: usize = 512;

/// Bytes of lines that are handed over together, or what there is when the oldest has waited for so long.
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
    clock: Clock,
    metrics: Metrics,
}

/// A point in time on both clocks; the second is microseconds of the Unix epoch.
#[derive(Clone, Copy, Debug)]
struct Clock(Instant, i64);

/// What is told to the writer.
enum Message {
    Lines(Batch),
    /// Write all that came before, and say so.
    Flush(SyncSender<()>),
}

/// Lines of one file, handed over at a point in time.
struct Batch {
    lines: Vec<u8>,
    count: u64,
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

/// Lines that are not handed over yet.
#[derive(Debug)]
struct Waiting {
    lines: Vec<u8>,
    count: u64,
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
        let (sample, clock) = (options.sample, Clock(now.0, now.1));
        let writer = Writer::new(options, clock, metrics.clone());
        std::thread::Builder::new().name("trace".to_owned()).spawn(move || writer.run(&messages))?;
        Ok(Self(Arc::new(Shared { sample, opens: AtomicU64::new(0), queue, clock, metrics })))
    }

    /// Takes note of an open at `at`; `None` when it is not drawn.
    #[must_use]
    pub fn open(&self, open: &TracedOpen<'_>, at: Instant) -> Option<TracedFile> {
        let number = self.0.opens.fetch_add(1, Relaxed) + 1;
        if scattered(number) % self.0.sample.per >= self.0.sample.of {
            return None;
        }
        let shared = Arc::clone(&self.0);
        let waiting = Mutex::new(Waiting { lines: Vec::new(), count: 0, since: at });
        let file = TracedFile { shared, number, waiting };
        file.add(at, at, |line| line.open(open));
        Some(file)
    }

    /// Waits until all that was handed over is written, or for `patience`. Blocking.
    pub fn flush(&self, patience: Duration) {
        let (done, written) = mpsc::sync_channel(1);
        // A writer whose disk hangs is left behind.
        if self.0.queue.try_send(Message::Flush(done)).is_ok() {
            let _ = written.recv_timeout(patience);
        }
    }
}

impl TracedFile {
    /// Notes a read that was answered. The range is the one that was given: it ends at the end of the file.
    pub fn read(&self, kind: TracedRead, range: ByteRange, answer: &TracedAnswer) {
        self.add(answer.received, answer.done, |line| line.read(kind, range, answer));
    }

    /// Notes the elements that a vector read had of this file.
    pub fn read_vector(&self, elements: impl Iterator<Item = ByteRange>, answer: &TracedAnswer) {
        self.add(answer.received, answer.done, |line| line.read_vector(elements, answer));
    }

    /// Notes the close at `at`, and what the client has got by then. The last that is told of the file.
    pub fn close(&self, bytes: impl Fn(Outcome) -> u64, at: Instant) {
        let mut waiting = self.waiting();
        waiting.add(self.number, self.shared.clock.micros(at), at, |line| line.close(bytes));
        self.hand_over(&mut waiting, at);
    }

    /// Adds a line on something at `at`; it is `now`.
    fn add(&self, at: Instant, now: Instant, write: impl FnOnce(&mut Line<'_>)) {
        let mut waiting = self.waiting();
        waiting.add(self.number, self.shared.clock.micros(at), now, write);
        if waiting.is_due(now) {
            self.hand_over(&mut waiting, now);
        }
    }

    /// Hands over what waits. Under its lock, so that the lines of a file stay in their order; it does not wait.
    fn hand_over(&self, waiting: &mut Waiting, at: Instant) {
        let (lines, count) = (std::mem::take(&mut waiting.lines), std::mem::take(&mut waiting.count));
        let sent = self.shared.queue.try_send(Message::Lines(Batch { lines, count, at }));
        if let Err(TrySendError::Full(Message::Lines(batch)) | TrySendError::Disconnected(Message::Lines(batch))) = sent
        {
            self.shared.metrics.add_trace_dropped(batch.count);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn add(&mut self, number: u64, micros: i64, now: Instant, write: impl FnOnce(&mut Line<'_>)) {
        if self.lines.is_empty() {
            self.since = now;
        }
        self.count += 1;
        write(&mut Line::new(&mut self.lines, number, micros));
    }

    fn is_due(&self, now: Instant) -> bool {
        self.lines.len() >= BATCH_LEN || now.saturating_duration_since(self.since) >= BATCH_AGE
    }
}

impl Clock {
    /// `at` in microseconds of the Unix epoch.
    fn micros(self, at: Instant) -> i64 {
        let whole = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
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

/// A number that looks drawn by chance (the finalizer of `SplitMix64`).
const fn scattered(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests;
