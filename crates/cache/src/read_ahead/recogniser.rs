//! Recognises patterns in the reads of one handle.

use crate::{
    Geometry,
    read_ahead::{bounds::ReadAheadBounds, passes::Passes, repeats::Repeats, runs::Runs},
};
use forebay_types::ByteRange;

/// Recognises what one handle of a file will read next.
///
/// Order of calls: [`Self::handle_read`] for each read that was not answered from the cache as a whole, [`Self::handle_hit`] for
/// reads in one of the [`Self::zones`]; both return the ranges to fetch ahead. Ranges that are not fetched are reported to
/// [`Self::handle_refusal`].
#[derive(Debug)]
pub struct Recogniser {
    geometry: Geometry,
    runs: Runs,
    strides: Repeats,
    vectors: Repeats,
    passes: Passes,
    /// Whether the last read was part of a run.
    is_in_run: bool,
}

/// Zones of one handle at most; more readers than that are not followed by their hits.
pub const ZONES_MAX: usize = 4;

/// A vector of which at least one byte in this many is read is taken for a read of all of it.
const DENSE: u64 = 2;

impl Recogniser {
    /// Knows nothing yet of the reads of a file.
    pub fn new(geometry: Geometry) -> Self {
        let (strides, vectors) = (Repeats::new(geometry), Repeats::new(geometry));
        let (runs, passes) = (Runs::new(geometry), Passes::new(geometry));
        Self { geometry, runs, strides, vectors, passes, is_in_run: false }
    }

    /// Notes a read of several ranges, or of one; what is to be fetched ahead: whole blocks within the file, in order of
    /// offset, no two with bytes in common.
    pub fn handle_read(&mut self, ranges: &[ByteRange], bounds: ReadAheadBounds) -> Vec<ByteRange> {
        let file_size = self.geometry.file_size();
        let ranges: Vec<_> =
            ranges.iter().map(|range| range.clipped_to(file_size)).filter(|it| !it.is_empty()).collect();
        if bounds.is_off() || ranges.is_empty() {
            return Vec::new();
        }
        let whole = as_one(&ranges);
        let in_run = whole.and_then(|read| self.runs.handle_read(read, bounds));
        self.is_in_run = in_run.is_some();
        match (in_run, whole) {
            (Some(advice), _) => some(advice),
            (None, Some(read)) if ranges.len() == 1 => {
                let in_pass = self.passes.handle_read(read, bounds);
                let advice = self.strides.handle_read(&ranges, bounds);
                if advice.is_empty() {
                    in_pass
                } else {
                    // A steady stride is surer.
                    self.passes.handle_refusal(0);
                    advice
                }
            }
            (None, Some(_)) => Vec::new(),
            (None, None) => self.vectors.handle_read(&ranges, bounds),
        }
    }

    /// Notes a read in one of the zones that was answered from the cache; what is to be fetched ahead, as for a read.
    pub fn handle_hit(&mut self, range: ByteRange, bounds: ReadAheadBounds) -> Vec<ByteRange> {
        if bounds.is_off() || range.is_empty() {
            return Vec::new();
        }
        self.is_in_run = self.runs.zones().any(|zone| zone.intersection(range).is_some());
        if self.is_in_run {
            return self.runs.handle_read(range, bounds).map_or_else(Vec::new, some);
        }
        let in_pass = match self.passes.zone().and_then(|zone| zone.intersection(range)) {
            Some(_) => self.passes.handle_read(range, bounds),
            None => Vec::new(),
        };
        let advice = self.vectors.handle_hit(range, bounds);
        let advice = if advice.is_empty() { self.strides.handle_hit(range, bounds) } else { advice };
        if advice.is_empty() { in_pass } else { advice }
    }

    /// Ranges to fetch ahead, `len` bytes or the rest of the file, while no reader waits for other bytes: the reader works on
    /// what it has read.
    pub fn handle_spare_time(&mut self, bounds: ReadAheadBounds, len: u64) -> Option<ByteRange> {
        if self.is_in_run { self.runs.handle_spare_time(bounds, len) } else { None }
    }

