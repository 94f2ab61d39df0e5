//! The accounting of an open file handle.

use crate::{
    label::PerLabel,
    metrics::Metrics,
    operations::{OperationCounters, Operations, ReadKind},
};
use forebay_types::Outcome;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// One client's open file: counted as open until dropped, and the only place where the bytes it reads are counted, for the
/// process and for the access log at once. So both agree, and each byte counts once.
#[derive(Debug)]
pub struct OpenHandle {
    metrics: Metrics,
    account: Arc<HandleAccount>,
}

/// The reads of a client through one open. A subscriber may keep it to follow a file that stays open for long.
#[derive(Debug, Default)]
pub struct HandleAccount {
    bytes: PerLabel<AtomicU64, { Outcome::ALL.len() }>,
    operations: OperationCounters,
}

impl OpenHandle {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self { metrics, account: Arc::default() }
    }

    /// Counts bytes sent to the client.
    pub fn account(&self, outcome: Outcome, bytes: u64) {
        self.account.bytes.of(outcome).fetch_add(bytes, Ordering::Relaxed);
        self.metrics.add_client_bytes(outcome, bytes);
    }

    /// Counts a read that was received. Calls of this and [`OpenHandle::note_vector`] must not overlap, else operations
    /// are lost: the task of the connection that owns the handle makes them.
    pub fn note_read(&self, kind: ReadKind, bytes: u64) {
        self.account.operations.add_read(kind, bytes);
    }

    /// Counts a vector read that was received. As for [`OpenHandle::note_read`].
    pub fn note_vector(&self, elements: u64, bytes: u64) {
        self.account.operations.add_vector(elements, bytes);
    }

    /// The counters, for those who follow the open.
    pub const fn shared(&self) -> &Arc<HandleAccount> {
        &self.account
    }
}

impl HandleAccount {
    /// Bytes sent to the client so far under `outcome`.
    pub fn bytes(&self, outcome: Outcome) -> u64 {
        self.bytes.of(outcome).load(Ordering::Relaxed)
    }

    /// Bytes sent to the client so far.
    pub fn all_bytes(&self) -> u64 {
        Outcome::ALL.into_iter().map(|outcome| self.bytes(outcome)).sum()
    }

    /// The reads that were received so far.
    pub fn operations(&self) -> Operations {
        self.operations.load()
    }
}

impl Drop for OpenHandle {
    fn drop(&mut self) {
        self.metrics.close_handle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_all_handles_sum_up_and_dropped_ones_leave_the_gauge() {
        let metrics = Metrics::new();
        let first = metrics.open_handle();
        let second = metrics.open_handle();
        for (outcome, bytes) in Outcome::ALL.into_iter().zip(1..) {
            first.account(outcome, bytes);
            second.account(outcome, 10 * bytes);
        }
        for outcome in Outcome::ALL {
            assert_eq!(metrics.client_bytes(outcome), first.shared().bytes(outcome) + second.shared().bytes(outcome));
        }
        assert_eq!(metrics.open_handles(), 2);
        drop((first, second));
        assert_eq!(metrics.open_handles(), 0);
    }
}
