//! Recognising sequential reads, also those of several parallel streams.

use crate::{
    Geometry,
    read_ahead::bounds::{ReadAheadBounds, first_window},
};
use forebay_types::ByteRange;

/// Runs of bytes that one handle has read lately, the least recently used one first.
///
/// A read that begins where a run ends, or a little after it, makes it longer; a read that closes the gap between two runs joins
/// them. So the parallel reads of one copy are one run, in whatever order they come.
#[derive(Debug)]
pub(crate) struct Runs {
    geometry: Geometry,
    runs: Vec<Run>,
}

/// Bytes read one after the other.
#[derive(Debug)]
struct Run {
    start: u64,
    front: u64,
    /// Up to where bytes were fetched ahead; nothing is if it is not after `front`.
    ahead: u64,
    /// Reads that made the run longer at its end.
    steps: u32,
    /// How far the reader is read ahead of; 0 before the run was recognised.
    window: u64,
    /// How far beyond its front bytes were fetched in spare time, as of then.
    depth: u64,
    /// Other runs that have begun since a read touched this one: its reader may have left for good.
    begun_since: u32,
}

/// Runs remembered of one handle: enough for a reader that follows several branches of a tree at once.
const RUNS_MAX: usize = 8;

/// Reads that must have made a short run longer before it is read ahead of.
const STEPS_MIN: u32 = 2;

/// Length from which on one read that makes the run longer is enough, in bytes.
const LONG: u64 = 512 << 10;

/// A reader may leave out this part of what it reads: one byte in four.
const GAP_SHARE: u64 = 4;

/// A reader is read ahead of in spare time by so many times what it has read in one run, within what it may be read ahead of at all.
const SPARE_FACTOR: u64 = 4;

/// Length of a run from which on it is read ahead of in spare time, in bytes.
const SPARE_FROM: u64 = 1 << 20;

/// One fetch is at least one part in this many of the window, so that requests stay large.
const WINDOW_PARTS: u64 = 4;

impl Runs {
    pub(crate) const fn new(geometry: Geometry) -> Self {
        Self { geometry, runs: Vec::new() }
    }

    /// Notes a read. `None` if it continues no run; else the ranges to fetch ahead, perhaps none.
    pub(crate) fn handle_read(&mut self, read: ByteRange, bounds: ReadAheadBounds) -> Option<ByteRange> {
        let Some(index) = self.runs.iter().rposition(|run| run.touches(read, self.geometry)) else {
            self.begin(read);
            return None;
        };
        let mut run = self.runs.remove(index);
        let is_longer = run.take(read);
        self.join_others(&mut run);
        let advice = if is_longer { run.advance(read, self.geometry, bounds) } else { nothing(read) };
        self.runs.push(run);
        Some(advice)
    }

    /// Up to `len` bytes to fetch ahead while no reader waits for other bytes: of the run that was read last.
    pub(crate) fn handle_spare_time(&mut self, bounds: ReadAheadBounds, len: u64) -> Option<ByteRange> {
        let run = self.runs.last_mut()?;
        let len = len.max(self.geometry.block_size());
        let spare = run.spare(self.geometry, bounds, len)?;
        let end = aligned_down(spare.start().saturating_add(len), self.geometry).min(spare.end());
        (run.ahead, run.depth) = (end, end - run.front);
        Some(ByteRange::between(spare.start(), end))
    }

    /// Whether enough may be fetched ahead while no reader waits for other bytes.
    pub(crate) fn has_spare(&self, bounds: ReadAheadBounds) -> bool {
        let is_worth_it =
            |run: &Run| run.spare(self.geometry, bounds, run.spare_depth(bounds) / WINDOW_PARTS).is_some();
        self.runs.last().is_some_and(is_worth_it)
    }

    /// Takes back what was to be fetched ahead from `from` on.
    pub(crate) fn handle_refusal(&mut self, refused: ByteRange) {
        for run in &mut self.runs {
            if run.ahead == refused.end() {
                run.ahead = refused.start();
            }
        }
    }

    /// Range in which a read shows that more is to be fetched ahead.
    pub(crate) fn zones(&self) -> impl Iterator<Item = ByteRange> {
        self.runs.iter().filter_map(move |run| run.zone(self.geometry))
    }

