//! A value made once for all who ask at the same time, also when making it fails.

use crate::Error;
use parking_lot::Mutex;
use std::{future::Future, time::Instant};
use tokio::sync::OnceCell;

/// A value that is made by whoever asks first. All who ask meanwhile get the same value or the same error; who asks after a
/// failure tries again.
#[derive(Debug)]
pub(crate) struct Coalesced<T> {
    cell: OnceCell<T>,
    failure: Mutex<Option<(Instant, Error)>>,
}

impl<T> Default for Coalesced<T> {
    fn default() -> Self {
        Self { cell: OnceCell::new(), failure: Mutex::new(None) }
    }
}

impl<T: Clone> Coalesced<T> {
    /// A value that is there from the start.
    pub(crate) fn ready(value: T) -> Self {
        Self { cell: OnceCell::new_with(Some(value)), failure: Mutex::new(None) }
    }

    /// The value, if it has been made.
    pub(crate) fn get(&self) -> Option<&T> {
        self.cell.get()
    }

    /// The value, made by `make` unless somebody is making it or has made it.
    pub(crate) async fn get_or_make<F>(&self, make: impl FnOnce() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let asked = forebay_net::clock::monotonic();
        let value = self.cell.get_or_try_init(|| async {
            // Queued behind an attempt that has failed since: that failure is the answer to this question too.
            if let Some(error) = self.failure_since(asked) {
                return Err(error);
            }
            make().await.inspect_err(|error| {
                let failed = (forebay_net::clock::monotonic(), error.clone());
                *self.failure.lock() = Some(failed);
            })
        });
        value.await.cloned()
    }

    fn failure_since(&self, asked: Instant) -> Option<Error> {
        let failure = self.failure.lock();
        failure.as_ref().filter(|(failed, _)| *failed >= asked).map(|(_, error)| error.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[tokio::test]
    async fn one_attempt_serves_all_who_wait_for_it() {
        let value: Coalesced<u32> = Coalesced::default();
        let attempts = AtomicUsize::new(0);
        let fail = || async {
            attempts.fetch_add(1, SeqCst);
            tokio::task::yield_now().await;
            Err(Error::ShuttingDown)
        };
        let (first, second) = tokio::join!(value.get_or_make(fail), value.get_or_make(fail));
        assert_eq!((first, second), (Err(Error::ShuttingDown), Err(Error::ShuttingDown)));
        assert_eq!(attempts.load(SeqCst), 1);
        assert_eq!(value.get_or_make(|| async { Ok(7) }).await, Ok(7), "who asks later tries again");
        assert_eq!(value.get(), Some(&7));
    }
}
