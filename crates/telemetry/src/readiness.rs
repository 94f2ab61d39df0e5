//! Whether the process accepts work.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

/// Shared switch between starting, ready, draining and stopping. Cheap to clone; all clones are one switch. It begins as
/// starting, draining can be undone, and stopping is final.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicU8>);

const STARTING: u8 = 0;
const READY: u8 = 1;
const DRAINING: u8 = 2;
const STOPPING: u8 = 3;

impl Readiness {
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts connections, for the first time or again after draining. No effect after [`Readiness::set_stopping`].
    pub fn set_ready(&self) {
        self.advance(READY);
    }

    /// Accepts no new work until [`Readiness::set_ready`]. No effect after [`Readiness::set_stopping`].
    pub fn set_draining(&self) {
        self.advance(DRAINING);
    }

    pub fn set_stopping(&self) {
        self.0.store(STOPPING, Ordering::Relaxed);
    }

    /// The state as probes and logs show it: `starting`, `ready`, `draining` or `stopping`.
    pub fn as_str(&self) -> &'static str {
        match self.0.load(Ordering::Relaxed) {
            STARTING => "starting",
            READY => "ready",
            DRAINING => "draining",
            _ => "stopping",
        }
    }

    /// Whether new work is accepted, as probes report it.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.load(Ordering::Relaxed) == READY
    }

    /// Whether opens are refused, so that clients use another server.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.0.load(Ordering::Relaxed) == DRAINING
    }

    fn advance(&self, to: u8) {
        // A failed update means that the process is stopping, which must win.
        let _stopping =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| (state != STOPPING).then_some(to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draining_can_be_undone_and_stopping_is_final() {
        let readiness = Readiness::new();
        assert!(!readiness.is_ready());
        assert!(!readiness.is_draining());
        readiness.set_ready();
        assert!(readiness.clone().is_ready());
        readiness.set_draining();
        assert_eq!((readiness.is_ready(), readiness.is_draining(), readiness.as_str()), (false, true, "draining"));
        readiness.set_ready();
        assert_eq!((readiness.is_ready(), readiness.is_draining(), readiness.as_str()), (true, false, "ready"));
        readiness.set_stopping();
        readiness.set_ready();
        readiness.set_draining();
        assert_eq!((readiness.is_ready(), readiness.as_str()), (false, "stopping"));
    }
}