    /// Bytes that were fetched ahead and that their readers are likely to come to: half as likely with each run begun since.
    pub(crate) fn expected(&self) -> u64 {
        let expected = |run: &Run| run.ahead.saturating_sub(run.front).checked_shr(run.begun_since).unwrap_or(0);
        self.runs.iter().map(expected).sum()
    }

    fn begin(&mut self, read: ByteRange) {
        if self.runs.len() >= RUNS_MAX {
            self.runs.remove(0);
        }
        for run in &mut self.runs {
            run.begun_since = run.begun_since.saturating_add(1);
        }
        let start = read.start();
        let front = read.end();
        self.runs.push(Run { start, front, ahead: 0, steps: 0, window: 0, depth: 0, begun_since: 0 });
    }

    fn join_others(&mut self, run: &mut Run) {
        let geometry = self.geometry;
        self.runs.retain(|other| {
            let is_joined = run.touches(ByteRange::between(other.start, other.front), geometry);
            if is_joined {
                run.join(other);
            }
            !is_joined
        });
    }
}

impl Run {
    /// Whether `read` lies in the run, or continues it at either end.
    const fn touches(&self, read: ByteRange, geometry: Geometry) -> bool {
        let fetched = aligned_up(self.front, geometry);
        let reach = if self.ahead > fetched { self.ahead } else { fetched };
        let len = self.front - self.start;
        let shorter = if read.len() < len { read.len() } else { len };
        read.start() <= reach.saturating_add(shorter / GAP_SHARE) && aligned_up(read.end(), geometry) >= self.start
    }

    /// Takes a read in; whether it made the run longer at its end.
    fn take(&mut self, read: ByteRange) -> bool {
        let is_longer = read.end() > self.front;
        self.begun_since = 0;
        self.start = self.start.min(read.start());
        self.front = self.front.max(read.end());
        self.depth = self.depth.min(self.ahead.saturating_sub(self.front));
        self.steps = self.steps.saturating_add(u32::from(is_longer));
        is_longer
    }

    fn join(&mut self, other: &Self) {
        self.start = self.start.min(other.start);
        self.front = self.front.max(other.front);
        self.ahead = self.ahead.max(other.ahead);
        self.steps = self.steps.saturating_add(other.steps).saturating_add(1);
        self.window = self.window.max(other.window);
        self.depth = self.depth.max(other.depth);
    }

    const fn is_recognised(&self) -> bool {
        self.steps >= STEPS_MIN || (self.steps > 0 && self.front - self.start >= LONG)
    }

    /// The ranges to fetch ahead when the reader is at `read`.
    fn advance(&mut self, read: ByteRange, geometry: Geometry, bounds: ReadAheadBounds) -> ByteRange {
        if !self.is_recognised() {
            return nothing(read);
        }
        let wanted = if self.window == 0 {
            first_window(geometry.block_size()).max(read.len().saturating_mul(2))
        } else if read.start() < self.ahead {
            self.window.saturating_mul(2)
        } else {
            self.window
        };
        self.window = wanted.min(bounds.window(read.len(), geometry.block_size()));
        let end = aligned_up(read.start().saturating_add(self.window), geometry);
        let end = end.min(aligned_down(read.start().saturating_add(bounds.max()), geometry));
        let next = ByteRange::between(self.ahead.max(aligned_up(self.front, geometry)), end);
        let is_worth_a_request = next.len() >= self.window / WINDOW_PARTS || end == geometry.file_size();
        if next.is_empty() || !is_worth_a_request {
            return nothing(read);
        }
        self.ahead = end;
        next
    }

    /// The range to fetch ahead while no reader waits for other bytes; `None` for less than `len_min`, except at the end of the file.
    fn spare(&self, geometry: Geometry, bounds: ReadAheadBounds, len_min: u64) -> Option<ByteRange> {
        if !self.is_recognised() || self.front - self.start < SPARE_FROM {
            return None;
        }
        let from = self.ahead.max(aligned_up(self.front, geometry));
        let end = aligned_down(self.front.saturating_add(self.spare_depth(bounds)), geometry);
        let spare = ByteRange::between(from, end);
        let is_worth_a_request = spare.len() >= len_min || end == geometry.file_size();
        (!spare.is_empty() && is_worth_a_request).then_some(spare)
    }

