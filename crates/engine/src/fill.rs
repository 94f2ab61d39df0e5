//! A fill: missing blocks are fetched once, for all who wait on them.
//!
//! Order of calls: the planner creates a [`Fill`] and claims its blocks; [`run`] drives it to its end; readers call
//! [`Fill::take`] at any time. Bytes are handed out as they arrive; a block's bit is set once all of it is written.

use crate::{
    Error,
    budget::Reservation,
    cached::{CachedFile, Kept},
};
use bytes::Bytes;
use forebay_origin::Chunks;
use forebay_types::{BlockIndex, ByteRange};
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{sync::Notify, task::JoinHandle};

/// Unit of checksums on the wire: a demanded range is asked for from the start of its page.
const PAGE: u64 = 4096;

/// Missing blocks that are being fetched.
pub(crate) struct Fill {
    blocks: ByteRange,
    state: Mutex<State>,
    changed: Notify,
}

/// What a fill has for a reader.
pub(crate) enum Supply {
    /// Bytes in memory.
    Memory(Bytes),
    /// The bytes are on disk by now.
    OnDisk,
}

struct State {
    parts: Vec<Part>,
    end: Option<Result<(), Error>>,
}

/// One origin request of a fill.
struct Part {
    range: ByteRange,
    arrived: u64,
    chunks: VecDeque<Chunk>,
}

struct Chunk {
    range: ByteRange,
    bytes: Bytes,
}

impl Fill {
    /// A fill of `blocks` (whole blocks) for a reader who wants `wanted` first.
    ///
    /// What lies before the wanted bytes is asked for in a request of its own behind them, so that a reader in the middle
    /// of a block does not wait for the block's beginning.
    pub(crate) fn new(blocks: ByteRange, wanted: ByteRange) -> Self {
        let first = (wanted.start() / PAGE * PAGE).max(blocks.start());
        let mut parts = vec![Part::new(ByteRange::between(first, blocks.end()))];
        if first > blocks.start() {
            parts.push(Part::new(ByteRange::between(blocks.start(), first)));
        }
        Self { blocks, state: Mutex::new(State { parts, end: None }), changed: Notify::new() }
    }

    /// The blocks being fetched, as bytes.
    pub(crate) const fn blocks(&self) -> ByteRange {
        self.blocks
    }

    /// The bytes at the start of `range`, as many as there are in one piece; waits until there is at least one.
    ///
    /// # Errors
    /// When the fill failed before these bytes arrived.
    pub(crate) async fn take(&self, range: ByteRange) -> Result<Supply, Error> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(answer) = self.take_now(range) {
                return answer;
            }
            changed.await;
        }
    }

    /// Waits until the fill has ended, one way or the other.
    pub(crate) async fn ended(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.state().end.is_some() {
                return;
            }
            changed.await;
        }
    }

    fn take_now(&self, range: ByteRange) -> Option<Result<Supply, Error>> {
        let state = self.state();
        let part = state.parts.iter().find(|part| part.range.contains(range.start()))?;
        if part.arrived > range.start() {
            return Some(Ok(part.supply(range)));
        }
        match &state.end {
            None => None,
            Some(Err(error)) => Some(Err(error.clone())),
            Some(Ok(())) => Some(Err(Error::Internal { what: "a fill ended before its last byte" })),
        }
    }

    fn requests(&self) -> Vec<ByteRange> {
        self.state().parts.iter().map(|part| part.range).collect()
    }

    fn add(&self, part_index: usize, bytes: Bytes) -> Result<u64, Error> {
        let mut state = self.state();
        let part = state.parts.get_mut(part_index).ok_or(Error::Internal { what: "a fill has no such part" })?;
        let range = ByteRange::at(part.arrived, bytes.len() as u64);
        if range.end() > part.range.end() {
            return Err(Error::Internal { what: "an origin sent more than it was asked for" });
        }
        part.chunks.push_back(Chunk { range, bytes });
        part.arrived = range.end();
        drop(state);
        self.changed.notify_waiters();
        Ok(range.end())
    }

    /// The bytes of `range`, all of which have arrived, in pieces.
    fn collect(&self, range: ByteRange) -> Vec<Bytes> {
        let state = self.state();
        let mut parts: Vec<&Part> = state.parts.iter().collect();
        parts.sort_by_key(|part| part.range.start());
        parts.iter().flat_map(|part| part.chunks.iter()).filter_map(|chunk| chunk.within(range)).collect()
    }

    /// Drops the chunks from memory that are on disk as a whole.
    fn release_memory(&self, is_on_disk: impl Fn(ByteRange) -> bool) {
        for part in &mut self.state().parts {
            part.chunks.retain(|chunk| !is_on_disk(chunk.range));
        }
    }

    fn end(&self, result: Result<(), Error>) {
        self.state().end = Some(result);
        self.changed.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part {
    fn new(range: ByteRange) -> Self {
        Self { range, arrived: range.start(), chunks: VecDeque::new() }
    }

    fn supply(&self, range: ByteRange) -> Supply {
        let index = self.chunks.partition_point(|chunk| chunk.range.end() <= range.start());
        let chunk = self.chunks.get(index).filter(|chunk| chunk.range.contains(range.start()));
        chunk.and_then(|chunk| chunk.within(range)).map_or(Supply::OnDisk, Supply::Memory)
    }
}

impl Chunk {
    fn within(&self, range: ByteRange) -> Option<Bytes> {
        let common = self.range.intersection(range)?;
        let from = usize::try_from(common.start() - self.range.start()).ok()?;
        let to = usize::try_from(common.end() - self.range.start()).ok()?;
        Some(self.bytes.slice(from..to))
    }
}

/// Drives a fill to its end, whatever happens, and gives its blocks free again.
pub(crate) async fn run(file: Arc<CachedFile>, fill: Arc<Fill>, reservation: Reservation) {
    let broken_off = Err(Error::Internal { what: "a fill broke off" });
    let mut ending = Ending { file: &file, fill: &fill, result: broken_off };
    ending.result = drive(&file, &fill, reservation).await;
    if let Err(error) = &ending.result {
        file.note_failure(error);
    }
}

/// Ends a fill also when its driver panics: its blocks may be claimed again, then waiters learn how it ended.
struct Ending<'a> {
    file: &'a CachedFile,
    fill: &'a Arc<Fill>,
    result: Result<(), Error>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.file.unclaim(self.fill);
        self.fill.end(self.result.clone());
    }
}

