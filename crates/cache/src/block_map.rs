//! The shared map of a file's blocks, asked by every read.

use crate::{
    BlockSet, Cinfo, Geometry,
    block_set::{WORD_BITS, position},
};
use forebay_types::{BlockIndex, ByteRange};
use std::sync::atomic::{AtomicU64, Ordering};

/// Which blocks of a file are written to its data file, which of those may be given to clients, and which are known durable.
/// Shared by all handles of the file; every method takes `&self` and none waits.
///
/// A block is set written after its bytes are in the data file. Reading a set bit therefore makes those bytes visible to
/// the reader's thread. Blocks written by this process are trusted. Blocks found on disk are written, but not trusted before
/// they have been checked: [`Self::set_trusted`] if they are as written, [`Self::forget`] if not.
///
/// Sync goes: [`Self::snapshot_written`], sync the data file if the snapshot [`Self::has_unsynced`] blocks, write the snapshot
/// as the cinfo, [`Self::mark_synced`]. When the data file cannot be synced: [`Self::forget_unsynced`].
#[derive(Debug)]
pub struct BlockMap {
    geometry: Geometry,
    /// Cached here because the geometry needs a division for it.
    block_count: u64,
    words: Box<[Word]>,
    /// Number of written blocks; for an instant behind the bits while they change.
    written_count: AtomicU64,
    /// Number of trusted blocks, likewise; never above it.
    trusted_count: AtomicU64,
}

/// The state of 64 blocks. All maps of a file are one allocation, because each open makes them and each close drops them.
#[derive(Debug)]
struct Word {
    written: AtomicU64,
    /// Never a block that is not written.
    trusted: AtomicU64,
    synced: AtomicU64,
}

/// Whether blocks found on disk must be checked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trust {
    Given,
    /// They are to be checked before their first use.
    Checked,
}

impl BlockMap {
    /// The map of a file with no block. The single block of an empty file is there at once.
    pub fn new(geometry: Geometry) -> Self {
        Self::of(geometry, std::iter::empty(), Trust::Given)
    }

    /// The map of a file whose blocks in `cinfo` are written and synced. The single block of an empty file is there
    /// whatever the record says, and there is nothing about it to check.
    pub fn from_cinfo(cinfo: &Cinfo, trust: Trust) -> Self {
        Self::of(cinfo.geometry, cinfo.blocks.words().iter().copied(), trust)
    }

    fn of(geometry: Geometry, blocks: impl Iterator<Item = u64>, trust: Trust) -> Self {
        let block_count = geometry.block_count();
        let is_empty = geometry.file_size() == 0;
        let is_trusted = trust == Trust::Given || is_empty;
        let mut written_count = 0;
        let words = blocks.chain(std::iter::repeat(0)).zip(0..block_count.div_ceil(WORD_BITS)).map(|(bits, word)| {
            let bits = if is_empty { 1 } else { bits & mask_in_word(word, 0, block_count - 1) };
            written_count += u64::from(bits.count_ones());
            let trusted = if is_trusted { bits } else { 0 };
            Word { written: AtomicU64::new(bits), trusted: AtomicU64::new(trusted), synced: AtomicU64::new(bits) }
        });
        let words = words.collect();
        let trusted_count = AtomicU64::new(if is_trusted { written_count } else { 0 });
        Self { geometry, block_count, words, written_count: AtomicU64::new(written_count), trusted_count }
    }

    /// How the file is cut into blocks.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Whether every block is written.
    pub fn is_complete(&self) -> bool {
        self.written_count.load(Ordering::Acquire) == self.block_count
    }

    /// Whether every byte of `range` is in the data file and trusted. The range must lie within the file; an empty one is
    /// held.
    ///
    /// The hot path: one load for a complete file, else two or three.
    pub fn holds(&self, range: ByteRange) -> bool {
        if self.is_trusted_whole() || range.is_empty() {
            return true;
        }
        let first = self.geometry.index_of(range.start()).0;
        let last = self.geometry.index_of(range.end() - 1).0;
        (first / WORD_BITS..=last / WORD_BITS).all(|word| {
            let mask = mask_in_word(word, first, last);
            self.trusted_word(word) & mask == mask
        })
    }

    /// Whether block `index` is in the data file.
    pub fn is_written(&self, index: BlockIndex) -> bool {
        let (word, mask) = position(index);
        self.words.get(word).is_some_and(|bits| bits.written.load(Ordering::Acquire) & mask != 0)
    }

    /// Whether block `index` is in the data file and may be given to clients.
    pub fn is_trusted(&self, index: BlockIndex) -> bool {
        let (word, mask) = position(index);
        self.words.get(word).is_some_and(|bits| bits.trusted.load(Ordering::Acquire) & mask != 0)
    }

