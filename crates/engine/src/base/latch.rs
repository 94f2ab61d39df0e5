//! A flag that is set once, and that many may wait for.

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
};
use tokio::sync::Notify;

/// A flag that is set once. Waiters wake in the order in which they came, the same each time, which the channels of
/// tokio that many may listen to do not promise.
#[derive(Debug, Default)]
pub(crate) struct Latch {
    is_set: AtomicBool,
    told: Notify,
}

impl Latch {
    /// Sets it; false when it was set before.
    pub(crate) fn set(&self) -> bool {
        let is_first = !self.is_set.swap(true, Ordering::AcqRel);
        // After the store: a waiter that wakes up, or registers in between, sees the flag.
        self.told.notify_waiters();
        is_first
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    pub(crate) async fn wait(&self) {
        while !self.is_set() {
            let mut told = pin!(self.told.notified());
            // Registered before the second look at the flag: a set in between wakes this waiter.
            told.as_mut().enable();
            if self.is_set() {
                return;
            }
            told.await;
        }
    }
}
