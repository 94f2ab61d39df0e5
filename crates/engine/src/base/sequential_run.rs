//! Whether the reads of an open file follow each other.

use forebay_types::ByteRange;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The last reads of an open file that followed each other. Concurrent ones may be taken for others: a wrong guess costs a disk access.
#[derive(Debug, Default)]
pub(crate) struct SequentialRun {
    start: AtomicU64,
    end: AtomicU64,
}

impl SequentialRun {
    pub(crate) fn note(&self, range: ByteRange) {
        if self.end.load(Relaxed) != range.start() {
            self.start.store(range.start(), Relaxed);
        }
        self.end.store(range.end(), Relaxed);
    }

    /// Whether `range`, which has been noted, followed as many bytes as it has itself.
    pub(crate) fn is_stream(&self, range: ByteRange) -> bool {
        range.start().checked_sub(self.start.load(Relaxed)).is_some_and(|before| before >= range.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_in_order_are_a_stream_and_others_are_not() {
        let run = SequentialRun::default();
        let is_stream = |start, len| {
            run.note(ByteRange::at(start, len));
            run.is_stream(ByteRange::at(start, len))
        };
        assert!(!is_stream(1000, 10));
        assert!(is_stream(1010, 10));
        assert!(is_stream(1020, 5));
        assert!(!is_stream(1025, 100), "longer than all before it");
        assert!(is_stream(1125, 100));
        assert!(!is_stream(0, 10));
        assert!(!is_stream(20, 10), "a gap");
        assert!(!is_stream(5, 10));
    }
}
