//! The accounting of an open file handle.

use crate::{label::PerLabel, metrics::Metrics};
use forebay_types::Outcome;
use std::sync::atomic::{AtomicU64, Ordering};

/// One client's open file: counted as open until dropped, and the only place where the bytes it reads are counted, for the
/// process and for the access log at once. So both agree, and each byte counts once.
#[derive(Debug)]
pub struct OpenHandle {
    metrics: Metrics,
    bytes: PerLabel<AtomicU64, { Outcome::ALL.len() }>,
}

impl OpenHandle {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self { metrics, bytes: PerLabel::default() }
    }

    /// Counts bytes sent to the client.
    pub fn account(&self, outcome: Outcome, bytes: u64) {
        self.bytes.of(outcome).fetch_add(bytes, Ordering::Relaxed);
        self.metrics.add_client_bytes(outcome, bytes);
    }

    /// Bytes counted so far under `outcome`.
    pub fn bytes(&self, outcome: Outcome) -> u64 {
        self.bytes.of(outcome).load(Ordering::Relaxed)
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
            assert_eq!(metrics.client_bytes(outcome), first.bytes(outcome) + second.bytes(outcome));
        }
        assert_eq!(metrics.open_handles(), 2);
        drop((first, second));
        assert_eq!(metrics.open_handles(), 0);
    }
}
