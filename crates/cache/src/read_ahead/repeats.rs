//! Recognising reads that repeat at a fixed distance: strides, and vectors of one shape.

use crate::{Geometry, read_ahead::bounds::ReadAheadBounds};
use forebay_types::ByteRange;

/// Reads of one handle that repeat: each is the one before it, shifted by a step.
#[derive(Debug)]
pub(crate) struct Repeats {
    geometry: Geometry,
    base: Vec<ByteRange>,
    /// From one read to the next; 0 before the second read.
    step: i64,
    /// Reads in a row that came where the step says.
    streak: u32,
    /// Reads after the last one that were fetched ahead.
    ahead: u64,
    /// How far the reader is read ahead of; 0 before the pattern was recognised.
    window: u64,
}

/// Reads that must have come where the step says before any is fetched ahead.
const STREAK_MIN: u32 = 2;

/// Reads fetched ahead at most, however small they are.
const AHEAD_MAX: u64 = 16;

/// Ranges of one vector that are looked at; the rest of a longer one is not fetched ahead.
const RANGES_MAX: usize = 1024;

impl Repeats {
    pub(crate) const fn new(geometry: Geometry) -> Self {
        Self { geometry, base: Vec::new(), step: 0, streak: 0, ahead: 0, window: 0 }
    }

    /// Notes a read of several ranges, or of one; what is to be fetched ahead.
    pub(crate) fn handle_read(&mut self, ranges: &[ByteRange], bounds: ReadAheadBounds) -> Vec<ByteRange> {
        let mut ranges: Vec<ByteRange> = ranges.iter().take(RANGES_MAX).copied().collect();
        ranges.sort_by_key(|range| range.start());
        if let Some(passed) = self.fetched_with(&ranges) {
            self.pass(passed);
        } else {
            self.compare(ranges);
        }
        if self.streak < STREAK_MIN {
            return Vec::new();
        }
        self.advance(bounds)
    }

    /// Notes that `range`, which was fetched ahead, was read; what is to be fetched ahead now.
    pub(crate) fn handle_hit(&mut self, range: ByteRange, bounds: ReadAheadBounds) -> Vec<ByteRange> {
        let is_of = |set: &u64| covered(&[range], &self.shifted(*set)) > 0;
        match (1..=self.ahead).find(is_of) {
            Some(passed) => {
                self.pass(passed);
                self.advance(bounds)
            }
            None => Vec::new(),
        }
    }

    /// Takes back what was to be fetched ahead from `from` on.
    pub(crate) fn handle_refusal(&mut self, from: u64) {
        let is_fetched = |set: &u64| hull(&self.shifted(*set)).is_none_or(|hull| hull.end() <= from);
        self.ahead = (1..=self.ahead).take_while(is_fetched).count() as u64;
    }

    /// Range in which a read shows that more is to be fetched ahead.
    pub(crate) fn zone(&self) -> Option<ByteRange> {
        let sets = self.ahead.div_ceil(2).max(1)..=self.ahead;
        let hulls = sets.filter_map(|set| hull(&self.shifted(set)));
        hulls.reduce(|a, b| ByteRange::between(a.start().min(b.start()), a.end().max(b.end())))
    }

    /// Bytes that were fetched ahead and that the reader has not come to.
    pub(crate) fn expected(&self) -> u64 {
        self.ahead.saturating_mul(total(&self.shifted(0)))
    }

    /// Which of the reads fetched ahead, or the last one itself, `ranges` are a part of.
    fn fetched_with(&self, ranges: &[ByteRange]) -> Option<u64> {
        let (first, base) = (ranges.first()?, self.base.first()?);
        if self.ahead == 0 {
            return None;
        }
        let near = distance(*base, *first)?.checked_div(self.step).and_then(|set| u64::try_from(set).ok()).unwrap_or(0);
        let sets = [0, near.saturating_sub(1), near, near + 1].into_iter().filter(|set| *set <= self.ahead);
        let mut sets = sets.map(|set| (covered(ranges, &self.shifted(set)), set));
        sets.find(|(covered, _)| covered.saturating_mul(2) >= total(ranges)).map(|(_, set)| set)
    }

    /// Advances by `sets` of the reads that were fetched ahead.
    fn pass(&mut self, sets: u64) {
        let by = self.step.saturating_mul(i64::try_from(sets).unwrap_or(i64::MAX));
        self.base = self.base.iter().filter_map(|range| shift(*range, by)).collect();
        self.ahead = self.ahead.saturating_sub(sets);
        if sets > 0 {
            self.window = self.window.saturating_mul(2);
        }
    }

