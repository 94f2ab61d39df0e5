//! Bytes of one file by outcome, for its access records.

use forebay_types::Outcome;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of one file given to clients, as its access records count them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Bytes {
    pub(crate) hit: u64,
    /// From the origin and kept.
    pub(crate) missed: u64,
    /// From the origin and not kept.
    pub(crate) bypassed: u64,
}

impl Bytes {
    /// The bytes added since `earlier`.
    pub(crate) const fn since(&self, earlier: &Self) -> Self {
        Self {
            hit: self.hit.saturating_sub(earlier.hit),
            missed: self.missed.saturating_sub(earlier.missed),
            bypassed: self.bypassed.saturating_sub(earlier.bypassed),
        }
    }
}

/// Counters of one file's bytes that many tasks add to.
#[derive(Debug, Default)]
pub(crate) struct Account {
    hit: AtomicU64,
    missed: AtomicU64,
    bypassed: AtomicU64,
}

impl Account {
    pub(crate) fn add(&self, outcome: Outcome, bytes: u64) {
        let counter = match outcome {
            Outcome::Hit => &self.hit,
            // XCache counts them so: the bytes came from the origin and were kept.
            Outcome::Missed | Outcome::Coalesced => &self.missed,
            Outcome::Bypassed => &self.bypassed,
        };
        counter.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn bytes(&self) -> Bytes {
        Bytes { hit: self.hit.load(Relaxed), missed: self.missed.load(Relaxed), bypassed: self.bypassed.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coalesced_bytes_count_as_missed_in_the_history() {
        let account = Account::default();
        for (outcome, bytes) in Outcome::ALL.into_iter().zip(1..) {
            account.add(outcome, bytes);
        }
        assert_eq!(account.bytes(), Bytes { hit: 1, missed: 2 + 3, bypassed: 4 });
    }
}
