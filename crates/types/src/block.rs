//! Blocks: the fixed-size units of caching.

use crate::{ByteRange, ByteSize};
use std::fmt;

/// Size of a cache block in bytes: a multiple of 4 KiB from 4 KiB to 512 MiB.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BlockSize(u64);

/// Position of a block in its file, counted from 0.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BlockIndex(pub u64);

/// A block size that the cache does not accept.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("block size {0} is not a multiple of 4KiB from 4KiB to 512MiB")]
pub struct BlockSizeError(pub u64);

impl BlockSize {
    /// Smallest block size: one page, the unit of checksums on the wire.
    pub const MIN: Self = Self(4 << 10);
    /// Largest block size, as in XCache.
    pub const MAX: Self = Self(512 << 20);
    /// Default block size of new files: small enough for sparse readers; fills merge adjacent blocks.
    pub const DEFAULT: Self = Self(64 << 10);

    /// A block size for new files.
    ///
    /// # Errors
    /// When `bytes` is not a multiple of 4 KiB in the accepted range.
    pub const fn new(bytes: u64) -> Result<Self, BlockSizeError> {
        if bytes < Self::MIN.0 || bytes > Self::MAX.0 || !bytes.is_multiple_of(Self::MIN.0) {
            return Err(BlockSizeError(bytes));
        }
        Ok(Self(bytes))
    }

    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The block that holds the byte at `offset`.
    pub const fn index_of(self, offset: u64) -> BlockIndex {
        BlockIndex(offset / self.0)
    }

    /// Number of blocks of a file of `file_size` bytes; an empty file has one (empty) block, as in XCache.
    pub const fn count(self, file_size: u64) -> u64 {
        if file_size == 0 { 1 } else { (file_size - 1) / self.0 + 1 }
    }

    /// The bytes of block `index` in a file of `file_size` bytes; the last block may be short.
    pub const fn range_of(self, index: BlockIndex, file_size: u64) -> ByteRange {
        ByteRange::at(index.0.saturating_mul(self.0), self.0).clipped_to(file_size)
    }

    /// `range` widened to whole blocks of a file of `file_size` bytes.
    pub const fn widen(self, range: ByteRange, file_size: u64) -> ByteRange {
        let start = range.start() / self.0 * self.0;
        let end = range.end().div_ceil(self.0).saturating_mul(self.0);
        ByteRange::between(start, end).clipped_to(file_size)
    }
}

impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ByteSize(self.0).fmt(f)
    }
}

impl fmt::Display for BlockIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked_on_both_sides_of_each_edge() {
        assert!(BlockSize::new(4 << 10).is_ok());
        assert!(BlockSize::new((4 << 10) - 1).is_err());
        assert!(BlockSize::new((4 << 10) + 1).is_err());
        assert!(BlockSize::new(512 << 20).is_ok());
        assert!(BlockSize::new((512 << 20) + 4096).is_err());
    }

    #[test]
    fn the_last_block_is_short() {
        let size = BlockSize::DEFAULT;
        assert_eq!(size.count(0), 1);
        assert_eq!(size.count(65536), 1);
        assert_eq!(size.count(65537), 2);
        assert_eq!(size.range_of(BlockIndex(1), 65537), ByteRange::at(65536, 1));
        assert_eq!(size.widen(ByteRange::at(65530, 10), 70000), ByteRange::between(0, 70000));
    }
}
