//! An open file handle as the accounts see it.

use crate::{label::PerLabel, metrics::Metrics};
use forebay_types::Outcome;
use std::sync::atomic::{AtomicU64, Ordering};

/// One client's open file: counted in the gauge until dropped, and the only place where the bytes it reads are
/// accounted, for the process and for the access log at once. So both agree, and each byte counts once.
#[derive(Debug)]
pub struct OpenHandle {
    metrics: Metrics,
    bytes: PerLabel<AtomicU64, { Outcome::ALL.len() }>,
}

impl OpenHandle {
    pub(crate) fn new(metrics: Metrics) -> Self {
        metrics.0.open_handles.fetch_add(1, Ordering::Relaxed);
        Self { metrics, bytes: PerLabel::default() }
    }

    /// Accounts bytes that were sent to the client.
    pub fn account(&self, outcome: Outcome, bytes: u64) {
        self.bytes.of(outcome).fetch_add(bytes, Ordering::Relaxed);
        self.metrics.0.client_bytes.of(outcome).fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes accounted so far under `outcome`.
    #[must_use]
    pub fn bytes(&self, outcome: Outcome) -> u64 {
        self.bytes.of(outcome).load(Ordering::Relaxed)
    }
}

impl Drop for OpenHandle {
    fn drop(&mut self) {
        self.metrics.0.open_handles.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_all_handles_sum_up_to_those_of_the_process() {
        let metrics = Metrics::new();
        let (first, second) = (metrics.open_handle(), metrics.open_handle());
        for (outcome, bytes) in Outcome::ALL.into_iter().zip(1..) {
            first.account(outcome, bytes);
            second.account(outcome, 10 * bytes);
        }
        for outcome in Outcome::ALL {
            assert_eq!(metrics.client_bytes(outcome), first.bytes(outcome) + second.bytes(outcome));
        }
    }

    #[test]
    fn a_dropped_handle_leaves_the_gauge() {
        let metrics = Metrics::new();
        let handle = metrics.open_handle();
        assert_eq!(metrics.0.open_handles.load(Ordering::Relaxed), 1);
        drop(handle);
        assert_eq!(metrics.0.open_handles.load(Ordering::Relaxed), 0);
    }
}
