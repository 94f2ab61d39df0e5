//! A flag that is set once, and that many may wait for.

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
};
use tokio::sync::Notify;

/// A flag that is set once. Who waits for it is woken in the order of waiting: the same each time, which the channels of
/// tokio that many may listen to do not promise.
#[derive(Debug, Default)]
pub(crate) struct Latch {
    is_set: AtomicBool,
    told: Notify,
}

impl Latch {
    pub(crate) fn set(&self) {
        self.is_set.store(true, Ordering::Release);
        self.told.notify_waiters();
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// Waits until the flag is set.
    pub(crate) async fn wait(&self) {
        while !self.is_set() {
            let mut told = pin!(self.told.notified());
            told.as_mut().enable();
            if self.is_set() {
                return;
            }
            told.await;
        }
    }
}
