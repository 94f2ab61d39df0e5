//! Blocks: the fixed-size units of caching.

use crate::ByteSize;
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
}