async fn drive(file: &Arc<CachedFile>, fill: &Arc<Fill>, mut reservation: Reservation) -> Result<(), Error> {
    let kept = file.kept().ok_or(Error::Internal { what: "a fill of a file that is not kept" })?;
    let origin = file.origin_file().await?;
    let streams = origin.read_many(&fill.requests());
    let mut writer = Writer::new(file, fill, origin.verifies_pages());
    for (part_index, mut chunks) in streams.into_iter().enumerate() {
        while let Some(chunk) = writer.next(kept, &mut chunks).await {
            writer.arrived(part_index, fill.add(part_index, reservation.attach(chunk?))?);
            writer.start(kept);
        }
    }
    writer.finish(kept).await;
    Ok(())
}

/// Writes a fill's blocks as they become complete, one write at a time; what completes meanwhile goes into the next one.
struct Writer<'a> {
    file: &'a Arc<CachedFile>,
    fill: &'a Arc<Fill>,
    /// Complete blocks that are not written yet.
    ready: Vec<ByteRange>,
    writing: Option<(ByteRange, JoinHandle<io::Result<()>>)>,
    /// Blocks of the first part that are complete once the second part has come.
    split_block: Option<ByteRange>,
    seen: u64,
    /// Whether the bytes were compared with page checksums on their way.
    verified: bool,
}

impl<'a> Writer<'a> {
    fn new(file: &'a Arc<CachedFile>, fill: &'a Arc<Fill>, verified: bool) -> Self {
        let first = fill.requests().first().map_or(0, |range| range.start());
        let head = ByteRange::between(fill.blocks.start(), first);
        let geometry = file.geometry();
        let split_block = (!head.is_empty())
            .then(|| ByteRange::between(fill.blocks.start(), geometry.range_of(geometry.index_of(first)).end()));
        Self { file, fill, ready: Vec::new(), writing: None, split_block, seen: fill.blocks.start(), verified }
    }

    /// The next chunk, while a write goes on beside.
    async fn next(&mut self, kept: &Kept, chunks: &mut Chunks) -> Option<Result<Bytes, forebay_origin::OriginError>> {
        loop {
            let Some((range, write)) = &mut self.writing else { return chunks.next().await };
            let range = *range;
            tokio::select! {
                biased;
                written = write => {
                    self.writing = None;
                    self.written(kept, range, written.map_err(io::Error::other).flatten());
                    self.start(kept);
                }
                chunk = chunks.next() => return chunk,
            }
        }
    }

    /// Notes that the part has arrived up to `end`, and which blocks that completes.
    fn arrived(&mut self, part_index: usize, end: u64) {
        if part_index == 0 {
            let from = self.split_block.map_or(self.seen, |block| self.seen.max(block.end()));
            let complete = ByteRange::between(from, self.complete_up_to(end));
            if !complete.is_empty() {
                self.ready.push(complete);
                self.seen = complete.end();
            }
        } else if let Some(block) =
            self.split_block.filter(|_| Some(end) == self.fill.requests().first().map(|r| r.start()))
        {
            self.ready.push(block);
        }
    }

