//! Accounts for the bytes of a file that were fetched ahead: read or wasted.

use crate::{
    Geometry,
    block_set::{WORD_BITS, position, words_for},
};
use forebay_types::{BlockIndex, ByteRange};
use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// The blocks of a file that were fetched ahead and not read yet, and their sums. Shared by all handles of the
/// file; every method takes `&self` and none waits.
#[derive(Debug)]
pub struct ReadAheadLedger {
    geometry: Geometry,
    /// Made when the first block is fetched ahead.
    unread: OnceLock<Vec<AtomicU64>>,
    unread_count: AtomicU64,
    /// Blocks that were fetched by the structure of the file, read or not; each made with its first one.
    by_reads: OnceLock<Vec<AtomicU64>>,
    by_history: OnceLock<Vec<AtomicU64>>,
    /// Bytes fetched ahead, and those of them that were read; both halved from time to time, so that the past fades.
    fetched: AtomicU64,
    used: AtomicU64,
}

/// Why bytes were fetched ahead.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AheadSource {
    /// A pattern of offsets, or a file that is completed.
    Runs,
    /// The structure of the file, and the reads of it.
    Structure,
    /// The structure of the file, and reads of other files.
    History,
}

/// Bytes by the reason for which they were fetched ahead.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AheadBytes {
    pub runs: u64,
    pub structure: u64,
    pub history: u64,
}

/// How far reading ahead may continue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Worth {
    Full,
    Reduced(u64),
    /// Not at all: half of it or more was fetched in vain.
    Off,
}

/// Bytes fetched ahead before they are judged.
const JUDGED_FROM: u64 = 2 << 20;

/// Bytes fetched ahead after which the past counts half.
const HORIZON: u64 = 64 << 20;

