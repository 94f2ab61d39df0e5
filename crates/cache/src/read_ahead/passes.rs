//! Recognising passes: single short reads that go forward through the file, again and again from its beginning.
//!
//! A program that reads the headers of all parts of one column, and then those of the next, has a pass for each column. Distances within
//! a pass vary, so no stride is found; the next pass has about the same ones.

use crate::{Geometry, read_ahead::bounds::ReadAheadBounds};
use forebay_types::ByteRange;

/// Passes of one handle.
#[derive(Debug)]
pub(crate) struct Passes {
    geometry: Geometry,
    /// Offsets of the reads of the pass before the current one, in order.
    last: Vec<u64>,
    /// Those of the current one.
    current: Vec<u64>,
    /// Reads of the current pass in a row that came where the last one says.
    streak: u32,
    /// Blocks that were to be fetched ahead, by their offsets in order, and that the reader has not come to.
    ahead: Vec<u64>,
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

impl Passes {
    pub(crate) const fn new(geometry: Geometry) -> Self {
        Self { geometry, last: Vec::new(), current: Vec::new(), streak: 0, ahead: Vec::new() }
    }

    /// Notes a single read; what is to be fetched ahead.
    pub(crate) fn handle_read(&mut self, range: ByteRange, bounds: ReadAheadBounds) -> Vec<ByteRange> {
        let offset = range.start();
        if range.len() > self.geometry.block_size() {
            *self = Self::new(self.geometry);
            return Vec::new();
        }
        let place = self.enter(offset);
        self.ahead.retain(|start| *start > offset);
        match place {
            Some(place) if self.streak >= STREAK_MIN => self.advance(offset, place, bounds),
            _ => Vec::new(),
        }
    }

    /// Takes back what was to be fetched ahead from `from` on.
    pub(crate) fn handle_refusal(&mut self, from: u64) {
        self.ahead.retain(|start| *start < from);
    }

    /// Range in which a read shows that more is to be fetched ahead.
    pub(crate) fn zone(&self) -> Option<ByteRange> {
        let from = self.current.last()?.checked_add(1)?;
        let end = self.geometry.range_of(self.geometry.index_of(*self.ahead.last()?)).end();
        Some(ByteRange::between(from, end))
    }

    /// Bytes that were to be fetched ahead and that the reader has not come to.
    pub(crate) fn expected(&self) -> u64 {
        (self.ahead.len() as u64).saturating_mul(self.geometry.block_size())
    }

    /// Notes the offset of a read; its place in the last pass, if there is one.
    fn enter(&mut self, offset: u64) -> Option<usize> {
        let before = self.current.last().copied();
        match before {
            Some(before) if before == offset => return None,
            Some(before) if before > offset => {
                // A short pass is none: the one before it stays.
                if self.current.len() >= READS_MIN {
                    self.last = std::mem::take(&mut self.current);
                }
                self.current.clear();
                self.ahead.clear();
                self.streak = 0;
            }
            _ => {}
        }
        if self.current.len() >= READS_MAX {
            *self = Self::new(self.geometry);
        }
        let place = self.place_of(offset);
        self.current.push(offset);
        place
    }

    /// The place of a read in the last pass: where the shift between the passes was about the same at the read before.
    fn place_of(&mut self, offset: u64) -> Option<usize> {
        let slack = self.geometry.block_size().saturating_mul(SLACK_BLOCKS);
        let Some(before) = self.current.last() else {
            self.streak = u32::from(!self.last.is_empty());
            return (!self.last.is_empty()).then_some(0);
        };
        let place = self.current.len();
        let step = self.last.get(place)?.checked_sub(*self.last.get(place - 1)?)?;
        let is_alike = step.abs_diff(offset - before) <= slack;
        self.streak = if is_alike { self.streak.saturating_add(1) } else { 0 };
        is_alike.then_some(place)
    }

    /// How far the current pass is shifted against the last one at `place`: the median of some reads, because each is off by chance.
    fn shift(&self, place: usize) -> Option<i64> {
        let pairs = self.current.iter().zip(&self.last).skip((place + 1).saturating_sub(SHIFTS)).take(SHIFTS);
        let mut shifts: Vec<i64> =
            pairs.map(|(now, before)| now.cast_signed().wrapping_sub(before.cast_signed())).collect();
        shifts.sort_unstable();
        shifts.get(shifts.len() / 2).copied()
    }

    /// The blocks of the next reads, as the last pass has them from `place` on.
    fn advance(&mut self, offset: u64, place: usize, bounds: ReadAheadBounds) -> Vec<ByteRange> {
        let Some(shift) = self.shift(place) else { return Vec::new() };
        let block = self.geometry.block_size();
        // More of them the longer the shift holds.
        let ahead_max = usize::try_from(self.streak).unwrap_or(AHEAD_MAX).min(AHEAD_MAX);
        let room = usize::try_from(bounds.max() / block).unwrap_or(usize::MAX).min(ahead_max);
        let mut next: Vec<ByteRange> = Vec::new();
        for later in self.last.iter().skip(place + 1).take(ahead_max) {
            let Some(expected) = later.checked_add_signed(shift) else { continue };
            if expected >= self.geometry.file_size() || self.ahead.len() >= room {
                break;
            }
            let blocks = self.geometry.range_of(self.geometry.index_of(expected));
            // A block that was named before for this read stays, although the place is known better now.
            let is_named =
                self.ahead.iter().any(|start| start.abs_diff(expected) <= block.saturating_mul(SLACK_BLOCKS));
            if !is_named && blocks.start() > offset {
                self.ahead.push(blocks.start());
                self.ahead.sort_unstable();
                next.push(blocks);
            }
        }
        next
    }
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
