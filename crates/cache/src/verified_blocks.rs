//! A memory of the blocks of closed files that this process has written or checked.

use crate::{BlockMap, BlockSet, block_set::words_for};
use std::collections::HashMap;

/// Identifies the data file of an entry for the life of the entry.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct DataFileId {
    pub device: u64,
    pub inode: u64,
    /// When the entry was created, in seconds of the Unix epoch: numbers of files are used again.
    pub created: i64,
}

/// Remembers the trusted blocks of files that were closed, so that a file opened again is not checked again.
///
/// Bounded: files are remembered in two generations; when the younger one is full the older one is forgotten, and what has
/// not been asked for since is checked once more. Everything takes the same short time.
#[derive(Debug)]
pub struct VerifiedBlocks {
    young: Generation,
    old: Generation,
    generation_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Generation {
    files: HashMap<DataFileId, Trusted>,
    bytes: usize,
}

/// The trusted blocks of one file.
#[derive(Clone, Debug)]
enum Trusted {
    All,
    These(Box<BlockSet>),
}

/// Bytes that a remembered file takes: its place in the table, which is half empty at worst.
const FILE_BYTES: usize = 2 * (size_of::<DataFileId>() + size_of::<Trusted>() + 1);

impl VerifiedBlocks {
    /// A memory of about `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { young: Generation::default(), old: Generation::default(), generation_bytes_max: bytes_max / 2 }
    }

    /// Remembers which blocks of `map` are trusted. `is_recorded`: the record on disk names no block that `map` lacks.
    pub fn remember(&mut self, file: DataFileId, map: &BlockMap, is_recorded: bool) {
        // A damaged block that could not be removed from the record is found there by the next open: it must be checked again.
        if is_recorded && !map.has_untrusted() {
            return self.insert(file, Trusted::All);
        }
        let trusted = map.snapshot_trusted();
        if !trusted.is_empty() {
            self.insert(file, Trusted::These(Box::new(trusted)));
        }
    }

    /// Trusts those blocks of `map` again that were trusted when the file was remembered.
    pub fn recall(&mut self, file: DataFileId, map: &BlockMap) {
        let known = match self.young.files.get(&file) {
            Some(trusted) => trusted.clone(),
            None => {
                let Some(trusted) = self.old.remove(&file) else { return };
                self.insert(file, trusted.clone());
                trusted
            }
        };
        match known {
            Trusted::All => map.trust_all(),
            Trusted::These(blocks) => map.trust(&blocks),
        }
    }

    /// Forgets a file: all its blocks are checked when it is opened again.
    pub fn forget(&mut self, file: DataFileId) {
        self.young.remove(&file);
        self.old.remove(&file);
    }

    fn insert(&mut self, file: DataFileId, trusted: Trusted) {
        self.old.remove(&file);
        self.young.insert(file, trusted);
        if self.young.bytes > self.generation_bytes_max {
            self.old = std::mem::take(&mut self.young);
        }
    }
}

impl Generation {
    fn insert(&mut self, file: DataFileId, trusted: Trusted) {
        self.remove(&file);
        self.bytes += trusted.bytes();
        self.files.insert(file, trusted);
    }

    fn remove(&mut self, file: &DataFileId) -> Option<Trusted> {
        let trusted = self.files.remove(file)?;
        self.bytes -= trusted.bytes();
        Some(trusted)
    }
}

impl Trusted {
    fn bytes(&self) -> usize {
        match self {
            Self::All => FILE_BYTES,
            Self::These(blocks) => FILE_BYTES + size_of::<BlockSet>() + words_for(blocks.len()) * size_of::<u64>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Trust, block_map::tests::stored};
    use forebay_types::BlockIndex;

    fn found(present: impl IntoIterator<Item = u64>) -> BlockMap {
        stored(present, Trust::Checked)
    }

    fn file(inode: u64) -> DataFileId {
        DataFileId { device: 1, inode, created: 1_700_000_000 }
    }

    fn trusted_of(memory: &mut VerifiedBlocks, file: DataFileId) -> u64 {
        let map = found(0..200);
        memory.recall(file, &map);
        map.snapshot_trusted().count()
    }

    #[test]
    fn blocks_that_were_trusted_are_trusted_again() {
        let mut memory = VerifiedBlocks::new(1 << 20);
        let map = found(0..200);
        map.set_trusted(BlockIndex(3));
        memory.remember(file(1), &map, true);
        assert_eq!(trusted_of(&mut memory, file(1)), 1);
        (0..200).for_each(|index| map.set_trusted(BlockIndex(index)));
        memory.remember(file(1), &map, true);
        assert_eq!(trusted_of(&mut memory, file(1)), 200);
        assert_eq!(trusted_of(&mut memory, file(2)), 0);
        assert_eq!(trusted_of(&mut memory, DataFileId { created: 7, ..file(1) }), 0, "the number is used again");
        memory.forget(file(1));
        assert_eq!(trusted_of(&mut memory, file(1)), 0);
        memory.remember(file(3), &found(0..200), true);
        assert_eq!(memory.young.bytes, 0, "a file of which nothing is trusted takes no room");
    }

    #[test]
    fn blocks_that_are_gone_do_not_come_back() {
        let mut memory = VerifiedBlocks::new(1 << 20);
        let map = found(0..200);
        map.set_trusted(BlockIndex(3));
        memory.remember(file(1), &map, true);
        let map = found(4..200);
        memory.recall(file(1), &map);
        assert!(!map.is_written(BlockIndex(3)) && !map.is_trusted(BlockIndex(3)));
    }

    #[test]
    fn a_block_that_the_record_still_names_is_not_trusted_with_the_others() {
        let mut memory = VerifiedBlocks::new(1 << 20);
        let map = found(0..200);
        (1..200).for_each(|index| map.set_trusted(BlockIndex(index)));
        map.forget(BlockIndex(0));
        for (is_recorded, trusted) in [(false, 199), (true, 200)] {
            memory.remember(file(1), &map, is_recorded);
            assert_eq!(trusted_of(&mut memory, file(1)), trusted);
        }
    }

    #[test]
    fn unused_files_are_forgotten_and_the_memory_is_bounded() {
        let mut memory = VerifiedBlocks::new(100 * FILE_BYTES);
        let map = found(0..200);
        (0..200).for_each(|index| map.set_trusted(BlockIndex(index)));
        for inode in 0..1000 {
            memory.remember(file(inode), &map, true);
            assert!(memory.young.files.len() + memory.old.files.len() <= 103);
            assert_eq!(trusted_of(&mut memory, file(0)), 200, "asked for again and again");
        }
        assert_eq!(trusted_of(&mut memory, file(500)), 0);
        assert_eq!(trusted_of(&mut memory, file(999)), 200);
    }
}