impl ReadAheadLedger {
    /// The ledger of a file of which nothing was fetched ahead.
    pub const fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            unread: OnceLock::new(),
            unread_count: AtomicU64::new(0),
            by_reads: OnceLock::new(),
            by_history: OnceLock::new(),
            fetched: AtomicU64::new(0),
            used: AtomicU64::new(0),
        }
    }

    /// Notes that the blocks of `blocks` are being fetched ahead.
    pub fn note_fetched(&self, source: AheadSource, blocks: ByteRange) {
        let unread = self.unread.get_or_init(|| self.no_blocks());
        let advised = match source {
            AheadSource::Runs => None,
            AheadSource::Structure => Some(self.by_reads.get_or_init(|| self.no_blocks())),
            AheadSource::History => Some(self.by_history.get_or_init(|| self.no_blocks())),
        };
        for index in self.geometry.blocks_of(blocks) {
            let (word, mask) = position(BlockIndex(index));
            // First: a read that takes the block finds its source.
            if let Some(bits) = advised.and_then(|advised| advised.get(word)) {
                bits.fetch_or(mask, Relaxed);
            }
            if unread.get(word).is_some_and(|bits| bits.fetch_or(mask, Relaxed) & mask == 0) {
                self.unread_count.fetch_add(1, Relaxed);
            }
        }
        if self.fetched.fetch_add(blocks.len(), Relaxed).saturating_add(blocks.len()) >= HORIZON {
            self.fade();
        }
    }

    /// Notes that a client reads `range`; the bytes of the blocks in it that were fetched ahead and not read before.
    ///
    /// The hot path: one load when nothing is unread. Takes no lock and allocates nothing.
    pub fn note_read(&self, range: ByteRange) -> AheadBytes {
        if self.unread_count.load(Relaxed) == 0 {
            return AheadBytes::default();
        }
        let used = self.take(range);
        self.used.fetch_add(used.sum(), Relaxed);
        used
    }

    /// Whether all blocks of `range` were fetched ahead and none was read.
    pub fn is_unread(&self, range: ByteRange) -> bool {
        let Some(unread) = self.unread.get() else { return false };
        self.all_blocks(range, |index| has(unread, index))
    }

    /// Whether all blocks of `range` were fetched by the structure of the file since its first reader came.
    pub fn was_advised(&self, range: ByteRange) -> bool {
        self.all_blocks(range, |index| self.source_of(index) != AheadSource::Runs)
    }

    /// Takes back blocks that could not be fetched; their bytes.
    pub fn forget(&self, blocks: ByteRange) -> AheadBytes {
        let forgotten = self.take(blocks);
        let _ = self.fetched.fetch_update(Relaxed, Relaxed, |fetched| Some(fetched.saturating_sub(forgotten.sum())));
        forgotten
    }

    /// The last reader has left: returns the bytes that were fetched in vain.
    pub fn give_up(&self) -> AheadBytes {
        let wasted = if self.unread_count.load(Relaxed) == 0 {
            AheadBytes::default()
        } else {
            self.take(ByteRange::at(0, self.geometry.file_size()))
        };
        // For the next reader they are blocks that are there.
        for advised in [&self.by_reads, &self.by_history] {
            advised.get().into_iter().flatten().for_each(|word| word.store(0, Relaxed));
        }
        wasted
    }

    /// How much reading ahead is worth, when `expected` of the bytes fetched ahead are likely to be read still.
    pub fn worth(&self, expected: u64) -> Worth {
        let fetched = self.fetched.load(Relaxed);
        let used = self.used.load(Relaxed);
        if fetched < JUDGED_FROM {
            return Worth::Full;
        }
        let wasted = fetched.saturating_sub(used).saturating_sub(expected);
        match wasted.saturating_mul(8) / fetched {
            0..=1 => Worth::Full,
            2..=3 => Worth::Reduced(4),
            _ => Worth::Off,
        }
    }

    /// Lets the past count half: after that, what was off may be tried again.
    pub fn fade(&self) {
        for sum in [&self.fetched, &self.used] {
            let _ = sum.fetch_update(Relaxed, Relaxed, |bytes| Some(bytes / 2));
        }
    }

    /// Takes the unread blocks of `range`; their bytes.
    fn take(&self, range: ByteRange) -> AheadBytes {
        let mut taken = AheadBytes::default();
        let Some(unread) = self.unread.get() else { return taken };
        let blocks = self.geometry.blocks_of(range.clipped_to(self.geometry.file_size()));
        let mut index = blocks.start;
        while index < blocks.end {
            let (word, _) = position(BlockIndex(index));
            let word_end = (index / WORD_BITS + 1).saturating_mul(WORD_BITS).min(blocks.end);
            if unread.get(word).is_some_and(|bits| bits.load(Relaxed) != 0) {
                for index in (index..word_end).map(BlockIndex).filter(|index| self.take_block(unread, *index)) {
                    taken.add(self.source_of(index), self.geometry.range_of(index).len());
                }
            }
            index = word_end;
        }
        taken
    }

    /// Takes a block; whether it was unread.
    fn take_block(&self, unread: &[AtomicU64], index: BlockIndex) -> bool {
        let (word, mask) = position(index);
        let Some(bits) = unread.get(word) else { return false };
        if bits.load(Relaxed) & mask == 0 || bits.fetch_and(!mask, Relaxed) & mask == 0 {
            return false;
        }
        self.unread_count.fetch_sub(1, Relaxed);
        true
    }

    fn source_of(&self, index: BlockIndex) -> AheadSource {
        let is_in = |advised: &OnceLock<Vec<AtomicU64>>| advised.get().is_some_and(|advised| has(advised, index));
        if is_in(&self.by_reads) {
            AheadSource::Structure
        } else if is_in(&self.by_history) {
            AheadSource::History
        } else {
            AheadSource::Runs
        }
    }

    fn all_blocks(&self, range: ByteRange, is_one: impl Fn(BlockIndex) -> bool) -> bool {
        self.geometry.blocks_of(range.clipped_to(self.geometry.file_size())).map(BlockIndex).all(is_one)
    }

    fn no_blocks(&self) -> Vec<AtomicU64> {
        let words = words_for(self.geometry.block_count());
        std::iter::repeat_with(AtomicU64::default).take(words).collect()
    }
}

impl AheadBytes {
    pub const fn sum(self) -> u64 {
        self.runs + self.structure + self.history
    }

    const fn add(&mut self, source: AheadSource, bytes: u64) {
        match source {
            AheadSource::Runs => self.runs += bytes,
            AheadSource::Structure => self.structure += bytes,
            AheadSource::History => self.history += bytes,
        }
    }
}

