//! A plain set of the blocks of one file.

use forebay_types::BlockIndex;

pub(crate) const WORD_BITS: u64 = u64::BITS as u64;

/// A set of the blocks of one file: one bit for each block, block 0 in the lowest bit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BlockSet {
    words: Vec<u64>,
    len: u64,
}

impl BlockSet {
    /// An empty set for a file of `len` blocks.
    ///
    /// # Panics
    /// When a set of `len` bits cannot be addressed; a [`crate::Geometry`] never has that many blocks.
    pub fn new(len: u64) -> Self {
        Self { words: vec![0; words_for(len)], len }
    }

    /// Number of blocks of the file, in the set or not.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether no block is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Whether every block is in the set.
    pub fn is_full(&self) -> bool {
        self.count() == self.len
    }

    /// Number of blocks in the set.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Whether block `index` is in the set; false for blocks after the file's last one.
    pub fn contains(&self, index: BlockIndex) -> bool {
        let (word, mask) = position(index);
        self.words.get(word).is_some_and(|bits| bits & mask != 0)
    }

    /// Adds block `index`; true when it was not in the set before.
    ///
    /// # Panics
    /// When the file has no such block.
    pub fn insert(&mut self, index: BlockIndex) -> bool {
        assert!(index.0 < self.len, "{index} of a file of {} blocks", self.len);
        let (word, mask) = position(index);
        let bits = self.words.get_mut(word).expect("index is below len");
        let added = *bits & mask == 0;
        *bits |= mask;
        added
    }

    /// The highest block in the set.
    pub fn last(&self) -> Option<BlockIndex> {
        let (position, word) = self.words.iter().enumerate().rev().find(|(_, word)| **word != 0)?;
        let below = u64::try_from(position).ok()? * WORD_BITS;
        Some(BlockIndex(below + WORD_BITS - 1 - u64::from(word.leading_zeros())))
    }

    /// Takes block `index` out; true when it was in the set.
    pub fn remove(&mut self, index: BlockIndex) -> bool {
        let (word, mask) = position(index);
        let Some(bits) = self.words.get_mut(word) else { return false };
        let was_there = *bits & mask != 0;
        *bits &= !mask;
        was_there
    }

    /// The set whose words are `words`; bits after block `len - 1` are dropped.
    pub(crate) fn from_words(len: u64, words: impl Iterator<Item = u64>) -> Self {
        let mut set = Self { words: words.take(words_for(len)).collect(), len };
        set.words.resize(words_for(len), 0);
        let tail_bits = len % WORD_BITS;
        if let Some(last) = set.words.last_mut()
            && tail_bits != 0
        {
            *last &= (1 << tail_bits) - 1;
        }
        set
    }

    /// The set as words, block 0 in the lowest bit of the first one.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }
}

/// Number of words that hold `len` bits.
pub(crate) fn words_for(len: u64) -> usize {
    usize::try_from(len.div_ceil(WORD_BITS)).expect("a geometry's block count is at most 2^31-1")
}

/// The word that holds a block's bit, and the bit's mask.
pub(crate) fn position(index: BlockIndex) -> (usize, u64) {
    (usize::try_from(index.0 / WORD_BITS).unwrap_or(usize::MAX), 1 << (index.0 % WORD_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_added_once_counted_and_dropped_after_the_last() {
        let mut set = BlockSet::new(130);
        assert!(set.is_empty());
        assert_eq!(set.last(), None);
        for index in [0, 63, 64, 129] {
            assert!(set.insert(BlockIndex(index)));
            assert!(!set.insert(BlockIndex(index)));
            assert_eq!(set.last(), Some(BlockIndex(index)));
        }
        assert_eq!(set.count(), 4);
        assert!(set.contains(BlockIndex(64)));
        assert!(!set.contains(BlockIndex(65)));
        assert!(!set.contains(BlockIndex(5000)));
        assert!(!set.is_full());
        let set = BlockSet::from_words(65, [u64::MAX, u64::MAX, u64::MAX].into_iter());
        assert!(set.is_full());
        assert_eq!(set.count(), 65);
        assert_eq!(BlockSet::from_words(65, [1].into_iter()).count(), 1);
    }

    #[test]
    #[should_panic(expected = "block 3 of a file of 3 blocks")]
    fn a_block_after_the_last_one_panics() {
        BlockSet::new(3).insert(BlockIndex(3));
    }
}