    /// Where the last block ends that is complete when bytes up to `end` have arrived.
    fn complete_up_to(&self, end: u64) -> u64 {
        if end == self.fill.blocks.end() {
            end
        } else {
            end / self.file.geometry().block_size() * self.file.geometry().block_size()
        }
    }

    /// Starts writing what is ready, unless a write is under way or the disk is paused.
    fn start(&mut self, kept: &Kept) {
        if self.writing.is_some() || self.file.is_disk_paused() {
            return;
        }
        self.ready.sort_by_key(|range| range.start());
        let Some(range) = take_first_run(&mut self.ready) else { return };
        let (data, bytes) = (Arc::clone(&kept.data), self.fill.collect(range));
        let write = tokio::task::spawn_blocking(move || data.write_vectored_at(range.start(), &bytes));
        self.writing = Some((range, write));
    }

    fn written(&mut self, kept: &Kept, range: ByteRange, result: io::Result<()>) {
        match result {
            Ok(()) => {
                for index in self.file.geometry().blocks_of(range) {
                    kept.map.set_written(BlockIndex(index));
                }
                self.file.note_written(kept, range.len(), self.verified);
                self.fill.release_memory(|chunk| kept.map.holds(chunk));
            }
            Err(error) => self.file.note_write_failure(&error, self.file.geometry().blocks_of(range).count() as u64),
        }
    }

    async fn finish(&mut self, kept: &Kept) {
        loop {
            self.start(kept);
            let Some((range, write)) = self.writing.take() else { return };
            let written = write.await;
            self.written(kept, range, written.map_err(io::Error::other).flatten());
        }
    }
}

/// Takes the first contiguous run out of ranges sorted by start.
fn take_first_run(ranges: &mut Vec<ByteRange>) -> Option<ByteRange> {
    let mut run = *ranges.first()?;
    let mut taken = 1;
    for next in ranges.iter().skip(1) {
        if next.start() != run.end() {
            break;
        }
        run = ByteRange::between(run.start(), next.end());
        taken += 1;
    }
    ranges.drain(..taken);
    Some(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers needs nothing")
    }

    #[test]
    fn wanted_bytes_are_asked_for_before_the_beginning_of_their_block() {
        let fill = Fill::new(ByteRange::at(65536, 65536), ByteRange::at(70_000, 10));
        assert_eq!(fill.requests(), [ByteRange::between(69_632, 131_072), ByteRange::between(65_536, 69_632)]);
        let fill = Fill::new(ByteRange::at(65536, 65536), ByteRange::at(65_540, 10));
        assert_eq!(fill.requests(), [ByteRange::at(65536, 65536)]);
    }

    #[test]
    fn bytes_are_handed_out_as_they_arrive_and_from_disk_once_written() {
        let fill = Fill::new(ByteRange::at(0, 8192), ByteRange::at(0, 10));
        fill.add(0, Bytes::from(vec![1; 4096])).unwrap();
        assert!(fill.take_now(ByteRange::at(4096, 1)).is_none());
        fill.add(0, Bytes::from(vec![2; 10])).unwrap();
        let Some(Ok(Supply::Memory(bytes))) = fill.take_now(ByteRange::between(4000, 5000)) else {
            panic!("in memory")
        };
        assert_eq!(bytes.len(), 96);
        fill.release_memory(|chunk| chunk.end() <= 4096);
        assert!(matches!(fill.take_now(ByteRange::at(0, 1)), Some(Ok(Supply::OnDisk))));
    }

    #[test]
    fn waiters_learn_of_a_failure_but_keep_what_has_arrived() {
        let fill = Fill::new(ByteRange::at(0, 8192), ByteRange::at(0, 10));
        fill.add(0, Bytes::from(vec![1; 10])).unwrap();
        fill.end(Err(Error::ShuttingDown));
        runtime().block_on(async {
            assert!(matches!(fill.take(ByteRange::at(0, 1)).await, Ok(Supply::Memory(_))));
            assert!(matches!(fill.take(ByteRange::at(10, 1)).await, Err(Error::ShuttingDown)));
        });
    }

    #[test]
    fn an_origin_that_sends_too_much_is_caught() {
        let fill = Fill::new(ByteRange::at(0, 10), ByteRange::at(0, 10));
        assert!(fill.add(0, Bytes::from_static(&[0; 11])).is_err());
    }

    #[test]
    fn runs_are_taken_in_order() {
        let mut ranges = vec![ByteRange::at(0, 4), ByteRange::at(4, 4), ByteRange::at(12, 4)];
        assert_eq!(take_first_run(&mut ranges), Some(ByteRange::at(0, 8)));
        assert_eq!(take_first_run(&mut ranges), Some(ByteRange::at(12, 4)));
        assert_eq!(take_first_run(&mut ranges), None);
    }
}
