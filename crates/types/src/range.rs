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

    /// This range in parts that end at multiples of `len`, which is not 0; the first and the last one may be shorter.
    pub fn cut_at_multiples(self, len: u64) -> impl Iterator<Item = Self> {
        let mut start = self.start;
        std::iter::from_fn(move || {
            let part = Self::between(start, self.end.min((start - start % len).saturating_add(len)));
            start = part.end;
            (!part.is_empty()).then_some(part)
        })
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
    fn parts_end_at_multiples() {
        let cut: Vec<_> = ByteRange::between(100, 2049).cut_at_multiples(1024).collect();
        assert_eq!(cut, [ByteRange::between(100, 1024), ByteRange::at(1024, 1024), ByteRange::at(2048, 1)]);
        assert_eq!(ByteRange::at(5, 0).cut_at_multiples(1024).count(), 0);
        let last: Vec<_> = ByteRange::between(u64::MAX - 1, u64::MAX).cut_at_multiples(1024).collect();
        assert_eq!(last, [ByteRange::between(u64::MAX - 1, u64::MAX)]);
    }

    #[test]
    fn ranges_are_clipped_intersected_and_never_reversed() {
        assert_eq!(ByteRange::at(10, 5).clipped_to(12), ByteRange::between(10, 12));
        assert_eq!(ByteRange::at(10, 5).clipped_to(3).len(), 0);
        assert_eq!(ByteRange::at(10, 5).clipped_to(99), ByteRange::at(10, 5));
        assert_eq!(ByteRange::at(0, 10).intersection(ByteRange::at(5, 10)), Some(ByteRange::between(5, 10)));
        assert_eq!(ByteRange::at(0, 10).intersection(ByteRange::at(10, 10)), None);
        assert_eq!(ByteRange::at(u64::MAX - 1, 10).len(), 1);
    }
}
