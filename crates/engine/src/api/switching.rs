//! Sending the client of an open file to the file itself, in answer to a read.

use crate::upkeep::leases::Leases;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

/// Whether the client of a handle can be sent to the file during its reads. By default it cannot.
#[derive(Default)]
pub(crate) struct Switching {
    /// How many more reads may be tried to be answered so.
    tries_left: AtomicU32,
    pub(crate) is_done: AtomicBool,
    /// Set where switching is allowed.
    pub(crate) leases: Option<Arc<Leases>>,
}

/// Reads of one handle that may be answered by a redirect. A client that has several reads under way gets several, and the first
/// one counts; a client that continues to read after so many does not follow, and is served.
const SWITCH_TRIES_MAX: u32 = 16;

impl Switching {
    /// For a client that follows redirects to files in answer to reads.
    pub(crate) const fn allowed(leases: Arc<Leases>) -> Self {
        Self { tries_left: AtomicU32::new(SWITCH_TRIES_MAX), is_done: AtomicBool::new(false), leases: Some(leases) }
    }

    pub(crate) fn is_allowed(&self) -> bool {
        // Relaxed: a try too many costs one more look at the disk, nothing else.
        self.tries_left.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn take_try(&self) -> bool {
        // `checked_sub` stops at zero, so concurrent reads cannot wrap the count.
        let take = |left: u32| left.checked_sub(1);
        self.tries_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_does_not_follow_is_served_in_the_end() {
        assert!(!Switching::default().is_allowed());
        let switching = Switching::allowed(Arc::default());
        let tries = (0..100).map(|_| switching.take_try()).filter(|is_taken| *is_taken).count();
        assert_eq!(tries, usize::try_from(SWITCH_TRIES_MAX).unwrap());
        assert!(!switching.is_allowed());
    }
}