    /// Notes that `refused`, which was to be fetched in spare time, is not.
    pub fn handle_spare_refusal(&mut self, refused: ByteRange) {
        self.runs.handle_refusal(refused);
    }

    /// Whether there is enough to fetch ahead in spare time.
    pub fn has_spare(&self, bounds: ReadAheadBounds) -> bool {
        self.is_in_run && self.runs.has_spare(bounds)
    }

    /// Notes that `refused`, which the last advice named, is not fetched.
    pub fn handle_refusal(&mut self, refused: ByteRange) {
        self.runs.handle_refusal(refused);
        self.strides.handle_refusal(refused.start());
        self.vectors.handle_refusal(refused.start());
        self.passes.handle_refusal(refused.start());
    }

    /// Ranges in which a read, even a hit, shows that more is to be fetched ahead.
    pub fn zones(&self) -> impl Iterator<Item = ByteRange> {
        let repeats = [&self.vectors, &self.strides].into_iter().filter_map(|repeats| repeats.zone());
        repeats.chain(self.passes.zone()).chain(self.runs.zones()).take(ZONES_MAX)
    }

    /// Bytes that were to be fetched ahead and that their reader has not come to.
    pub fn expected(&self) -> u64 {
        self.runs.expected() + self.strides.expected() + self.vectors.expected() + self.passes.expected()
    }
}

/// A read as one range: it is one, or it leaves out little.
fn as_one(ranges: &[ByteRange]) -> Option<ByteRange> {
    let start = ranges.iter().map(|range| range.start()).min()?;
    let hull = ByteRange::between(start, ranges.iter().map(|range| range.end()).max()?);
    let bytes = ranges.iter().fold(0_u64, |sum, range| sum.saturating_add(range.len()));
    (bytes.saturating_mul(DENSE) >= hull.len()).then_some(hull)
}

