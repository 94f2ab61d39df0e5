//! How a file is cut into blocks.

use forebay_types::{BlockIndex, BlockSize, ByteRange};
use std::ops::Range;

/// Most blocks a file may have: the count is a signed 32-bit number on disk.
pub const BLOCKS_MAX: u64 = i32::MAX as u64;

/// A file's size and block size, both in bytes. Block sizes that no new file would get are allowed: foreign cinfo files
/// have them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Geometry {
    block_size: u64,
    file_size: u64,
}

/// A file that cannot be cut into blocks.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum GeometryError {
    #[error("block size of {0} bytes is outside 1..=2^63-1")]
    BlockSize(u64),
    #[error("file size of {0} bytes is above 2^63-1")]
    FileSize(u64),
    #[error("{0} blocks are more than 2^31-1: use larger blocks")]
    TooManyBlocks(u64),
}

impl Geometry {
    /// The geometry of a file of `file_size` bytes in blocks of `block_size` bytes.
    ///
    /// # Errors
    /// When a number does not fit the record on disk.
    pub const fn new(block_size: u64, file_size: u64) -> Result<Self, GeometryError> {
        if block_size == 0 || block_size > i64::MAX as u64 {
            return Err(GeometryError::BlockSize(block_size));
        }
        if file_size > i64::MAX as u64 {
            return Err(GeometryError::FileSize(file_size));
        }
        let geometry = Self { block_size, file_size };
        if geometry.block_count() > BLOCKS_MAX {
            return Err(GeometryError::TooManyBlocks(geometry.block_count()));
        }
        Ok(geometry)
    }

    /// The geometry of a new file.
    ///
    /// # Errors
    /// When the file is too large for the block size.
    pub const fn of_new_file(block_size: BlockSize, file_size: u64) -> Result<Self, GeometryError> {
        Self::new(block_size.bytes(), file_size)
    }

    /// Size of a block in bytes; the last one may be shorter.
    pub const fn block_size(self) -> u64 {
        self.block_size
    }

    /// Size of the file in bytes.
    pub const fn file_size(self) -> u64 {
        self.file_size
    }

    /// Number of blocks; an empty file has one (empty) block, as in XCache.
    pub const fn block_count(self) -> u64 {
        if self.file_size == 0 { 1 } else { (self.file_size - 1) / self.block_size + 1 }
    }

    /// The block that holds the byte at `offset`.
    pub const fn index_of(self, offset: u64) -> BlockIndex {
        BlockIndex(offset / self.block_size)
    }

    /// The bytes of block `index`; empty after the end of the file.
    pub const fn range_of(self, index: BlockIndex) -> ByteRange {
        ByteRange::at(index.0.saturating_mul(self.block_size), self.block_size).clipped_to(self.file_size)
    }

    /// The bytes of `count` blocks, of which the last one of the file is one or not.
    pub const fn bytes_of(self, count: u64, has_last: bool) -> u64 {
        let last = BlockIndex(self.block_count() - 1);
        let missing = if has_last { self.block_size - self.range_of(last).len() } else { 0 };
        count.saturating_mul(self.block_size).saturating_sub(missing)
    }

    /// The indices of the blocks that `range` touches; none for an empty range.
    pub const fn blocks_of(self, range: ByteRange) -> Range<u64> {
        if range.is_empty() {
            return 0..0;
        }
        self.index_of(range.start()).0..self.index_of(range.end() - 1).0 + 1
    }

    /// `range` widened to whole blocks, within the file.
    pub const fn widen(self, range: ByteRange) -> ByteRange {
        let start = range.start() / self.block_size * self.block_size;
        let end = range.end().div_ceil(self.block_size).saturating_mul(self.block_size);
        ByteRange::between(start, end).clipped_to(self.file_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_on_both_sides_of_each_edge() {
        assert_eq!(Geometry::new(0, 1), Err(GeometryError::BlockSize(0)));
        assert!(Geometry::new(i64::MAX as u64, i64::MAX as u64).is_ok());
        assert!(Geometry::new(i64::MAX as u64 + 1, 1).is_err());
        assert!(Geometry::new(1 << 40, i64::MAX as u64 + 1).is_err());
        assert!(Geometry::new(4096, BLOCKS_MAX * 4096).is_ok());
        assert_eq!(Geometry::new(4096, BLOCKS_MAX * 4096 + 1), Err(GeometryError::TooManyBlocks(BLOCKS_MAX + 1)));
    }

    #[test]
    fn an_empty_file_has_one_empty_block() {
        let empty = Geometry::new(65536, 0).unwrap();
        assert_eq!(empty.block_count(), 1);
        assert!(empty.range_of(BlockIndex(0)).is_empty());
    }

    #[test]
    fn blocks_of_odd_sizes_cover_the_file() {
        let geometry = Geometry::new(10, 25).unwrap();
        assert_eq!(geometry.block_count(), 3);
        assert_eq!(geometry.range_of(BlockIndex(2)), ByteRange::between(20, 25));
        assert_eq!(geometry.blocks_of(ByteRange::between(9, 11)), 0..2);
        assert_eq!(geometry.blocks_of(ByteRange::at(9, 0)), 0..0);
        assert_eq!(geometry.widen(ByteRange::between(11, 21)), ByteRange::between(10, 25));
        assert_eq!((geometry.bytes_of(2, false), geometry.bytes_of(2, true), geometry.bytes_of(3, true)), (20, 15, 25));
    }
}
