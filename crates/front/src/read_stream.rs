//! Slow reads: bytes that are not in the page cache come from the disk, or from the engine.

use crate::{
    answer_memory::{AnswerMemory, Reservation},
    failure::Failure,
};
use bytes::Bytes;
use forebay_engine::{Handle, Read, Segment};
use forebay_types::{ByteRange, Outcome};
use std::{fs::File, io, os::unix::fs::FileExt, sync::Arc};

/// The bytes of one read, in order.
///
/// File segments that it returns are very likely in the page cache. Others are read from the disk first.
pub struct ReadStream {
    /// Reads again from the origin what the disk does not return.
    handle: Handle,
    /// The part of a file that comes next.
    file: Option<(Arc<File>, ByteRange)>,
    /// Reads in progress, the one that follows `file` last.
    engine: Vec<Read>,
    disk_failures: u32,
    /// Whether the page cache was found not to hold the file part, so that it is not asked again at once.
    is_absent: bool,
}

/// Disk failures that one read survives: bytes that come from the origin instead are rarely read from the disk again.
const DISK_FAILURES_MAX: u32 = 8;

/// Bytes of a file that are taken at a time: sent if the page cache holds them, read from the disk otherwise.
const PART_LEN: u64 = 1 << 20;

/// Bytes of a file from which on they are loaded into the page cache and sent from there. A copy of fewer costs less than the calls that
/// it saves.
const LOADED_LEN_MIN: u64 = 16 << 10;

/// The start of a slow read.
pub enum ReadSource {
    Handle(Handle),
    /// A part of a file that is on disk and already accounted.
    Disk(ReadStream),
}

/// Bytes that are available at one moment: never none, unless the read has failed.
#[derive(Default)]
pub struct Batch {
    pub segments: Vec<Segment>,
    pub len: u64,
    /// Why nothing follows the segments.
    pub failure: Option<Failure>,
}

struct WithMemory<R> {
    bytes: Vec<u8>,
    _memory: R,
}

/// `bytes` that release `memory` when they have been sent.
pub fn with_memory<R: Send + 'static>(bytes: Vec<u8>, memory: R) -> Bytes {
    Bytes::from_owner(WithMemory { bytes, _memory: memory })
}

impl ReadSource {
    /// The open file, if a subscriber wants its reads.
    pub fn reported(&self) -> Option<Handle> {
        let handle = match self {
            Self::Handle(handle) => handle,
            Self::Disk(stream) => &stream.handle,
        };
        handle.reads().map(|_| handle.clone())
    }

    /// Starts the read of `range`, which is not empty. The outcome is the one that is known now.
    pub fn start(self, range: ByteRange) -> (ReadStream, Outcome) {
        match self {
            Self::Disk(stream) => (stream, Outcome::Hit),
            Self::Handle(handle) => match handle.hit(range) {
                // Reads on a parallel stream come here without a look at the disk.
                Some(file) => (ReadStream::disk(&handle, file, range), Outcome::Hit),
                None => (ReadStream::new(handle.clone(), None, handle.read_many(&[range])), Outcome::Missed),
            },
        }
    }
}

impl ReadStream {
    const fn new(handle: Handle, file: Option<(Arc<File>, ByteRange)>, engine: Vec<Read>) -> Self {
        Self { handle, file, engine, disk_failures: 0, is_absent: false }
    }

    /// A range of a file that `handle` has found on disk, and accounted.
    pub fn disk(handle: &Handle, file: &Arc<File>, range: ByteRange) -> Self {
        Self::new(handle.clone(), Some((Arc::clone(file), range)), Vec::new())
    }

    /// The same, of which the page cache was found not to hold all.
    pub fn absent(handle: &Handle, file: &Arc<File>, range: ByteRange) -> Self {
        Self { is_absent: true, ..Self::disk(handle, file, range) }
    }

    /// A read in progress in the engine.
    pub fn engine(read: Read) -> Self {
        Self::new(read.handle(), None, vec![read])
    }

    /// Waits for the next bytes, and takes with them all that are available by then, up to about `len_max`.
    pub async fn next_batch(&mut self, memory: &AnswerMemory, len_max: u64) -> Batch {
        let mut batch = Batch::default();
        let mut next = Some(self.next(memory, len_max).await.unwrap_or_else(|| Err(Failure::ended_early())));
        while let Some(taken) = next {
            match taken {
                Ok(segment) => {
                    batch.len += segment.len();
                    batch.segments.push(segment);
                }
                Err(failure) => {
                    self.handle.report_failure(failure.side, failure.kind.as_str(), &failure.text);
                    batch.failure = Some(failure);
                    break;
                }
            }
            // The batch may exceed the limit by one segment, because segments are not split.
            next = if batch.len < len_max { self.ready(len_max - batch.len).await } else { None };
        }
        batch
    }

    /// The next bytes, never empty; `None` after the last.
    async fn next(&mut self, memory: &AnswerMemory, len_max: u64) -> Option<Result<Segment, Failure>> {
        loop {
            if self.file.is_none() {
                match self.next_of_engine().await? {
                    Ok(Segment::File { file, range }) => self.file = Some((file, range)),
                    other => return Some(other),
                }
            }
            if let Some(segment) = self.cached_part(len_max) {
                return Some(Ok(segment));
            }
            if let Some(loaded) = self.load(memory, len_max).await {
                return Some(loaded);
            }
        }
    }

