//! A fill: missing blocks are fetched once, for all waiting readers.
//!
//! Order of calls: the planner creates a [`Fill`] and claims its blocks; its driver adds what arrives and ends it; readers call
//! [`Fill::take`] at any time and get bytes as they arrive.

use crate::Error;
use bytes::Bytes;
use forebay_cache::{Crc32cAppend, crc32c_append};
use forebay_origin::Chunk as Arrival;
use forebay_types::ByteRange;
use parking_lot::Mutex;
use std::{collections::VecDeque, pin::pin};
use tokio::sync::Notify;

/// Requests that are sent together: for each the part of the fill that it belongs to, and its range.
pub(crate) type Stage = Vec<(usize, ByteRange)>;

/// Unit of checksums on the wire: a demanded range is asked for from the start of its page.
const PAGE: u64 = 4096;

static WHOLE_PAGE: Crc32cAppend = Crc32cAppend::of_len(PAGE);

pub(crate) struct Fill {
    blocks: ByteRange,
    /// The requested bytes, in whole pages; the rest is deferred until the link has room for it.
    urgent: ByteRange,
    pub(crate) rest: Rest,
    wanted_len: u64,
    /// Notified when a reader requests more.
    rest_wanted: Notify,
    state: Mutex<State>,
    changed: Notify,
}

/// When the deferred bytes of a fill are fetched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Rest {
    /// When the link has room for them, or a reader requests them.
    InTurn,
    /// On request of a reader only.
    OnDemand,
    /// As in turn, once readers have taken the others, which stay in memory until then: they were fetched ahead.
    AfterUse,
}

pub(crate) enum Supply {
    Memory(Bytes),
    /// The bytes are on disk by now.
    OnDisk,
}

struct State {
    parts: Vec<Part>,
    /// Bytes that readers have taken.
    taken: u64,
    /// The deferred bytes will not be fetched.
    is_cut: bool,
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
    arrival: Arrival,
}

impl Fill {
    /// A fill of `blocks` (whole blocks) for a reader that requests `wanted`.
    ///
    /// The bytes before the wanted ones are fetched by a second request after them, so that a reader in the middle
    /// of a block does not wait for the block's beginning.
    pub(crate) fn new(blocks: ByteRange, wanted: ByteRange) -> Self {
        Self::from_offset(blocks, (wanted.start() / PAGE * PAGE).max(blocks.start()))
    }

    /// A fill of `blocks` whose first request begins at `first`.
    fn from_offset(blocks: ByteRange, first: u64) -> Self {
        let mut parts = vec![Part::new(ByteRange::between(first, blocks.end()))];
        if first > blocks.start() {
            parts.push(Part::new(ByteRange::between(blocks.start(), first)));
        }
        let state = Mutex::new(State { parts, taken: 0, is_cut: false, end: None });
        Self {
            blocks,
            urgent: blocks,
            rest: Rest::InTurn,
            wanted_len: blocks.len(),
            rest_wanted: Notify::new(),
            state,
            changed: Notify::new(),
        }
    }

    /// Like [`Fill::new`], but bytes that no reader has requested are deferred, and dropped if the link has no room.
    pub(crate) fn deferring_surplus(blocks: ByteRange, wanted: ByteRange) -> Self {
        let pages_end = wanted.end().div_ceil(PAGE).saturating_mul(PAGE);
        let urgent = ByteRange::between(wanted.start() / PAGE * PAGE, pages_end);
        Self { urgent: urgent.intersection(blocks).unwrap_or(blocks), ..Self::new(blocks, wanted) }
    }

    /// A fill of `blocks` for a reader that is expected to request `wanted`: the bytes around it are deferred until it has.
    pub(crate) fn of_expected(blocks: ByteRange, wanted: ByteRange) -> Self {
        Self { rest: Rest::AfterUse, wanted_len: wanted.len(), ..Self::deferring_surplus(blocks, wanted) }
    }

    /// A fill of `blocks` that requests exactly the `wanted` bytes: pages are split, and blocks that are not whole are not kept.
    pub(crate) fn of_demand(blocks: ByteRange, wanted: ByteRange) -> Self {
        Self { urgent: wanted, rest: Rest::OnDemand, ..Self::from_offset(blocks, wanted.start()) }
    }

    /// The blocks being fetched, as bytes.
    pub(crate) const fn blocks(&self) -> ByteRange {
        self.blocks
    }

    /// Length of the bytes that are not deferred.
    pub(crate) const fn urgent_len(&self) -> u64 {
        self.urgent.len()
    }

