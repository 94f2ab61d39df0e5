//! The right to write to parts, as this process knows it without a look at the file system.

use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

/// Shortest lease: a network file system may take a second to show a new record to others.
pub const LEASE_MIN: Duration = Duration::from_secs(2);

/// The time for which this process may use its parts: it ends well before another filler may take them.
#[derive(Debug)]
pub(crate) struct Tenure {
    renewed: Mutex<Option<Instant>>,
    time_max: Duration,
}

/// The right of this process to one part.
#[derive(Debug)]
pub(crate) struct PartLease {
    tenure: Arc<Tenure>,
    /// 0 if the part is not held.
    epoch: AtomicU64,
}

impl Tenure {
    /// For records that others wait for during `lease`.
    pub(crate) const fn new(lease: Duration) -> Self {
        // Half of it: an operation that has begun in time may take the other half.
        Self { renewed: Mutex::new(None), time_max: lease.checked_div(2).expect("2 is not 0") }
    }

    /// Notes a renewal that began at `now`.
    pub(crate) fn renew(&self, now: Instant) {
        *self.renewed.lock() = Some(now);
    }

    pub(crate) fn end(&self) {
        *self.renewed.lock() = None;
    }

    pub(crate) fn lasts(&self, now: Instant) -> bool {
        self.renewed.lock().is_some_and(|renewed| now.saturating_duration_since(renewed) < self.time_max)
    }
}

impl PartLease {
    pub(crate) const fn new(tenure: Arc<Tenure>) -> Self {
        Self { tenure, epoch: AtomicU64::new(0) }
    }

    /// The epoch in which the part is held, if it is.
    pub(crate) fn epoch(&self) -> Option<u64> {
        Some(self.epoch.load(SeqCst)).filter(|&epoch| epoch != 0)
    }

    pub(crate) fn begin(&self, epoch: u64) {
        self.epoch.store(epoch, SeqCst);
    }

    pub(crate) fn end(&self) {
        self.epoch.store(0, SeqCst);
    }

    /// Whether the part may be used at `now`.
    pub(crate) fn holds(&self, now: Instant) -> bool {
        self.epoch().is_some() && self.tenure.lasts(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_held_for_half_of_the_lease_after_the_last_renewal() {
        #[expect(clippy::disallowed_methods, reason = "some moment; nothing depends on which")]
        let now = Instant::now();
        let tenure = Arc::new(Tenure::new(Duration::from_secs(10)));
        let lease = PartLease::new(Arc::clone(&tenure));
        lease.begin(3);
        assert!(!lease.holds(now), "nothing was renewed yet");
        tenure.renew(now);
        assert!(lease.holds(now + Duration::from_millis(4_999)));
        assert!(!lease.holds(now + Duration::from_secs(5)));
        lease.end();
        assert!(!lease.holds(now));
        lease.begin(4);
        tenure.end();
        assert!(!lease.holds(now));
    }
}