fn some(range: ByteRange) -> Vec<ByteRange> {
    if range.is_empty() { Vec::new() } else { vec![range] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_ahead::{ReadAheadSettings, Worth};
    use proptest::prelude::*;

    const BLOCK: u64 = 4096;
    const MIB: u64 = 1 << 20;

    fn bounds(window_max: u64) -> ReadAheadBounds {
        let settings = ReadAheadSettings { window_max, ..ReadAheadSettings::default() };
        ReadAheadBounds::new(&settings, Some(u64::MAX), Worth::Full)
    }

    #[test]
    fn a_dense_vector_is_a_read_of_all_of_it() {
        let mut recogniser = Recogniser::new(Geometry::new(BLOCK, 10 * MIB).unwrap());
        let vector = |at: u64| [ByteRange::at(at, 8 * BLOCK), ByteRange::at(at + 12 * BLOCK, 4 * BLOCK)];
        for at in [0, 16 * BLOCK] {
            assert!(recogniser.handle_read(&vector(at), bounds(MIB)).is_empty());
        }
        assert_eq!(recogniser.handle_read(&vector(32 * BLOCK), bounds(MIB)), [ByteRange::at(48 * BLOCK, 16 * BLOCK)]);
    }

    #[test]
    fn nothing_is_advised_when_reading_ahead_is_off() {
        let mut recogniser = Recogniser::new(Geometry::new(BLOCK, 10 * MIB).unwrap());
        for at in 0..10 {
            assert!(recogniser.handle_read(&[ByteRange::at(at * BLOCK, BLOCK)], bounds(0)).is_empty());
        }
    }

    /// Where the parts of 320 columns lie in each of 28 clusters: lengths vary by a quarter. As ROOT writes them, the first cluster is
    /// followed by short parts, because its buffers were full a little before its end.
    fn parts() -> Vec<Vec<u64>> {
        let (mut offset, mut seed) = (1000_u64, 1_u64);
        let mut part = |len: u64| {
            seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            offset += len + (seed >> 33) % (len / 3);
            offset
        };
        (0..29).map(|cluster| (0..320).map(|_| part(if cluster == 1 { 90 } else { 22_700 })).collect()).collect()
    }

    /// The reads of the headers of one column after the other that are not answered from the cache, and the blocks that are fetched.
    fn missed_headers(columns: &[usize]) -> (usize, usize) {
        let parts = parts();
        let geometry = Geometry::new(16 * BLOCK, 320 * 28 * 30_200 + 50_000).unwrap();
        let mut recogniser = Recogniser::new(geometry);
        let (mut blocks, mut missed) = (std::collections::BTreeSet::new(), 0);
        for column in columns {
            for cluster in &parts {
                let read = ByteRange::at(cluster[*column], 34);
                let bounds = bounds(32 * MIB);
                let advice = if geometry.blocks_of(read).all(|block| blocks.contains(&block)) {
                    let is_reported = recogniser.zones().any(|zone| zone.intersection(read).is_some());
                    if is_reported { recogniser.handle_hit(read, bounds) } else { Vec::new() }
                } else {
                    missed += 1;
                    blocks.extend(geometry.blocks_of(read));
                    recogniser.handle_read(&[read], bounds)
                };
                blocks.extend(advice.into_iter().flat_map(|range| geometry.blocks_of(range)));
            }
        }
        (missed, blocks.len())
    }

    #[test]
    fn headers_of_one_column_after_the_other_are_found_mostly() {
        for columns in [[13, 37, 148, 272, 285], [5, 90, 160, 240, 310], [37, 148, 13, 272, 285]] {
            let (missed, fetched) = missed_headers(&columns);
            assert!(missed < 75, "{columns:?}: {missed} of 145");
            assert!(fetched < 210, "{columns:?}: {fetched} for 145 headers");
        }
    }

    /// A read that is likely to be part of a pattern.
    fn reads() -> impl Strategy<Value = Vec<Vec<ByteRange>>> {
        let range = (0_u64..600, 1_u64..100).prop_map(|(start, len)| ByteRange::at(start * 1024, len * 1024));
        let sequence = (0_u64..600, 1_u64..60, 0_u64..90, 1_usize..20).prop_map(|(start, len, step, count)| {
            let starts = (0..).map(|index| start + index * step).take(count);
            starts.map(|start| vec![ByteRange::at(start * 1024, len * 1024)]).collect::<Vec<_>>()
        });
        let vectors = (prop::collection::vec(range, 1..6), 0_u64..90, 1_usize..8).prop_map(|(shape, step, count)| {
            let shift = |by: u64| shape.iter().map(|it| ByteRange::at(it.start() + by * 1024, it.len())).collect();
            (0..).map(|index| shift(index * step)).take(count).collect::<Vec<_>>()
        });
        prop::collection::vec(prop_oneof![sequence, vectors], 1..6).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn advice_is_aligned_within_the_file_disjoint_and_bounded(
            reads in reads(),
            file_size in 1_u64..600_000,
            window_max in 0_u64..400_000,
            refuses in any::<bool>(),
        ) {
            let mut recogniser = Recogniser::new(Geometry::new(BLOCK, file_size).unwrap());
            for read in &reads {
                let mut advice = recogniser.handle_read(read, bounds(window_max));
                let hit = recogniser.zones().next().map(|zone| ByteRange::at(zone.start(), 10));
                prop_assert!(recogniser.zones().count() <= ZONES_MAX);
                if let Some(hit) = hit {
                    let more = recogniser.handle_hit(hit, bounds(window_max));
                    advice = if more.is_empty() { advice } else { more };
                }
                prop_assert!(advice.iter().map(|range| range.len()).sum::<u64>() <= window_max);
                prop_assert!(advice.windows(2).all(|pair| pair[0].end() <= pair[1].start()));
                for range in &advice {
                    prop_assert!(range.start() % BLOCK == 0 && !range.is_empty());
                    prop_assert!(range.end() <= file_size && (range.end() % BLOCK == 0 || range.end() == file_size));
                }
                if refuses && let Some(last) = advice.last() {
                    recogniser.handle_refusal(*last);
                }
            }
        }
    }
}
