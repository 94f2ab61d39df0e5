//! Whether the process can take work.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

/// Shared switch between starting, ready and draining. Cheap to clone; all clones are one switch. It starts as not
/// ready, and once draining it never becomes ready again.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicU8>);

const STARTING: u8 = 0;
const READY: u8 = 1;
const DRAINING: u8 = 2;

impl Readiness {
    /// Not ready yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Says that connections are accepted. Without effect once draining.
    pub fn set_ready(&self) {
        // A failed exchange means that the switch has moved on already, which is what must win.
        let _moved_on = self.0.compare_exchange(STARTING, READY, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Says that no new work is taken.
    pub fn set_draining(&self) {
        self.0.store(DRAINING, Ordering::Relaxed);
    }

    /// The state in a word, for probes and logs: `starting`, `ready` or `draining`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self.0.load(Ordering::Relaxed) {
            STARTING => "starting",
            READY => "ready",
            _ => "draining",
        }
    }

    /// Whether new work is taken.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.load(Ordering::Relaxed) == READY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draining_is_final() {
        let readiness = Readiness::new();
        assert!(!readiness.is_ready());
        readiness.set_ready();
        assert!(readiness.clone().is_ready());
        readiness.set_draining();
        readiness.set_ready();
        assert_eq!((readiness.is_ready(), readiness.as_str()), (false, "draining"));
    }
}
