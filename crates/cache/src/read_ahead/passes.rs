//! Recognising passes: single short reads that go forward through the file, again and again from its beginning.
//!
//! A program that reads the headers of all parts of one column, and then those of the next, has a pass for each column. Distances within
//! a pass vary, so no stride is found; the next pass has about the same ones.

use crate::{Geometry, read_ahead::bounds::ReadAheadBounds};
use forebay_types::ByteRange;
use std::collections::VecDeque;

/// Passes of one handle.
#[derive(Debug)]
pub(crate) struct Passes {
    geometry: Geometry,
    /// Offsets of the reads of the pass before the current one, in order.
    last: Vec<u64>,
    /// Those of the current one.
    current: Vec<u64>,
    /// The place in the last pass of the latest read.
    place: usize,
    /// By how much the latest reads are shifted against the last pass. Each is off by chance.
    shifts: VecDeque<i64>,
    /// Reads of the current pass in a row that came where the last one says.
    streak: u32,
    /// Whole blocks that were to be fetched ahead and that the reader has not come to, in order.
    ahead: Vec<ByteRange>,
}

/// Reads of a pass at least.
const READS_MIN: usize = 8;

/// Reads of a pass that are remembered; a longer one is not followed.
const READS_MAX: usize = 4096;

/// Reads that must have come where the last pass says before any is fetched ahead.
const STREAK_MIN: u32 = 2;

/// Reads that are fetched ahead.
const AHEAD_MAX: usize = 16;

/// Reads by which the shift between two passes is judged.
const SHIFTS: usize = 9;

/// Blocks by which a read may be off its place.
const SLACK_BLOCKS: u64 = 2;

/// Part of a block on both sides of an expected read that is fetched as well, at most. More would be in vain too often: a file of which
/// half is read in vain is not read ahead any more.
const MARGIN_PART: u64 = 8;

