//! Where the bytes of one slow read come from.

use crate::{answer::Answer, options::DISK_READ_LEN, room::Room, status::Failure};
use bytes::Bytes;
use forebay_engine::{Handle, Read, Segment};
use forebay_types::{ByteRange, Outcome};
use std::{fs::File, io, os::unix::fs::FileExt, sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// Where the bytes of one read come from, in order, when they are not at hand in the page cache.
///
/// File segments that it gives are in the page cache, as far as anybody knows; others are read from the disk first, by a
/// thread that may block.
pub(crate) struct Source {
    /// Asked again for what the disk does not give.
    handle: Handle,
    /// A part of a file that was not in the page cache when it was due.
    file: Option<(Arc<File>, ByteRange)>,
    /// Reads under way, the one behind the file part last.
    engine: Vec<Read>,
    /// How often the disk did not give what it should have.
    recoveries: u32,
}

/// Disk failures that one answer survives: what comes from the origin instead is rarely read from the disk again.
const RECOVERIES_MAX: u32 = 8;

/// Disk reads under way at the same time, at most: more would only queue in the disks, and those of a disk that hangs must
/// leave threads to the others.
const DISK_READS_MAX: usize = 256;

/// Time limit of one disk read: a disk that takes longer is given up.
const DISK_READ_TIME_MAX: Duration = Duration::from_secs(20);

static DISK_READS: Semaphore = Semaphore::const_new(DISK_READS_MAX);

/// What a slow read is answered from.
pub(crate) enum Supply {
    /// An open file.
    Handle(Handle),
    /// A part of a file that is on disk and already accounted.
    Disk(Source),
}

/// Bytes that are there at one moment, never none, unless the source has failed.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) segments: Vec<Segment>,
    /// Bytes of all segments.
    pub(crate) len: u64,
    /// Why nothing follows the segments.
    pub(crate) failure: Option<Failure>,
}

/// Bytes in memory of our own, and the room they take.
struct Held<R> {
    bytes: Vec<u8>,
    _room: R,
}

/// `bytes`, which give back `room` when they have been sent.
pub(crate) fn held<R: Send + 'static>(bytes: Vec<u8>, room: R) -> Bytes {
    Bytes::from_owner(Held { bytes, _room: room })
}

impl Supply {
    /// The open file, when its reads are traced.
    pub(crate) fn traced(&self) -> Option<Handle> {
        let handle = match self {
            Self::Handle(handle) => handle,
            Self::Disk(source) => &source.handle,
        };
        handle.trace().map(|_| handle.clone())
    }

    /// Starts the read of `range`, which is not empty. Tells also how the bytes are obtained, as far as it is known now.
    pub(crate) fn start(self, range: ByteRange) -> (Source, Outcome) {
        match self {
            Self::Disk(source) => (source, Outcome::Hit),
            Self::Handle(handle) => match handle.hit(range) {
                Some(file) => (Source::disk(&handle, file, range), Outcome::Hit),
                None => (Source::new(handle.clone(), None, handle.read_many(&[range])), Outcome::Missed),
            },
        }
    }
}

impl Source {
    const fn new(handle: Handle, file: Option<(Arc<File>, ByteRange)>, engine: Vec<Read>) -> Self {
        Self { handle, file, engine, recoveries: 0 }
    }

    /// A range of a file that `handle` has found on disk, and accounted.
    pub(crate) fn disk(handle: &Handle, file: &Arc<File>, range: ByteRange) -> Self {
        Self::new(handle.clone(), Some((Arc::clone(file), range)), Vec::new())
    }

    /// A read under way in the engine.
    pub(crate) fn engine(read: Read) -> Self {
        Self::new(read.handle(), None, vec![read])
    }

    /// Waits for the next bytes, and takes with them what else is there by then, until there are `len_max` bytes.
    pub(crate) async fn next_batch(&mut self, answer: &mut Answer, len_max: u64) -> Batch {
        let mut batch = Batch::default();
        let mut next = Some(self.next(answer).await.unwrap_or_else(|| Err(ended_early())));
        while let Some(taken) = next {
            match taken {
                Ok(segment) => {
                    batch.len += segment.len();
                    batch.segments.push(segment);
                }
                Err(failure) => {
                    batch.failure = Some(failure);
                    break;
                }
            }
            next = if batch.len < len_max { self.ready().await } else { None };
        }
        batch
    }

    /// The next bytes, never empty; `None` behind the last.
    pub(crate) async fn next(&mut self, answer: &mut Answer) -> Option<Result<Segment, Failure>> {
        loop {
            if self.file.is_none() {
                match answer.wait_for(self.next_of_engine()).await? {
                    Ok(Segment::File { file, range }) => self.file = Some((file, range)),
                    other => return Some(other),
                }
            }
            if let Some(segment) = self.cached_part() {
                return Some(Ok(segment));
            }
            if let Some(loaded) = self.load(answer).await {
                return Some(loaded);
            }
        }
    }