    /// Compares a read that was not fetched ahead with the last one, and takes its place.
    fn compare(&mut self, ranges: Vec<ByteRange>) {
        let (Some(first), Some(last)) = (ranges.first(), self.base.first()) else {
            *self = Self { base: ranges, ..Self::new(self.geometry) };
            return;
        };
        let step = distance(*last, *first).unwrap_or(0);
        if step == 0 {
            return;
        }
        let span = hull(&ranges).map_or(0, ByteRange::len);
        let slack =
            if ranges.len() == 1 { self.geometry.block_size() / 4 } else { self.geometry.block_size().max(span / 8) };
        let is_steady = self.step != 0 && step.abs_diff(self.step) <= slack;
        let is_alike = covered(&ranges, &self.shifted_by(step)).saturating_mul(2) >= total(&ranges);
        self.streak =
            if is_steady && is_alike { self.streak.saturating_add(1) } else { u32::from(is_alike && ranges.len() > 1) };
        (self.base, self.step, self.ahead) = (ranges, step, 0);
        if self.streak < STREAK_MIN {
            self.window = 0;
        }
    }

    fn advance(&mut self, bounds: ReadAheadBounds) -> Vec<ByteRange> {
        let set_len = total(&self.shifted(0)).max(1);
        self.window = self.window.max(set_len).min(bounds.window(set_len, self.geometry.block_size()));
        let wanted = (self.window / set_len).min(AHEAD_MAX);
        let (mut next, mut bytes) = (Vec::new(), self.ahead.saturating_mul(set_len));
        while self.ahead < wanted {
            let set = self.shifted(self.ahead + 1);
            bytes = bytes.saturating_add(total(&set));
            if bytes > bounds.max() {
                break;
            }
            next.extend(set);
            self.ahead += 1;
        }
        disjoint(next)
    }

    /// The last read shifted by that many steps, in whole blocks of the file.
    fn shifted(&self, steps: u64) -> Vec<ByteRange> {
        self.shifted_by(self.step.saturating_mul(i64::try_from(steps).unwrap_or(i64::MAX)))
    }

    fn shifted_by(&self, by: i64) -> Vec<ByteRange> {
        let blocks = self.base.iter().filter_map(|range| shift(*range, by)).map(|range| self.geometry.widen(range));
        disjoint(blocks.filter(|range| !range.is_empty()).collect())
    }
}

/// `range` moved by a number of bytes; `None` when that is before the beginning.
fn shift(range: ByteRange, by: i64) -> Option<ByteRange> {
    range.start().checked_add_signed(by).map(|start| ByteRange::at(start, range.len()))
}

/// From the start of `a` to the start of `b`.
fn distance(a: ByteRange, b: ByteRange) -> Option<i64> {
    i64::try_from(b.start()).ok()?.checked_sub(i64::try_from(a.start()).ok()?)
}

fn total(ranges: &[ByteRange]) -> u64 {
    ranges.iter().map(|range| range.len()).sum()
}

/// From the first byte to the last of sorted ranges.
fn hull(ranges: &[ByteRange]) -> Option<ByteRange> {
    Some(ByteRange::between(ranges.first()?.start(), ranges.iter().map(|range| range.end()).max()?))
}

/// Sorted ranges with those that touch made one.
fn disjoint(mut ranges: Vec<ByteRange>) -> Vec<ByteRange> {
    ranges.sort_by_key(|range| range.start());
    ranges.dedup_by(|next, range| {
        let is_touching = next.start() <= range.end();
        if is_touching {
            *range = ByteRange::between(range.start(), range.end().max(next.end()));
        }
        is_touching
    });
    ranges
}