impl Passes {
    pub(crate) const fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            last: Vec::new(),
            current: Vec::new(),
            place: 0,
            shifts: VecDeque::new(),
            streak: 0,
            ahead: Vec::new(),
        }
    }

    /// Notes a single read; what is to be fetched ahead.
    pub(crate) fn handle_read(&mut self, range: ByteRange, bounds: ReadAheadBounds) -> Vec<ByteRange> {
        let offset = range.start();
        if range.len() > self.geometry.block_size() {
            *self = Self::new(self.geometry);
            return Vec::new();
        }
        let is_placed = self.enter(offset);
        self.ahead.retain(|blocks| blocks.start() > offset);
        if is_placed && self.streak >= STREAK_MIN { self.advance(offset, bounds) } else { Vec::new() }
    }

    /// Takes back what was to be fetched ahead from `from` on.
    pub(crate) fn handle_refusal(&mut self, from: u64) {
        self.ahead.retain(|blocks| blocks.start() < from);
    }

    /// Range in which a read shows that more is to be fetched ahead.
    pub(crate) fn zone(&self) -> Option<ByteRange> {
        let from = self.current.last()?.checked_add(1)?;
        Some(ByteRange::between(from, self.ahead.last()?.end()))
    }

    /// Bytes that were to be fetched ahead and that the reader has not come to.
    pub(crate) fn expected(&self) -> u64 {
        self.ahead.iter().map(|blocks| blocks.len()).sum()
    }

    /// Notes the offset of a read; whether it came where the last pass says.
    fn enter(&mut self, offset: u64) -> bool {
        match self.current.last() {
            Some(before) if *before == offset => return false,
            Some(before) if *before > offset => self.begin_pass(),
            _ => {}
        }
        if self.current.len() >= READS_MAX {
            *self = Self::new(self.geometry);
        }
        let is_placed = self.find_place(offset);
        self.current.push(offset);
        is_placed
    }

    fn begin_pass(&mut self) {
        // A short pass is none: the one before it stays.
        if self.current.len() >= READS_MIN {
            self.last = std::mem::take(&mut self.current);
        }
        self.current.clear();
        self.ahead.clear();
        self.shifts.clear();
        (self.place, self.streak) = (0, 0);
    }

    /// Finds the place of a read in the last pass: the one whose shift is next to that of the reads before. Reads that the cache
    /// answered in between are not seen, so places are not counted.
    fn find_place(&mut self, offset: u64) -> bool {
        let Some(shift) = self.shift() else {
            return self.begin_at(offset);
        };
        let target = offset.saturating_add_signed(shift.saturating_neg());
        let after = self.last.partition_point(|it| *it < target);
        let candidates = after.saturating_sub(1).max(self.place + 1)..self.last.len().min(after + 1);
        let distance = |place: usize| self.last.get(place).map_or(u64::MAX, |it| it.abs_diff(target));
        let slack = self.geometry.block_size().saturating_mul(SLACK_BLOCKS);
        let nearest = candidates.min_by_key(|place| distance(*place)).filter(|place| distance(*place) <= slack);
        let Some((place, before)) = nearest.and_then(|place| Some((place, *self.last.get(place)?))) else {
            self.streak = 0;
            return false;
        };
        self.place = place;
        self.streak = self.streak.saturating_add(1);
        if self.shifts.len() == SHIFTS {
            self.shifts.pop_front();
        }
        self.shifts.push_back(shift_between(before, offset));
        true
    }

    /// Finds the place of the first read of a pass: programs read columns in the order in which they lie in the file.
    fn begin_at(&mut self, offset: u64) -> bool {
        if !self.current.is_empty() || self.last.is_empty() {
            return false;
        }
        self.place = self.last.partition_point(|it| *it <= offset).saturating_sub(1);
        self.shifts.extend(self.last.get(self.place).map(|before| shift_between(*before, offset)));
        self.streak = 1;
        true
    }

    /// How far the current pass is shifted against the last one: the median of some reads.
    fn shift(&self) -> Option<i64> {
        if self.shifts.is_empty() {
            return None;
        }
        // An array: reads that are not answered from the cache allocate nothing here.
        let mut sorted = [i64::MAX; SHIFTS];
        sorted.iter_mut().zip(&self.shifts).for_each(|(it, shift)| *it = *shift);
        sorted.sort_unstable();
        sorted.get(self.shifts.len() / 2).copied()
    }

    /// Half of the distance between the shifts of the latest reads: the next one may be off by so much.
    fn margin(&self) -> u64 {
        let (low, high) = (self.shifts.iter().min(), self.shifts.iter().max());
        let spread = low.zip(high).map_or(0, |(low, high)| high.abs_diff(*low));
        (spread / 2).min(self.geometry.block_size() / MARGIN_PART)
    }

    /// The blocks of the reads after the one at `offset`, as the last pass has them.
    fn advance(&mut self, offset: u64, bounds: ReadAheadBounds) -> Vec<ByteRange> {
        let Some(shift) = self.shift() else { return Vec::new() };
        let (block, margin) = (self.geometry.block_size(), self.margin());
        // More of them the longer the shift holds.
        let ahead_max = usize::try_from(self.streak).unwrap_or(AHEAD_MAX).min(AHEAD_MAX);
        let bytes_max = block.saturating_mul(ahead_max as u64).min(bounds.max());
        let mut from = self.geometry.range_of(self.geometry.index_of(offset)).end();
        let mut next: Vec<ByteRange> = Vec::new();
        for later in self.last.iter().skip(self.place + 1).take(ahead_max) {
            let Some(expected) = later.checked_add_signed(shift) else { continue };
            if expected >= self.geometry.file_size() {
                break;
            }
            // Blocks that were named before for this read stay, although the place is known better now.
            let slack = block.saturating_mul(SLACK_BLOCKS);
            if let Some(named) = self.ahead.iter().find(|blocks| blocks.start().abs_diff(expected) <= slack) {
                from = from.max(named.end());
                continue;
            }
            let blocks = self.blocks_of(expected, margin, from);
            if self.expected().saturating_add(blocks.len()) > bytes_max {
                break;
            }
            if !blocks.is_empty() {
                from = blocks.end();
                self.ahead.push(blocks);
                self.ahead.sort_unstable_by_key(|blocks| blocks.start());
                next.push(blocks);
            }
        }
        next
    }

    /// The blocks from `from` on in which a read that is expected at an offset lies.
    fn blocks_of(&self, expected: u64, margin: u64, from: u64) -> ByteRange {
        let last = expected.saturating_add(margin).min(self.geometry.file_size() - 1);
        let range_at = |offset: u64| self.geometry.range_of(self.geometry.index_of(offset));
        let start = range_at(expected.saturating_sub(margin)).start().max(from);
        ByteRange::between(start, range_at(last).end().max(start))
    }
}