    /// The end of the trusted bytes that are in the data file without a gap from `offset` on: `offset` itself when that byte
    /// is not among them, at most the file's size.
    pub fn present_run(&self, offset: u64) -> u64 {
        let file_size = self.geometry.file_size();
        if offset >= file_size {
            return offset;
        }
        if self.is_trusted_whole() {
            return file_size;
        }
        let mut index = self.geometry.index_of(offset).0;
        loop {
            let bit = index % WORD_BITS;
            let ones = u64::from((self.trusted_word(index / WORD_BITS) >> bit).trailing_ones());
            index += ones;
            if ones < WORD_BITS - bit {
                break;
            }
        }
        index.saturating_mul(self.geometry.block_size()).clamp(offset, file_size)
    }

    /// Notes that all bytes of block `index` are in the data file, written by this process and therefore trusted; true when
    /// it was not noted before.
    ///
    /// # Panics
    /// When the file has no such block.
    pub fn set_written(&self, index: BlockIndex) -> bool {
        assert!(index.0 < self.block_count, "{index} of a file of {} blocks", self.block_count);
        let (word, mask) = position(index);
        let bits = self.words.get(word).expect("index is below the block count");
        let added = bits.written.fetch_or(mask, Ordering::AcqRel) & mask == 0;
        if added {
            // The count passes each block's bytes on to the thread that sees the file complete.
            self.written_count.fetch_add(1, Ordering::AcqRel);
        }
        self.set_trusted(index);
        added
    }

