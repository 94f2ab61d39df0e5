//! A range of bytes in a file.

use std::fmt;

/// A range of bytes in a file: `start` included, `end` excluded. Never reversed.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct ByteRange {
    start: u64,
    end: u64,
}

impl ByteRange {
    /// The range of `len` bytes from `start`; its end saturates at `u64::MAX`.
    pub const fn at(start: u64, len: u64) -> Self {
        Self { start, end: start.saturating_add(len) }
    }

    /// The range from `start` up to but without `end`; empty at `start` when `end` lies before it.
    pub const fn between(start: u64, end: u64) -> Self {
        Self { start, end: if end < start { start } else { end } }
    }

    /// Offset of the first byte.
    pub const fn start(self) -> u64 {
        self.start
    }

    /// Offset after the last byte.
    pub const fn end(self) -> u64 {
        self.end
    }

    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The part of this range that lies before `end`.
    pub const fn clipped_to(self, end: u64) -> Self {
        if self.end <= end {
            self
        } else if self.start >= end {
            Self { start: end, end }
        } else {
            Self { start: self.start, end }
        }
    }

    /// The bytes that both ranges hold, or `None` when they share none.
    pub fn intersection(self, other: Self) -> Option<Self> {
        let start = self.start.max(other.start);
        let end = self.end.min(other.end);
        (start < end).then_some(Self { start, end })
    }

    /// Whether the byte at `offset` is in the range.
    pub const fn contains(self, offset: u64) -> bool {
        self.start <= offset && offset < self.end
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipping_never_reverses() {
        assert_eq!(ByteRange::at(10, 5).clipped_to(12), ByteRange::between(10, 12));
        assert_eq!(ByteRange::at(10, 5).clipped_to(3).len(), 0);
        assert_eq!(ByteRange::at(10, 5).clipped_to(99), ByteRange::at(10, 5));
    }

    #[test]
    fn intersections_share_bytes() {
        assert_eq!(ByteRange::at(0, 10).intersection(ByteRange::at(5, 10)), Some(ByteRange::between(5, 10)));
        assert_eq!(ByteRange::at(0, 10).intersection(ByteRange::at(10, 10)), None);
    }

    #[test]
    fn huge_lengths_saturate() {
        assert_eq!(ByteRange::at(u64::MAX - 1, 10).len(), 1);
    }
}
