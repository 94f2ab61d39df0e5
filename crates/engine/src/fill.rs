//! A fill: missing blocks are fetched once, for all who wait on them.
//!
//! Order of calls: the planner creates a [`Fill`] and claims its blocks; its driver adds what arrives and ends it; readers call
//! [`Fill::take`] at any time and get bytes as they arrive.

use crate::Error;
use bytes::Bytes;
use forebay_types::ByteRange;
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

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

    /// The ranges asked for, in order: from the first wanted bytes to the end, then what lies before.
    pub(crate) fn requests(&self) -> Vec<ByteRange> {
        self.state().parts.iter().map(|part| part.range).collect()
    }

    /// Adds bytes behind those that have arrived of a part; returns up to where it has arrived now.
    pub(crate) fn add(&self, part_index: usize, bytes: Bytes) -> Result<u64, Error> {
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

    /// Whether a part is there as a whole.
    pub(crate) fn has_arrived(&self, part_index: usize) -> bool {
        self.state().parts.get(part_index).is_some_and(|part| part.arrived == part.range.end())
    }

    /// The bytes of `range`, all of which have arrived, in pieces.
    pub(crate) fn collect(&self, range: ByteRange) -> Vec<Bytes> {
        let state = self.state();
        let mut parts: Vec<&Part> = state.parts.iter().collect();
        parts.sort_by_key(|part| part.range.start());
        parts.iter().flat_map(|part| part.chunks.iter()).filter_map(|chunk| chunk.within(range)).collect()
    }

    /// Drops the chunks from memory that are on disk as a whole.
    pub(crate) fn release_memory(&self, is_on_disk: impl Fn(ByteRange) -> bool) {
        for part in &mut self.state().parts {
            part.chunks.retain(|chunk| !is_on_disk(chunk.range));
        }
    }

    /// Ends the fill: who waits for bytes that have not arrived learns how.
    pub(crate) fn end(&self, result: Result<(), Error>) {
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
}