    fn spare_depth(&self, bounds: ReadAheadBounds) -> u64 {
        (self.front - self.start).saturating_mul(SPARE_FACTOR).min(bounds.max())
    }

    fn zone(&self, geometry: Geometry) -> Option<ByteRange> {
        let reach = self.window.max(self.depth);
        let lead = reach - reach / WINDOW_PARTS;
        let zone = ByteRange::between(self.front.max(self.ahead.saturating_sub(lead)), self.ahead);
        (!zone.is_empty() && self.ahead < geometry.file_size()).then_some(zone)
    }
}

const fn nothing(read: ByteRange) -> ByteRange {
    ByteRange::at(read.end(), 0)
}

const fn aligned_down(offset: u64, geometry: Geometry) -> u64 {
    if offset < geometry.file_size() {
        offset / geometry.block_size() * geometry.block_size()
    } else {
        geometry.file_size()
    }
}

const fn aligned_up(offset: u64, geometry: Geometry) -> u64 {
    let end = offset.div_ceil(geometry.block_size()).saturating_mul(geometry.block_size());
    if end < geometry.file_size() { end } else { geometry.file_size() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_ahead::{ReadAheadSettings, Worth};

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    /// A file of 100 MiB and a bit in blocks of 64 KiB.
    fn geometry() -> Geometry {
        Geometry::new(64 * KIB, 100 * MIB + 5).unwrap()
    }

    fn bounds() -> ReadAheadBounds {
        let settings = ReadAheadSettings { window_max: 16 * MIB, ..ReadAheadSettings::default() };
        ReadAheadBounds::new(&settings, Some(4 * MIB), Worth::Full)
    }

    /// The ranges fetched ahead at each of `reads`, as start and end in KiB.
    fn follow(runs: &mut Runs, reads: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let ranges = reads.iter().filter_map(|(start, len)| {
            let read = ByteRange::at(start * KIB, len * KIB);
            runs.handle_read(read, bounds()).filter(|range| !range.is_empty())
        });
        ranges.map(|range| (range.start() / KIB, range.end() / KIB)).collect()
    }

    #[test]
    fn a_sequential_reader_is_read_ahead_of_with_a_growing_window() {
        let mut runs = Runs::new(geometry());
        assert_eq!(follow(&mut runs, &[(0, 64), (64, 64)]), []);
        assert_eq!(follow(&mut runs, &[(128, 64)]), [(192, 256)]);
        assert_eq!(follow(&mut runs, &[(192, 64)]), [(256, 448)]);
        assert_eq!(follow(&mut runs, &[(256, 64)]), [(448, 768)]);
        let reads: Vec<_> = (5..64).map(|index| (index * 64, 64)).collect();
        follow(&mut runs, &reads);
        assert!((3072 * KIB..=4096 * KIB).contains(&runs.expected()), "a window as the link wants it");
    }

    /// The ranges fetched ahead of a new reader.
    fn advice(reads: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
        follow(&mut Runs::new(geometry()), &reads.into_iter().collect::<Vec<_>>())
    }

    #[test]
    fn long_reads_are_recognised_at_the_second_short_ones_as_one_run_and_small_gaps_read_over() {
        assert_eq!(advice([(0, 1024), (1024, 1024)]), [(2048, 3072)]);
        assert_eq!(advice((0..33).map(|index| (index * 4, 4))).first(), Some(&(64, 192)));
        assert!(!advice((0..8).map(|index| (index * 320, 256))).is_empty());
    }

    #[test]
    fn parallel_streams_in_any_order_are_one_run() {
        let mut runs = Runs::new(geometry());
        follow(&mut runs, &[(2048, 1024), (0, 1024), (3072, 1024), (1024, 1024), (5120, 1024), (4096, 1024)]);
        assert_eq!(runs.runs.len(), 1);
        assert_eq!((runs.runs[0].start, runs.runs[0].front), (0, 6 * MIB));
    }

    #[test]
    fn large_gaps_and_reading_backwards_again_or_anywhere_lead_to_nothing() {
        assert_eq!(advice((0..8).map(|index| (index * 512, 256))), []);
        assert_eq!(advice((0..16).rev().map(|index| (index * 64, 64))), []);
        assert_eq!(advice([(640, 64); 16]), []);
        assert_eq!(advice((0..1000).map(|index| (index * 7919 % 1600 * 64, 32))), []);
        assert_eq!(advice([(0, 8192), (8192, 8192), (16384, 8192)]), [], "more than the window at once");
    }

    #[test]
    fn readers_of_one_handle_are_distinguished() {
        let advised = advice((0..6).flat_map(|index| [(index * 64, 64), (50_000 + index * 64, 64)]));
        assert!(advised.iter().any(|(start, _)| *start < 1000));
        assert!(advised.iter().any(|(start, _)| *start > 50_000));
    }

    #[test]
    fn a_reader_that_left_for_elsewhere_is_expected_less_and_less() {
        let mut runs = Runs::new(geometry());
        follow(&mut runs, &[(0, 1024), (1024, 1024)]);
        let expected = runs.expected();
        follow(&mut runs, &[(50_000, 64), (70_000, 64)]);
        assert_eq!(runs.expected(), expected / 4);
        follow(&mut runs, &[(1024, 64)]);
        assert_eq!(runs.expected(), expected);
    }

    #[test]
    fn refused_ranges_are_advised_again() {
        let mut runs = Runs::new(geometry());
        assert_eq!(follow(&mut runs, &[(0, 1024), (1024, 1024)]), [(2048, 3072)]);
        runs.handle_refusal(ByteRange::between(2048 * KIB, 3072 * KIB));
        assert_eq!((runs.expected(), runs.zones().count()), (0, 0));
        assert_eq!(follow(&mut runs, &[(2048, 1024)]), [(3072, 4096)]);
    }

    #[test]
    fn a_reader_of_a_long_run_is_read_ahead_in_idle_time() {
        let spare = |runs: &mut Runs| {
            std::iter::from_fn(|| runs.handle_spare_time(bounds(), 4 * MIB))
                .map(|range| (range.start() / MIB, range.end() / MIB))
                .collect::<Vec<_>>()
        };
        let mut runs = Runs::new(geometry());
        assert_eq!(follow(&mut runs, &[(0, 512), (512, 256)]).len(), 1);
        assert_eq!(spare(&mut runs), [], "too little");
        assert_eq!(follow(&mut runs, &[(768, 1280)]), []);
        assert_eq!(spare(&mut runs), [(2, 6), (6, 10)], "four times as much");
        assert!(!runs.has_spare(bounds()));
        let zones: Vec<_> = runs.zones().collect();
        assert_eq!(
            zones,
            [ByteRange::between(4 * MIB, 10 * MIB)],
            "a quarter of it is read before any is asked for again"
        );
        runs.handle_refusal(ByteRange::between(6 * MIB, 10 * MIB));
        assert_eq!(follow(&mut runs, &[(5120, 1024)]), [(6144, 7168)]);
        assert_eq!(
            spare(&mut runs),
            [(7, 11), (11, 15), (15, 19)],
            "whole pieces, and no more than a reader is read ahead of at all"
        );
    }

    #[test]
    fn a_zone_lies_where_a_quarter_of_the_window_is_used_up() {
        let mut runs = Runs::new(geometry());
        follow(&mut runs, &[(0, 1024), (1024, 1024)]);
        let zones: Vec<_> = runs.zones().collect();
        assert_eq!(zones, [ByteRange::between(2048 * KIB, 3072 * KIB)]);
    }

    #[test]
    fn the_end_of_the_file_is_the_end() {
        let mut runs = Runs::new(geometry());
        let end_kib = 100 * 1024;
        assert_eq!(
            follow(&mut runs, &[(end_kib - 2048, 1024), (end_kib - 1024, 960)]).last().map(|it| it.1),
            Some(end_kib)
        );
        assert_eq!(runs.zones().count(), 0);
        assert_eq!(runs.runs[0].ahead, geometry().file_size());
    }
}
