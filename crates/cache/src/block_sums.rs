//! The known CRC-32C sums of a file's blocks.

use crate::{Crc32cAppend, Geometry, crc32c_append};
use forebay_types::BlockIndex;
use std::collections::{BTreeMap, BTreeSet};

/// Blocks whose sums are kept together: in memory, and where they are stored.
pub const SUMS_PER_CHUNK: u64 = 960;

/// Blocks whose sums are put together one by one: a table for them would cost more.
const APPENDS_WITHOUT_TABLE_MAX: u64 = 32;

/// Bits in a word of [`Chunk::known`].
const WORD_BITS: usize = u64::BITS as usize;

/// The sums of a file's blocks, in chunks that appear when the first of their sums is known.
#[derive(Debug, Default)]
pub struct BlockSums {
    chunks: BTreeMap<u64, Chunk>,
    /// Blocks whose sums were noted or forgotten since these were last taken to be stored.
    changed: BTreeSet<u64>,
    /// Chunks that were looked up where they are stored.
    loaded: BTreeSet<u64>,
}

/// The sums of up to [`SUMS_PER_CHUNK`] blocks that follow each other.
#[derive(Debug, Default)]
struct Chunk {
    /// As long as the last known one needs; 0 for those that are not known.
    sums: Vec<u32>,
    /// One bit for each sum that is known.
    known: [u64; 15],
}

impl BlockSums {
    /// The sum of block `index`, if it is known.
    pub fn get(&self, index: BlockIndex) -> Option<u32> {
        let (chunk, position) = place(index);
        self.chunks.get(&chunk)?.get(position)
    }

    /// Notes the sum of block `index`.
    pub fn set(&mut self, index: BlockIndex, sum: u32) {
        let (chunk, position) = place(index);
        self.chunks.entry(chunk).or_default().set(position, sum);
        self.changed.insert(index.0);
    }

    /// Whether the chunk of block `index` was looked up where sums are stored.
    pub fn is_loaded(&self, index: BlockIndex) -> bool {
        self.loaded.contains(&sum_chunk_of(index))
    }

    /// Takes in what is stored of chunk number `chunk`: sums by their position in it. Sums noted since the start are newer
    /// and stay.
    pub fn load(&mut self, chunk: u64, stored: impl IntoIterator<Item = (usize, u32)>) {
        self.loaded.insert(chunk);
        for (position, sum) in stored {
            let kept = self.chunks.entry(chunk).or_default();
            if kept.get(position).is_none() {
                kept.set(position, sum);
            }
        }
    }

    /// The CRC-32C of a file cut by `geometry`, when the sums of all of its blocks are known.
    pub fn of_file(&self, geometry: Geometry) -> Option<u32> {
        let is_worth_a_table = geometry.block_count() > APPENDS_WITHOUT_TABLE_MAX;
        let whole_block = is_worth_a_table.then(|| Crc32cAppend::of_len(geometry.block_size()));
        (0..geometry.block_count()).map(BlockIndex).try_fold(0, |sum, index| {
            let block_sum = self.get(index)?;
            let len = geometry.range_of(index).len();
            Some(match &whole_block {
                Some(whole_block) if len == geometry.block_size() => whole_block.append(sum, block_sum),
                _ => crc32c_append(sum, block_sum, len),
            })
        })
    }

    /// Sums to be stored: those that were noted since the last call.
    pub fn take_changed(&mut self) -> Vec<(BlockIndex, u32)> {
        let changed = std::mem::take(&mut self.changed).into_iter().map(BlockIndex);
        changed.filter_map(|index| Some((index, self.get(index)?))).collect()
    }
}

impl Chunk {
    fn get(&self, position: usize) -> Option<u32> {
        let word = self.known.get(position / WORD_BITS)?;
        if word >> (position % WORD_BITS) & 1 == 0 {
            return None;
        }
        self.sums.get(position).copied()
    }

    fn set(&mut self, position: usize, sum: u32) {
        let Some(word) = self.known.get_mut(position / WORD_BITS) else { return };
        *word |= 1 << (position % WORD_BITS);
        if self.sums.len() <= position {
            self.sums.resize(position + 1, 0);
        }
        if let Some(kept) = self.sums.get_mut(position) {
            *kept = sum;
        }
    }
}

/// The number of the chunk that block `index` is in.
pub const fn sum_chunk_of(index: BlockIndex) -> u64 {
    index.0 / SUMS_PER_CHUNK
}

/// The chunk of a block and its position in it.
fn place(index: BlockIndex) -> (u64, usize) {
    let position = usize::try_from(index.0 % SUMS_PER_CHUNK).expect("a remainder is below the divisor");
    (sum_chunk_of(index), position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_known_once_they_are_noted_also_when_they_are_zero() {
        let mut sums = BlockSums::default();
        for index in [0, 959, 960, 5_000_000] {
            assert_eq!(sums.get(BlockIndex(index)), None);
            sums.set(BlockIndex(index), u32::try_from(index).unwrap());
            assert_eq!(sums.get(BlockIndex(index)), Some(u32::try_from(index).unwrap()));
        }
        assert_eq!(sums.get(BlockIndex(1)), None);
        assert_eq!(sums.chunks[&1].sums.len(), 1, "a small file costs little");
    }

    #[test]
    fn the_sum_of_a_file_is_made_of_those_of_its_blocks() {
        let bytes: Vec<u8> = (0..60_000_u32).map(|at| u8::try_from(at * at % 251).unwrap()).collect();
        for len in [0, 1, 4096, 10_000, 60_000] {
            let (geometry, mut sums) = (Geometry::new(1000, len as u64).unwrap(), BlockSums::default());
            for (index, block) in (0..).zip(bytes[..len].chunks(1000)) {
                assert_eq!(sums.of_file(geometry), None);
                sums.set(BlockIndex(index), crc32c::crc32c(block));
            }
            if len > 0 {
                assert_eq!(sums.of_file(geometry), Some(crc32c::crc32c(&bytes[..len])), "{len}");
            }
        }
    }

    #[test]
    fn changed_sums_are_taken_once() {
        let mut sums = BlockSums::default();
        sums.set(BlockIndex(2000), 20);
        sums.set(BlockIndex(3), 29);
        sums.set(BlockIndex(3), 30);
        assert_eq!(sums.take_changed(), [(BlockIndex(3), 30), (BlockIndex(2000), 20)]);
        assert_eq!(sums.take_changed(), []);
        sums.load(2, [(0, 1)]);
        assert_eq!(sums.take_changed(), [], "what was loaded is stored");
    }

    #[test]
    fn noted_sums_win_over_loaded_ones() {
        let mut sums = BlockSums::default();
        sums.set(BlockIndex(3), 30);
        assert!(!sums.is_loaded(BlockIndex(4)));
        sums.load(0, [(3, 99), (4, 40), (960, 1)]);
        assert!(sums.is_loaded(BlockIndex(4)) && !sums.is_loaded(BlockIndex(960)));
        assert_eq!((sums.get(BlockIndex(3)), sums.get(BlockIndex(4))), (Some(30), Some(40)));
        assert_eq!(sums.get(BlockIndex(960)), None);
    }
}