const fn shift_between(before: u64, now: u64) -> i64 {
    now.cast_signed().wrapping_sub(before.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_ahead::{ReadAheadSettings, Worth};

    const BLOCK: u64 = 64 << 10;
    const CLUSTER: u64 = 8 << 20;
    const CLUSTERS: u64 = 28;

    fn bounds() -> ReadAheadBounds {
        ReadAheadBounds::new(&ReadAheadSettings::default(), Some(4 << 20), Worth::Full)
    }

    /// The place of a column's part in a cluster; lengths vary by some percent.
    fn place(column: u64, cluster: u64) -> u64 {
        let jitter = |number: u64, by: u64| (number * 7919 + 13) % by;
        cluster * CLUSTER + jitter(cluster, 120_000) + column * 27_000 + jitter(cluster * 31 + column, 20_000)
    }

    #[test]
    fn most_reads_of_a_later_pass_are_fetched_before_they_come() {
        let mut passes = Passes::new(Geometry::new(BLOCK, CLUSTER * (CLUSTERS + 1)).unwrap());
        let (mut fetched, mut used) = (Vec::new(), 0);
        for column in [37, 148, 13] {
            for cluster in 0..CLUSTERS {
                let read = ByteRange::at(place(column, cluster), 34);
                used += usize::from(fetched.iter().any(|it: &ByteRange| it.contains(read.start())));
                let advised = passes.handle_read(read, bounds());
                assert!(column != 37 || advised.is_empty(), "the first pass shows nothing");
                fetched.extend(advised);
            }
        }
        assert!(used * 2 > fetched.len() && used > 30, "{used} of {}", fetched.len());
    }

    #[test]
    fn reads_by_chance_lead_to_nothing() {
        let mut passes = Passes::new(Geometry::new(BLOCK, 1 << 30).unwrap());
        let mut advised = 0;
        for index in 0..2000_u64 {
            let offset = index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 34;
            advised += passes.handle_read(ByteRange::at(offset, 100), bounds()).len();
        }
        assert_eq!(advised, 0);
    }

    #[test]
    fn what_is_refused_is_not_expected() {
        let mut passes = Passes::new(Geometry::new(BLOCK, CLUSTER * (CLUSTERS + 1)).unwrap());
        let reads =
            |column: u64| (0..CLUSTERS).map(move |cluster| ByteRange::at(cluster * CLUSTER + column * BLOCK, 34));
        reads(1).for_each(|read| assert!(passes.handle_read(read, bounds()).is_empty()));
        let mut second = reads(2);
        assert!(passes.handle_read(second.next().unwrap(), bounds()).is_empty());
        let advised = passes.handle_read(second.next().unwrap(), bounds());
        assert_eq!(advised.len(), 2);
        assert_eq!(passes.expected(), 2 * BLOCK);
        assert!(passes.zone().is_some_and(|zone| advised.iter().all(|it| zone.intersection(*it) == Some(*it))));
        passes.handle_refusal(advised[1].start());
        assert_eq!(passes.expected(), BLOCK);
    }
}