fn has(blocks: &[AtomicU64], index: BlockIndex) -> bool {
    let (word, mask) = position(index);
    blocks.get(word).is_some_and(|bits| bits.load(Relaxed) & mask != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A file of 200 MiB in blocks of 1 MiB, and one byte.
    fn ledger() -> ReadAheadLedger {
        ReadAheadLedger::new(Geometry::new(MIB, 200 * MIB + 1).unwrap())
    }

    #[test]
    fn each_block_is_used_once_and_as_long_as_it_is_or_taken_back() {
        let ledger = ledger();
        ledger.note_fetched(AheadSource::Runs, ByteRange::between(60 * MIB, 70 * MIB));
        assert_eq!(ledger.note_read(ByteRange::between(50 * MIB, 60 * MIB + 1)).sum(), MIB);
        assert_eq!(ledger.note_read(ByteRange::between(60 * MIB, 66 * MIB)).sum(), 5 * MIB);
        assert!(ledger.is_unread(ByteRange::between(66 * MIB, 70 * MIB)));
        assert!(!ledger.is_unread(ByteRange::between(65 * MIB, 67 * MIB)));
        assert_eq!(ledger.give_up().sum(), 4 * MIB);
        assert_eq!(ledger.note_read(ByteRange::at(0, 200 * MIB)).sum(), 0);
        let ledger = self::ledger();
        ledger.note_fetched(AheadSource::Runs, ByteRange::between(199 * MIB, 200 * MIB + 1));
        assert_eq!(ledger.note_read(ByteRange::at(199 * MIB, u64::MAX)).sum(), MIB + 1);
        let ledger = self::ledger();
        ledger.note_fetched(AheadSource::Runs, ByteRange::at(0, 8 * MIB));
        assert_eq!(ledger.forget(ByteRange::at(0, 8 * MIB)).sum(), 8 * MIB);
        assert_eq!((ledger.give_up().sum(), ledger.worth(0)), (0, Worth::Full));
    }

    #[test]
    fn bytes_are_told_apart_by_their_source_until_the_last_reader_leaves() {
        let ledger = ledger();
        ledger.note_fetched(AheadSource::Runs, ByteRange::at(0, 2 * MIB));
        ledger.note_fetched(AheadSource::Structure, ByteRange::between(2 * MIB, 5 * MIB));
        ledger.note_fetched(AheadSource::History, ByteRange::between(5 * MIB, 9 * MIB));
        assert!(ledger.was_advised(ByteRange::between(2 * MIB, 9 * MIB)));
        assert!(!ledger.was_advised(ByteRange::between(MIB, 3 * MIB)));
        let used = ledger.note_read(ByteRange::between(MIB, 7 * MIB));
        assert_eq!(used, AheadBytes { runs: MIB, structure: 3 * MIB, history: 2 * MIB });
        assert!(ledger.was_advised(ByteRange::at(6 * MIB, 1)) && !ledger.is_unread(ByteRange::at(6 * MIB, 1)));
        assert_eq!(ledger.give_up(), AheadBytes { runs: MIB, structure: 0, history: 2 * MIB });
        assert!(!ledger.was_advised(ByteRange::at(6 * MIB, 1)));
    }

    #[test]
    fn the_worth_falls_with_the_unread_share() {
        for (read_mib, worth) in [(32, Worth::Full), (25, Worth::Full), (24, Worth::Reduced(4)), (16, Worth::Off)] {
            let ledger = ledger();
            ledger.note_fetched(AheadSource::Runs, ByteRange::at(0, 32 * MIB));
            ledger.note_read(ByteRange::at(0, read_mib * MIB));
            assert_eq!(ledger.worth(0), worth, "{read_mib} of 32 MiB");
        }
    }

    #[test]
    fn blocks_likely_to_be_read_still_are_not_wasted() {
        let ledger = ledger();
        ledger.note_fetched(AheadSource::Runs, ByteRange::at(0, 16 * MIB));
        assert_eq!(ledger.worth(0), Worth::Off);
        assert_eq!(ledger.worth(16 * MIB), Worth::Full);
    }

    #[test]
    fn small_amounts_are_not_judged_and_faded_ones_are_tried_again() {
        let ledger = ledger();
        ledger.note_fetched(AheadSource::Runs, ByteRange::at(0, JUDGED_FROM - MIB));
        assert_eq!(ledger.worth(0), Worth::Full);
        ledger.note_fetched(AheadSource::Runs, ByteRange::at(JUDGED_FROM - MIB, MIB));
        assert_eq!(ledger.worth(0), Worth::Off);
        ledger.fade();
        assert_eq!(ledger.worth(0), Worth::Full);
    }

    #[test]
    fn an_old_success_does_not_pay_for_ever() {
        let ledger = ledger();
        for start in (0..100).map(|index| index * MIB) {
            ledger.note_fetched(AheadSource::Runs, ByteRange::at(start, MIB));
            ledger.note_read(ByteRange::at(start, MIB));
        }
        ledger.note_fetched(AheadSource::Runs, ByteRange::between(100 * MIB, 190 * MIB));
        assert_ne!(ledger.worth(0), Worth::Full);
    }
}
