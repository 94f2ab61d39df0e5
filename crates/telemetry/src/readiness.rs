//! Whether the process can take work.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

/// Shared switch between starting, ready, draining and stopping. Cheap to clone; all clones are one switch. It starts as not
/// ready, draining can be undone, and once stopping it never becomes anything else.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicU8>);

const STARTING: u8 = 0;
const READY: u8 = 1;
const DRAINING: u8 = 2;
const STOPPING: u8 = 3;

impl Readiness {
    /// Not ready yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Says that connections are accepted, for the first time or again after draining. Without effect once stopping.
    pub fn set_ready(&self) {
        self.advance(READY);
    }

    /// Says that no new work is taken, until [`Readiness::set_ready`]. Without effect once stopping.
    pub fn set_draining(&self) {
        self.advance(DRAINING);
    }

    /// Says that the process is about to end.
    pub fn set_stopping(&self) {
        self.0.store(STOPPING, Ordering::Relaxed);
    }

    /// The state in a word, for probes and logs: `starting`, `ready`, `draining` or `stopping`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self.0.load(Ordering::Relaxed) {
            STARTING => "starting",
            READY => "ready",
            DRAINING => "draining",
            _ => "stopping",
        }
    }

    /// Whether new work is taken, as probes are told.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.load(Ordering::Relaxed) == READY
    }

    /// Whether new connections and opens are turned away, so that clients go elsewhere.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.0.load(Ordering::Relaxed) == DRAINING
    }

    fn advance(&self, to: u8) {
        // A failed update means that the process is stopping, which is what must win.
        let _stopping =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| (state != STOPPING).then_some(to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draining_can_be_undone() {
        let readiness = Readiness::new();
        assert!(!readiness.is_ready());
        assert!(!readiness.is_draining());
        readiness.set_ready();
        assert!(readiness.clone().is_ready());
        readiness.set_draining();
        assert_eq!((readiness.is_ready(), readiness.is_draining(), readiness.as_str()), (false, true, "draining"));
        readiness.set_ready();
        assert_eq!((readiness.is_ready(), readiness.is_draining(), readiness.as_str()), (true, false, "ready"));
    }

    #[test]
    fn stopping_is_final() {
        let readiness = Readiness::new();
        readiness.set_stopping();
        readiness.set_ready();
        readiness.set_draining();
        assert_eq!((readiness.is_ready(), readiness.as_str()), (false, "stopping"));
    }
}