    /// The bytes at the start of `range`, as many as there are in one piece; waits until there is at least one.
    ///
    /// # Errors
    /// When the fill failed before these bytes arrived.
    pub(crate) async fn take(&self, range: ByteRange) -> Result<Supply, Error> {
        self.want(range);
        let supply = self.when(|| self.take_now(range)).await;
        if let (Rest::AfterUse, Ok(Supply::Memory(bytes))) = (self.rest, &supply) {
            self.note_taken(bytes.len() as u64);
        }
        supply
    }

    fn note_taken(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.taken = state.taken.saturating_add(bytes);
        let is_used = state.taken >= self.used_from();
        drop(state);
        if is_used {
            self.changed.notify_waiters();
        }
    }

    /// Whether readers have taken most of the bytes that were requested: they leave out what is between them.
    pub(crate) fn is_used(&self) -> bool {
        self.state.lock().taken >= self.used_from()
    }

    const fn used_from(&self) -> u64 {
        self.wanted_len - self.wanted_len / 4
    }

    /// Resolves when [`Self::is_used`] is true, at once if it is.
    pub(crate) async fn used(&self) {
        self.when(|| self.is_used().then_some(())).await;
    }

    /// Like [`Fill::take`], but bytes in memory only if they will not be written to the disk any more.
    ///
    /// # Errors
    /// As [`Fill::take`].
    pub(crate) async fn take_settled(&self, range: ByteRange) -> Result<Supply, Error> {
        // Only whole blocks are written.
        self.want_all();
        let settled = |supply: &Result<Supply, Error>| !matches!(supply, Ok(Supply::Memory(_))) || self.has_ended();
        self.when(|| self.take_now(range).filter(settled)).await
    }

    fn has_ended(&self) -> bool {
        self.state.lock().end.is_some()
    }

    /// Waits until `look` finds what it looks for.
    async fn when<T>(&self, look: impl Fn() -> Option<T>) -> T {
        loop {
            let mut changed = pin!(self.changed.notified());
            // Registered before the look: bytes that arrive in between wake this reader.
            changed.as_mut().enable();
            if let Some(found) = look() {
                return found;
            }
            changed.await;
        }
    }

    /// Waits until the fill has ended, one way or the other. This alone does not request the deferred bytes.
    pub(crate) async fn ended(&self) {
        // How it ended is not asked.
        let _ = self.result().await;
    }

    pub(crate) fn outcome(&self) -> Option<Result<(), Error>> {
        self.state.lock().end.clone()
    }

    /// Waits until the fill has ended, and returns its result.
    ///
    /// # Errors
    /// When it failed.
    pub(crate) async fn result(&self) -> Result<(), Error> {
        self.when(|| self.outcome()).await
    }

    fn take_now(&self, range: ByteRange) -> Option<Result<Supply, Error>> {
        let state = self.state.lock();
        let part = state.parts.iter().find(|part| part.range.contains(range.start()))?;
        // Checked before the end: bytes that arrived before a failure are good.
        if part.arrived > range.start() {
            return Some(Ok(part.supply(range)));
        }
        match &state.end {
            None => None,
            Some(Err(error)) => Some(Err(error.clone())),
            // The place where it would be: the reader finds it missing there and plans again.
            Some(Ok(())) if state.is_cut => Some(Ok(Supply::OnDisk)),
            Some(Ok(())) => Some(Err(Error::Internal { what: "a fill ended before its last byte" })),
        }
    }

    /// The ranges asked for, in order: from the first wanted bytes to the end, then what lies before.
    pub(crate) fn requests(&self) -> Vec<ByteRange> {
        self.state.lock().parts.iter().map(|part| part.range).collect()
    }

    /// The requests to send at once, and those to send when the link has room or a reader requests the bytes.
    pub(crate) fn stages(&self) -> (Stage, Stage) {
        let mut urgent = Stage::new();
        let mut rest = Stage::new();
        for (part_index, range) in self.requests().into_iter().enumerate() {
            match range.intersection(self.urgent) {
                Some(now) if now.end() < range.end() => {
                    urgent.push((part_index, now));
                    rest.push((part_index, ByteRange::between(now.end(), range.end())));
                }
                Some(now) => urgent.push((part_index, now)),
                None => rest.push((part_index, range)),
            }
        }
        (urgent, rest)
    }

    /// Notes that a reader requests `range`: deferred bytes of it are fetched now.
    pub(crate) fn want(&self, range: ByteRange) {
        // The common reader wants only urgent bytes and sends no notification.
        if range.start() < self.urgent.start() || self.urgent.end() < range.end() {
            self.want_all();
        }
    }