/// Bytes of `ranges` (sorted) that lie in `blocks` (sorted and disjoint).
fn covered(ranges: &[ByteRange], blocks: &[ByteRange]) -> u64 {
    let mut bytes = 0;
    for range in ranges {
        let from = blocks.partition_point(|block| block.end() <= range.start());
        let common = blocks.iter().skip(from).map_while(|block| block.intersection(*range));
        bytes += common.map(ByteRange::len).sum::<u64>();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_ahead::{ReadAheadSettings, Worth};

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    fn geometry() -> Geometry {
        Geometry::new(64 * KIB, 100 * MIB).unwrap()
    }

    fn bounds() -> ReadAheadBounds {
        ReadAheadBounds::new(&ReadAheadSettings::default(), Some(4 * MIB), Worth::Full)
    }

    fn vector(starts_kib: &[u64]) -> Vec<ByteRange> {
        starts_kib.iter().map(|start| ByteRange::at(start * KIB, 16 * KIB)).collect()
    }

    fn read(repeats: &mut Repeats, starts_kib: &[u64]) -> Vec<u64> {
        let advised = repeats.handle_read(&vector(starts_kib), bounds());
        advised.into_iter().map(|range| range.start() / KIB).collect()
    }

    /// After the reads by which a stride is recognised.
    fn striding() -> Repeats {
        let mut repeats = Repeats::new(geometry());
        for start in [0, 1024, 2048] {
            assert_eq!(read(&mut repeats, &[start]), []);
        }
        assert_eq!(read(&mut repeats, &[3072]), [4096]);
        repeats
    }

    #[test]
    fn a_stride_is_recognised_at_the_fourth_read() {
        let mut repeats = striding();
        assert_eq!(read(&mut repeats, &[4096]), [5120, 6144]);
    }

    #[test]
    fn a_stride_may_lead_backwards_to_the_beginning() {
        let mut repeats = Repeats::new(geometry());
        let advised: Vec<_> = (0..8).rev().map(|index| read(&mut repeats, &[index * 1024])).collect();
        assert_eq!(advised[3..6], [vec![3072], vec![1024, 2048], vec![0]]);
    }

    #[test]
    fn reads_without_a_step_lead_to_nothing() {
        let mut repeats = Repeats::new(geometry());
        for index in 0..1000 {
            assert_eq!(read(&mut repeats, &[index * index * 7919 % 100_000]), []);
        }
        for _ in 0..10 {
            assert_eq!(read(&mut repeats, &[640]), []);
        }
    }

    #[test]
    fn vectors_of_one_shape_are_recognised_at_the_third() {
        let mut repeats = Repeats::new(geometry());
        let shape = |at: u64| [at, at + 320, at + 650, at + 1280];
        assert_eq!(read(&mut repeats, &shape(0)), []);
        assert_eq!(read(&mut repeats, &shape(3200)), []);
        assert_eq!(read(&mut repeats, &shape(6400)), [9600, 9920, 10_240, 10_880]);
    }

    #[test]
    fn vectors_whose_steps_differ_a_little_are_recognised() {
        let mut repeats = Repeats::new(geometry());
        let shape = |at: u64| [at, at + 320, at + 704, at + 1280];
        let advised: Vec<_> =
            [0, 3200, 6420, 9610].into_iter().map(|at| read(&mut repeats, &shape(at)).len()).collect();
        assert!(advised[3] > 0, "{advised:?}");
    }

    #[test]
    fn vectors_of_other_shapes_lead_to_nothing() {
        let mut repeats = Repeats::new(geometry());
        for index in 0..100_u64 {
            let starts = [1, 2, 3, 4].map(|element| (index * 13 + element * element * (index % 7 + 1) * 331) % 90_000);
            assert_eq!(read(&mut repeats, &starts), [], "vector {index}");
        }
    }

    #[test]
    fn hits_in_fetched_ranges_continue_the_pattern() {
        let mut repeats = striding();
        let zone = repeats.zone().unwrap();
        assert_eq!(zone, ByteRange::at(4096 * KIB, 64 * KIB));
        let advised = repeats.handle_hit(ByteRange::at(4096 * KIB, KIB), bounds());
        assert_eq!(advised.first().map(|range| range.start() / KIB), Some(5120));
        assert!(repeats.handle_hit(ByteRange::at(50 * MIB, KIB), bounds()).is_empty());
    }

    #[test]
    fn a_part_of_a_vector_that_was_fetched_ahead_belongs_to_it() {
        let mut repeats = Repeats::new(geometry());
        for at in [0, 3200, 6400] {
            read(&mut repeats, &[at, at + 320, at + 704, at + 1280]);
        }
        let tail = [9600 + 704, 9600 + 1280];
        assert!(read(&mut repeats, &tail).contains(&12_800), "the next set is fetched");
    }

    #[test]
    fn the_window_grows_to_a_bounded_number_of_reads() {
        let mut repeats = Repeats::new(geometry());
        let mut most = 0;
        for index in 0..60 {
            read(&mut repeats, &[index * 512]);
            most = most.max(repeats.ahead);
        }
        assert_eq!(most, AHEAD_MAX);
        assert_eq!(repeats.expected(), AHEAD_MAX * 64 * KIB);
    }

    #[test]
    fn refused_ranges_do_not_count_as_fetched() {
        let mut repeats = striding();
        assert_eq!(read(&mut repeats, &[4096]), [5120, 6144]);
        repeats.handle_refusal(6144 * KIB);
        assert_eq!(repeats.expected(), 64 * KIB);
        repeats.handle_refusal(5120 * KIB);
        assert_eq!((repeats.expected(), repeats.zone()), (0, None));
        assert_eq!(read(&mut repeats, &[5120]), [6144, 7168]);
    }
}
