//! Bytes and calls of one record, from one open or several.

use crate::{HandleAccount, Operations, Spread};
use forebay_monitoring::{CallStatistics, CloseRecord, Transferred};

/// The reads of a client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reads {
    bytes: u64,
    operations: Operations,
}

impl Reads {
    pub(super) fn of(account: &HandleAccount) -> Self {
        Self { bytes: account.all_bytes(), operations: account.operations() }
    }

    /// Those of two opens.
    #[must_use]
    pub(super) fn with(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, operations: self.operations.with(&other.operations) }
    }

    /// Bytes so far. Those of page reads are plain reads, as in XRootD; clients got the rest by vector reads.
    pub(super) fn transferred(&self) -> Transferred {
        let vector = self.operations.vectors.sum.min(self.bytes);
        Transferred { read: self.bytes - vector, vector }
    }

    /// The record of the close of `file`.
    pub(super) fn close_record(&self, file: u32) -> CloseRecord {
        let Operations { reads, page_reads, vectors, elements } = self.operations;
        let reads: Spread = reads.with(page_reads);
        let calls = CallStatistics {
            reads: reads.count,
            read_min: reads.min,
            read_max: reads.max,
            vectors: vectors.count,
            vector_min: vectors.min,
            vector_max: vectors.max,
            elements: elements.sum,
            elements_min: elements.min,
            elements_max: elements.max,
        };
        CloseRecord { file, bytes: self.transferred(), calls }
    }
}