    /// The next bytes if they can be had without waiting.
    async fn ready(&mut self) -> Option<Result<Segment, Failure>> {
        if self.file.is_none() {
            let next = tokio::select! {
                biased;
                next = self.next_of_engine() => next?,
                () = std::future::ready(()) => return None,
            };
            match next {
                Ok(Segment::File { file, range }) => self.file = Some((file, range)),
                other => return Some(other),
            }
        }
        self.cached_part().map(Ok)
    }

    async fn next_of_engine(&mut self) -> Option<Result<Segment, Failure>> {
        loop {
            if let Some(next) = self.engine.last_mut()?.next().await {
                return Some(next.map_err(Failure::from));
            }
            self.engine.pop();
        }
    }

    /// The next piece of the file part, when the page cache holds it.
    fn cached_part(&mut self) -> Option<Segment> {
        let (file, range) = self.file.as_ref()?;
        let piece = ByteRange::at(range.start(), range.len().min(DISK_READ_LEN));
        if !forebay_net::probe_cached(file, piece.start(), piece.len()) {
            return None;
        }
        let segment = Segment::File { file: Arc::clone(file), range: piece };
        self.keep_behind(piece);
        Some(segment)
    }

    /// Takes `piece` off the beginning of the file part.
    fn keep_behind(&mut self, piece: ByteRange) {
        if let Some((file, range)) = self.file.take()
            && piece.end() < range.end()
        {
            self.file = Some((file, ByteRange::between(piece.end(), range.end())));
        }
    }

    /// Reads the next piece of the file part from the disk. `None` when the disk does not give it, so that the file part is
    /// read from the origin.
    async fn load(&mut self, answer: &mut Answer) -> Option<Result<Segment, Failure>> {
        let (file, range) = self.file.clone()?;
        let piece = ByteRange::at(range.start(), range.len().min(DISK_READ_LEN));
        let room = answer.room_for_piece(piece.len()).await;
        match answer.wait_for(read_disk(file, piece)).await {
            Ok(bytes) => {
                self.keep_behind(piece);
                Some(Ok(Segment::Memory(held(bytes, room))))
            }
            Err(error) if self.recoveries < RECOVERIES_MAX => {
                self.recoveries += 1;
                self.file = None;
                match answer.wait_for(self.handle.recover(range, &error)).await {
                    Ok(read) => {
                        self.engine.push(read);
                        None
                    }
                    Err(error) => Some(Err(error.into())),
                }
            }
            Err(error) => Some(Err(Failure::disk(&error))),
        }
    }
}

impl<R> AsRef<[u8]> for Held<R> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a range of a file by a thread that may block, for a bounded time.
pub(crate) async fn read_disk(file: Arc<File>, range: ByteRange) -> io::Result<Vec<u8>> {
    let len = usize::try_from(range.len()).map_err(io::Error::other)?;
    let place = DISK_READS.acquire().await.map_err(io::Error::other)?;
    let read = tokio::task::spawn_blocking(move || {
        // As long as the read takes, not as long as somebody waits for it.
        let _place = place;
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, range.start()).map(|()| bytes)
    });
    match tokio::time::timeout(DISK_READ_TIME_MAX, read).await {
        Ok(read) => read.map_err(io::Error::other).flatten(),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the disk takes too long to read")),
    }
}

/// Appends the bytes of a segment that [`Source`] has given.
pub(crate) fn append_segment(segment: &Segment, out: &mut Vec<u8>) -> Result<(), Failure> {
    match segment {
        Segment::Memory(bytes) => out.extend_from_slice(bytes),
        Segment::File { file, range } => {
            let start = out.len();
            let len =
                usize::try_from(range.len()).map_err(|_| Failure::internal("a file part does not fit into memory"))?;
            out.resize(start + len, 0);
            let room = out.get_mut(start..).unwrap_or_default();
            file.read_exact_at(room, range.start()).map_err(|error| Failure::disk(&error))?;
        }
    }
    Ok(())
}

/// The bytes of a segment that [`Source`] has given, in memory; those that are read for it hold `room`.
pub(crate) fn into_bytes(segment: Segment, room: &[Arc<Room>]) -> Result<Bytes, Failure> {
    match segment {
        Segment::Memory(bytes) => Ok(bytes),
        Segment::File { .. } => {
            let mut bytes = Vec::new();
            append_segment(&segment, &mut bytes)?;
            Ok(held(bytes, room.to_vec()))
        }
    }
}

/// The engine promises all bytes of a range or an error: a short answer would mean the end of the file to the client.
pub(crate) fn ended_early() -> Failure {
    Failure::internal("a read ended before its last byte")
}
