//! Number and sizes of the reads that a client has sent through one open.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The reads of one open, counted when they are received. Ranges end at the end of the file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Operations {
    /// Bytes of plain reads.
    pub reads: Spread,
    /// Bytes of reads with page checksums.
    pub page_reads: Spread,
    /// Bytes of vector reads.
    pub vectors: Spread,
    /// Elements of vector reads.
    pub elements: Spread,
}

impl Operations {
    /// The operations of both.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self {
            reads: self.reads.with(other.reads),
            page_reads: self.page_reads.with(other.page_reads),
            vectors: self.vectors.with(other.vectors),
            elements: self.elements.with(other.elements),
        }
    }
}

/// A request that reads one range.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReadKind {
    Read,
    /// With checksums of the pages.
    PageRead,
}

/// Number, sum and limits of the sizes of operations. All are 0 without an operation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Spread {
    pub count: u64,
    pub sum: u64,
    pub min: u64,
    pub max: u64,
}

impl Spread {
    /// The operations of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let min = if self.count > 0 && other.count > 0 { self.min.min(other.min) } else { self.min.max(other.min) };
        Self { count: self.count + other.count, sum: self.sum + other.sum, min, max: self.max.max(other.max) }
    }
}

/// Operations that are counted by one task. Other tasks may read them at any time.
#[derive(Debug, Default)]
pub(crate) struct OperationCounters {
    reads: SpreadCounter,
    page_reads: SpreadCounter,
    vectors: SpreadCounter,
    elements: SpreadCounter,
}

/// Only one task adds to it. Plain loads and stores therefore suffice: on the hot path they cost a tenth of a locked addition.
#[derive(Debug, Default)]
struct SpreadCounter {
    count: AtomicU64,
    sum: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
}

impl OperationCounters {
    pub(crate) fn add_read(&self, kind: ReadKind, bytes: u64) {
        match kind {
            ReadKind::Read => self.reads.add(bytes),
            ReadKind::PageRead => self.page_reads.add(bytes),
        }
    }

    pub(crate) fn add_vector(&self, elements: u64, bytes: u64) {
        self.vectors.add(bytes);
        self.elements.add(elements);
    }

    pub(crate) fn load(&self) -> Operations {
        Operations {
            reads: self.reads.load(),
            page_reads: self.page_reads.load(),
            vectors: self.vectors.load(),
            elements: self.elements.load(),
        }
    }
}

impl SpreadCounter {
    fn add(&self, size: u64) {
        let count = self.count.load(Relaxed);
        if count == 0 || size < self.min.load(Relaxed) {
            self.min.store(size, Relaxed);
        }
        if size > self.max.load(Relaxed) {
            self.max.store(size, Relaxed);
        }
        self.sum.store(self.sum.load(Relaxed).saturating_add(size), Relaxed);
        self.count.store(count + 1, Relaxed);
    }

    fn load(&self) -> Spread {
        let [count, sum, min, max] = [&self.count, &self.sum, &self.min, &self.max].map(|value| value.load(Relaxed));
        Spread { count, sum, min, max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_number_sum_and_limits() {
        let counters = OperationCounters::default();
        assert_eq!(counters.load(), Operations::default());
        counters.add_read(ReadKind::Read, 100);
        counters.add_read(ReadKind::Read, 7);
        counters.add_read(ReadKind::PageRead, 4096);
        counters.add_vector(3, 30);
        counters.add_vector(5, 0);
        let operations = counters.load();
        assert_eq!(operations.reads, Spread { count: 2, sum: 107, min: 7, max: 100 });
        assert_eq!(operations.page_reads, Spread { count: 1, sum: 4096, min: 4096, max: 4096 });
        assert_eq!(operations.vectors, Spread { count: 2, sum: 30, min: 0, max: 30 });
        assert_eq!(operations.elements, Spread { count: 2, sum: 8, min: 3, max: 5 });
    }

    #[test]
    fn a_sum_of_spreads_ignores_the_limits_of_an_empty_one() {
        let some = Spread { count: 2, sum: 107, min: 7, max: 100 };
        assert_eq!(some.with(Spread::default()), some);
        assert_eq!(Spread::default().with(some), some);
        let more = Spread { count: 1, sum: 5, min: 5, max: 5 };
        assert_eq!(some.with(more), Spread { count: 3, sum: 112, min: 5, max: 100 });
    }
}