    pub(crate) fn want_all(&self) {
        // One permit is kept if the driver does not wait yet: the request is not lost.
        self.rest_wanted.notify_one();
    }

    /// Resolves when a reader requests deferred bytes.
    pub(crate) async fn rest_wanted(&self) {
        self.rest_wanted.notified().await;
    }

    /// Gives up the deferred bytes. Bytes that have arrived stay available.
    pub(crate) fn cut(&self) {
        self.state.lock().is_cut = true;
    }

    /// Appends bytes to a part; returns the end of what has arrived.
    pub(crate) fn add(&self, part_index: usize, arrival: Arrival) -> Result<u64, Error> {
        let mut state = self.state.lock();
        let part = state.parts.get_mut(part_index).ok_or(Error::Internal { what: "a fill has no such part" })?;
        let range = ByteRange::at(part.arrived, arrival.bytes.len() as u64);
        if range.end() > part.range.end() {
            return Err(Error::Internal { what: "an origin sent more than it was asked for" });
        }
        part.chunks.push_back(Chunk { range, arrival });
        part.arrived = range.end();
        // Released before the readers wake up: they lock it at once.
        drop(state);
        self.changed.notify_waiters();
        Ok(range.end())
    }

    /// Bytes that have arrived so far.
    pub(crate) fn arrived_bytes(&self) -> u64 {
        self.state.lock().parts.iter().map(|part| part.arrived - part.range.start()).sum()
    }

    /// Whether a part is there up to `end`.
    pub(crate) fn has_arrived(&self, part_index: usize, end: u64) -> bool {
        self.state.lock().parts.get(part_index).is_some_and(|part| part.arrived == end)
    }

    /// The bytes of `range`, all of which have arrived, in pieces.
    pub(crate) fn collect(&self, range: ByteRange) -> Vec<Bytes> {
        let state = self.state.lock();
        state.chunks().filter_map(|chunk| chunk.within(range)).collect()
    }

    /// The CRC-32C of each of `blocks`, which follow each other and have all arrived; `None` for those that did not come as
    /// pages with checksums.
    pub(crate) fn sums(&self, blocks: &[ByteRange]) -> Vec<Option<u32>> {
        let state = self.state.lock();
        let start = blocks.first().map_or(0, |block| block.start());
        let chunks = state.chunks().filter(|chunk| chunk.range.end() > start);
        let mut pages = chunks.flat_map(|chunk| chunk.arrival.pages(chunk.range.start())).peekable();
        let sum_of = |block: &ByteRange| {
            let mut sum = 0;
            let mut end = block.start();
            while let Some((page, page_sum)) = pages.next_if(|(page, _)| page.end() <= block.end()) {
                // A page that does not follow the last one leaves a gap: the block gets no sum.
                if page.start() == end {
                    let is_whole = page.len() == PAGE;
                    sum = if is_whole {
                        WHOLE_PAGE.append(sum, page_sum)
                    } else {
                        crc32c_append(sum, page_sum, page.len())
                    };
                    end = page.end();
                }
            }
            (end == block.end()).then_some(sum)
        };
        blocks.iter().map(sum_of).collect()
    }

    /// Drops the chunks from memory that are on disk as a whole.
    pub(crate) fn release_memory(&self, is_on_disk: impl Fn(ByteRange) -> bool) {
        for part in &mut self.state.lock().parts {
            part.chunks.retain(|chunk| !is_on_disk(chunk.range));
        }
        self.changed.notify_waiters();
    }

    /// Ends the fill and wakes its readers with the outcome.
    pub(crate) fn end(&self, result: Result<(), Error>) {
        self.state.lock().end = Some(result);
        self.changed.notify_waiters();
    }
}

impl State {
    /// Chunks that have arrived and are still in memory, in order.
    fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        let mut parts: Vec<&Part> = self.parts.iter().collect();
        parts.sort_by_key(|part| part.range.start());
        parts.into_iter().flat_map(|part| part.chunks.iter())
    }
}

impl Part {
    fn new(range: ByteRange) -> Self {
        Self { range, arrived: range.start(), chunks: VecDeque::new() }
    }

    fn supply(&self, range: ByteRange) -> Supply {
        // Chunks follow each other, so a binary search finds the first one that ends after the start.
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
        Some(self.arrival.bytes.slice(from..to))
    }
}

#[cfg(test)]
mod tests;