    /// Notes that block `index` holds the bytes that were written. A block that is not written is not noted.
    pub fn set_trusted(&self, index: BlockIndex) {
        let (word, mask) = position(index);
        let Some(bits) = self.words.get(word) else { return };
        if !self.is_written(index) {
            return;
        }
        if bits.trusted.fetch_or(mask, Ordering::AcqRel) & mask == 0 {
            self.trusted_count.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Notes that the blocks of `blocks` hold what was written. Those that are not written are not noted.
    pub fn trust(&self, blocks: &BlockSet) {
        self.words.iter().zip(blocks.words()).for_each(|(bits, &word)| self.trust_in(bits, word));
    }

    /// Notes that all blocks hold what was written, of those that are written now.
    pub fn trust_all(&self) {
        self.words.iter().for_each(|bits| self.trust_in(bits, u64::MAX));
    }

    fn trust_in(&self, bits: &Word, blocks: u64) {
        let word = blocks & bits.written.load(Ordering::Acquire);
        let added = word & !bits.trusted.fetch_or(word, Ordering::AcqRel);
        self.trusted_count.fetch_add(u64::from(added.count_ones()), Ordering::AcqRel);
    }

    /// Notes that block `index` is to be checked before it is given to a client again.
    pub fn distrust(&self, index: BlockIndex) {
        let (word, mask) = position(index);
        let Some(bits) = self.words.get(word) else { return };
        if bits.trusted.fetch_and(!mask, Ordering::AcqRel) & mask != 0 {
            self.trusted_count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Takes back block `index`, whose bytes on disk are not what was written: it is missing from now on. The caller sees to
    /// it that no sync of the file is under way and that no one writes the block.
    pub fn forget(&self, index: BlockIndex) {
        let (word, mask) = position(index);
        self.distrust(index);
        let Some(bits) = self.words.get(word) else { return };
        if bits.written.fetch_and(!mask, Ordering::AcqRel) & mask != 0 {
            self.written_count.fetch_sub(1, Ordering::AcqRel);
        }
        bits.synced.fetch_and(!mask, Ordering::AcqRel);
    }

    /// Whether some block is written and not trusted.
    pub fn has_untrusted(&self) -> bool {
        self.trusted_count.load(Ordering::Acquire) != self.written_count.load(Ordering::Acquire)
    }

    pub fn snapshot_trusted(&self) -> BlockSet {
        BlockSet::from_words(self.block_count, self.words.iter().map(|word| word.trusted.load(Ordering::Acquire)))
    }

    /// Number of blocks in the data file.
    pub fn written_count(&self) -> u64 {
        self.written_count.load(Ordering::Acquire)
    }

    /// Bytes of the blocks in the data file.
    pub fn written_bytes(&self) -> u64 {
        self.geometry.bytes_of(self.written_count(), self.is_written(BlockIndex(self.block_count - 1)))
    }

    /// The blocks written so far: what a cinfo may hold after the data file has been synced.
    pub fn snapshot_written(&self) -> BlockSet {
        BlockSet::from_words(self.block_count, self.words.iter().map(|word| word.written.load(Ordering::Acquire)))
    }

    /// Notes that the blocks of `blocks` are durable in both the data file and the cinfo.
    pub fn mark_synced(&self, blocks: &BlockSet) {
        for (bits, &word) in self.words.iter().zip(blocks.words()) {
            bits.synced.fetch_or(word, Ordering::AcqRel);
        }
    }

    /// Whether `blocks` has a block that is not known durable: then the data file must be synced before they are recorded.
    pub fn has_unsynced(&self, blocks: &BlockSet) -> bool {
        blocks.words().iter().zip(&self.words).any(|(&word, bits)| word & !bits.synced.load(Ordering::Acquire) != 0)
    }

    /// Removes all blocks: the disk they are on is gone. The caller ensures that no more blocks are noted.
    pub fn forget_all(&self) {
        self.words.iter().for_each(|word| word.synced.store(0, Ordering::Release));
        self.forget_unsynced();
    }

    /// Takes back every block that is not known durable: after a failed sync the operating system may have dropped its bytes,
    /// and what it gives for them from now on is anybody's guess. The caller sees to it that no more blocks are noted.
    pub fn forget_unsynced(&self) {
        for Word { written, trusted, synced } in &self.words {
            let synced = synced.load(Ordering::Acquire);
            let forget = |bits: &AtomicU64, count: &AtomicU64| {
                let forgotten = bits.fetch_and(synced, Ordering::AcqRel) & !synced;
                count.fetch_sub(u64::from(forgotten.count_ones()), Ordering::AcqRel);
            };
            forget(trusted, &self.trusted_count);
            forget(written, &self.written_count);
        }
    }

    /// Number of blocks that are written and not yet known durable.
    pub fn unsynced_count(&self) -> u64 {
        let unsynced = |word: &Word| word.written.load(Ordering::Acquire) & !word.synced.load(Ordering::Acquire);
        self.words.iter().map(unsynced).map(|word| u64::from(word.count_ones())).sum()
    }

    fn is_trusted_whole(&self) -> bool {
        self.trusted_count.load(Ordering::Acquire) == self.block_count
    }

    fn trusted_word(&self, word: u64) -> u64 {
        usize::try_from(word)
            .ok()
            .and_then(|word| self.words.get(word))
            .map_or(0, |bits| bits.trusted.load(Ordering::Acquire))
    }
}

/// The bits of word number `word` that blocks `first..=last` have; at least one of them lies in it.
const fn mask_in_word(word: u64, first: u64, last: u64) -> u64 {
    let mut mask = u64::MAX;
    if word == first / WORD_BITS {
        mask &= u64::MAX << (first % WORD_BITS);
    }
    if word == last / WORD_BITS {
        mask &= u64::MAX >> (WORD_BITS - 1 - last % WORD_BITS);
    }
    mask
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ChecksumState;
    use proptest::prelude::*;

    /// The map of a file of 200 blocks of 10 bytes, the last one of 5, as found on disk.
    pub(crate) fn stored(present: impl IntoIterator<Item = u64>, trust: Trust) -> BlockMap {
        let mut cinfo = Cinfo::new(Geometry::new(10, 1995).unwrap(), 0, ChecksumState::None);
        for index in present {
            cinfo.blocks.insert(BlockIndex(index));
        }
        BlockMap::from_cinfo(&cinfo, trust)
    }

    /// As [`stored`], written by this process.
    fn map_of(present: impl IntoIterator<Item = u64>) -> BlockMap {
        let map = BlockMap::new(Geometry::new(10, 1995).unwrap());
        for index in present {
            map.set_written(BlockIndex(index));
        }
        map
    }

    #[test]
    fn ranges_are_held_when_each_of_their_blocks_is_written() {
        let map = map_of(60..70);
        for (start, end, is_held) in
            [(600, 700, true), (639, 641, true), (599, 601, false), (699, 701, false), (0, 1995, false), (5, 5, true)]
        {
            assert_eq!(map.holds(ByteRange::between(start, end)), is_held, "{start}..{end}");
        }
        assert!(map.is_written(BlockIndex(69)) && !map.is_written(BlockIndex(70)));
    }

    #[test]
    fn runs_end_at_the_first_missing_block_and_at_the_end_of_the_file() {
        let map = map_of((60..130).chain([199]));
        for (offset, end) in [(605, 1300), (1300, 1300), (1299, 1300), (0, 0), (1992, 1995), (1995, 1995), (5000, 5000)]
        {
            assert_eq!(map.present_run(offset), end, "{offset}");
        }
        assert_eq!(map_of(0..200).present_run(7), 1995);
    }

    #[test]
    fn the_file_is_complete_with_its_last_missing_block() {
        let map = map_of(1..200);
        assert!(!map.is_complete());
        assert!(map.set_written(BlockIndex(0)));
        assert!(!map.set_written(BlockIndex(0)));
        assert!(map.is_complete() && map.snapshot_written().is_full());
        assert_eq!(map.written_count(), 200);
        assert_eq!(
            (map_of(0..199).written_bytes(), map.written_bytes(), map_of([199]).written_bytes()),
            (1990, 1995, 5)
        );
    }

    #[test]
    fn an_empty_file_is_complete_at_once() {
        let geometry = Geometry::new(65536, 0).unwrap();
        let new = BlockMap::new(geometry);
        assert!(new.is_complete() && new.holds(ByteRange::at(0, 0)));
        assert!(new.snapshot_written().is_full(), "its bit is set when it is stored");
        assert_eq!((new.unsynced_count(), new.written_bytes()), (0, 0));
        assert!(
            BlockMap::from_cinfo(&Cinfo::new(geometry, 0, ChecksumState::None), Trust::Checked)
                .holds(ByteRange::at(0, 0))
        );
    }

    #[test]
    fn blocks_written_after_a_snapshot_wait_for_the_next_sync() {
        let map = map_of([3, 100]);
        let snapshot = map.snapshot_written();
        map.set_written(BlockIndex(101));
        assert!(map.has_unsynced(&snapshot));
        assert_eq!(map.unsynced_count(), 3);
        map.mark_synced(&snapshot);
        assert!(!map.has_unsynced(&snapshot), "the later block does not ask for its sync");
        assert!(map.has_unsynced(&map.snapshot_written()));
        assert_eq!(map.unsynced_count(), 1);
        map.mark_synced(&map.snapshot_written());
        assert_eq!(map.unsynced_count(), 0);
    }

    #[test]
    fn blocks_that_could_not_be_synced_are_taken_back() {
        let map = map_of(0..199);
        map.mark_synced(&map.snapshot_written());
        map.set_written(BlockIndex(199));
        assert!(map.is_complete());
        map.forget_unsynced();
        assert!(!map.is_complete() && map.holds(ByteRange::at(0, 1990)) && !map.holds(ByteRange::at(1990, 1)));
        assert_eq!((map.written_count(), map.unsynced_count()), (199, 0));
        assert!(map.set_written(BlockIndex(199)) && map.is_complete());
    }

    #[test]
    fn stored_blocks_are_synced_and_not_served_before_they_are_checked() {
        let map = stored([7], Trust::Given);
        assert!(map.holds(ByteRange::between(70, 80)));
        assert_eq!((map.written_count(), map.unsynced_count()), (1, 0));
        let map = stored(0..200, Trust::Checked);
        assert!(map.is_complete() && map.is_written(BlockIndex(7)));
        assert!(!map.is_trusted(BlockIndex(7)) && !map.holds(ByteRange::at(70, 1)));
        assert_eq!((map.present_run(70), map.snapshot_trusted().count()), (70, 0));
        map.set_trusted(BlockIndex(7));
        map.set_trusted(BlockIndex(7));
        assert!(map.holds(ByteRange::at(70, 10)) && !map.holds(ByteRange::at(70, 11)));
        (0..200).for_each(|index| map.set_trusted(BlockIndex(index)));
        assert!(map.holds(ByteRange::at(0, 1995)) && !map.has_untrusted());
    }

    #[test]
    fn a_damaged_block_is_missing_and_to_be_synced_when_it_is_written_again() {
        let map = stored(0..200, Trust::Checked);
        (0..200).for_each(|index| map.set_trusted(BlockIndex(index)));
        map.forget(BlockIndex(7));
        map.forget(BlockIndex(7));
        assert!(!map.is_complete() && !map.is_written(BlockIndex(7)) && !map.holds(ByteRange::at(70, 1)));
        map.set_trusted(BlockIndex(7));
        assert!(!map.is_trusted(BlockIndex(7)), "what is not written cannot be trusted");
        assert!(!map.snapshot_written().contains(BlockIndex(7)));
        map.set_written(BlockIndex(7));
        assert!(map.is_complete() && map.holds(ByteRange::at(0, 1995)));
        assert_eq!(map.unsynced_count(), 1);
    }

    #[test]
    fn many_threads_complete_a_file_together() {
        let map = map_of([]);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let map = &map;
                scope.spawn(move || {
                    for index in (0..200).filter(|index| index % 4 == thread || index % 7 == thread) {
                        map.set_written(BlockIndex(index));
                    }
                });
            }
        });
        assert!(map.is_complete());
        assert_eq!(map.written_count(), 200);
    }

    proptest! {
        #[test]
        fn answers_agree_with_a_look_at_each_block(
            present in prop::collection::btree_set(0_u64..200, 0..200),
            start in 0_u64..1995,
            len in 0_u64..1995,
        ) {
            let map = map_of(present.iter().copied());
            let range = ByteRange::at(start, len).clipped_to(1995);
            let has = |offset: u64| present.contains(&(offset / 10));
            prop_assert_eq!(map.holds(range), (range.start()..range.end()).all(has));
            let run_end = (start..1995).find(|&offset| !has(offset)).unwrap_or(1995);
            prop_assert_eq!(map.present_run(start), run_end);
        }
    }
}