    /// The next bytes if they are available without waiting.
    async fn ready(&mut self, len_max: u64) -> Option<Result<Segment, Failure>> {
        if self.file.is_none() {
            let next = tokio::select! {
                // The engine is polled once: bytes that need a wait belong to the next batch.
                biased;
                next = self.next_of_engine() => next?,
                () = std::future::ready(()) => return None,
            };
            match next {
                Ok(Segment::File { file, range }) => self.file = Some((file, range)),
                other => return Some(other),
            }
        }
        self.cached_part(len_max).map(Ok)
    }

    async fn next_of_engine(&mut self) -> Option<Result<Segment, Failure>> {
        loop {
            if let Some(next) = self.engine.last_mut()?.next().await {
                return Some(next.map_err(Failure::from));
            }
            // A read that is used up returns to the one that it replaced a part of.
            self.engine.pop();
        }
    }

    /// The next piece of the file part, if the page cache holds it.
    fn cached_part(&mut self, len_max: u64) -> Option<Segment> {
        if std::mem::take(&mut self.is_absent) {
            return None;
        }
        let (file, range) = self.file.as_ref()?;
        let part = ByteRange::at(range.start(), range.len().min(PART_LEN).min(len_max));
        if !forebay_net::probe_cached(file, self.handle.nowait_reads(), part.start(), part.len()) {
            return None;
        }
        let segment = Segment::File { file: Arc::clone(file), range: part };
        self.advance(part);
        Some(segment)
    }

    /// Takes `part` off the beginning of the file part.
    fn advance(&mut self, part: ByteRange) {
        if let Some((file, range)) = self.file.take()
            && part.end() < range.end()
        {
            self.file = Some((file, ByteRange::between(part.end(), range.end())));
        }
    }

    /// Has the next piece of the file part read from the disk. `None` when the disk fails: the rest of the part comes from the
    /// origin then.
    async fn load(&mut self, memory: &AnswerMemory, len_max: u64) -> Option<Result<Segment, Failure>> {
        let (file, range) = self.file.clone()?;
        let len = range.len().min(PART_LEN).min(len_max);
        if len >= LOADED_LEN_MIN {
            let part = ByteRange::at(range.start(), len);
            match self.handle.load_disk(&file, part).await {
                Ok(true) => {
                    self.advance(part);
                    return Some(Ok(Segment::File { file, range: part }));
                }
                // By a thread: the bytes go to memory, because a thread that has waited for them can as well copy them.
                Ok(false) => {}
                // Not tried again: a disk that hangs would take its time limit twice.
                Err(error) => return self.recover(range, &error).await.map(Err),
            }
        }
        // Memory comes before the disk read: bytes without memory would not be bounded.
        let (memory, len) = memory.reserve_part(len).await;
        let part = ByteRange::at(range.start(), len);
        match self.handle.read_disk(&file, part).await {
            Ok(bytes) => {
                self.advance(part);
                Some(Ok(Segment::Memory(with_memory(bytes, memory))))
            }
            Err(error) => self.recover(range, &error).await.map(Err),
        }
    }

    /// Reads the file part, `range`, from the origin: it still has the bytes, so a failed disk need not fail the client.
    async fn recover(&mut self, range: ByteRange, error: &io::Error) -> Option<Failure> {
        if self.disk_failures >= DISK_FAILURES_MAX {
            return Some(Failure::disk(error));
        }
        self.disk_failures += 1;
        // The whole rest of the part is read from the origin: the disk is likely to fail again.
        self.file = None;
        match self.handle.recover(range, error).await {
            Ok(read) => {
                self.engine.push(read);
                None
            }
            Err(error) => Some(error.into()),
        }
    }
}

impl<R> AsRef<[u8]> for WithMemory<R> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Appends the bytes of a segment of a [`ReadStream`].
///
/// # Errors
/// When the disk fails.
pub fn append_segment(segment: &Segment, out: &mut Vec<u8>) -> Result<(), Failure> {
    match segment {
        Segment::Memory(bytes) => out.extend_from_slice(bytes),
        Segment::File { file, range } => {
            let start = out.len();
            let len =
                usize::try_from(range.len()).map_err(|_| Failure::internal("a file part does not fit into memory"))?;
            out.resize(start + len, 0);
            let room = out.get_mut(start..).unwrap_or_default();
            // The page cache held these bytes a moment ago, so this rarely waits.
            file.read_exact_at(room, range.start()).map_err(|error| Failure::disk(&error))?;
        }
    }
    Ok(())
}

/// The bytes of a segment of a [`ReadStream`], in memory. Bytes that are read for it hold `memory`.
///
/// # Errors
/// When the disk fails.
pub fn into_bytes(segment: Segment, memory: &[Arc<Reservation>]) -> Result<Bytes, Failure> {
    match segment {
        Segment::Memory(bytes) => Ok(bytes),
        Segment::File { .. } => {
            let mut bytes = Vec::new();
            append_segment(&segment, &mut bytes)?;
            Ok(with_memory(bytes, memory.to_vec()))
        }
    }
}
