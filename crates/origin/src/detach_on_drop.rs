//! Work that continues when its caller leaves.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};
use tokio::runtime::Handle;

/// Runs `work` in the caller's task while the caller waits for it, and in a task of its own once the caller has dropped it.
/// Resolves to `None` when the work panics.
#[must_use = "futures do nothing unless polled"]
pub struct DetachOnDrop<T: Send + 'static> {
    /// `None` once it has ended.
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
}

impl<T: Send + 'static> DetachOnDrop<T> {
    /// Wraps `work`, which starts with the first poll.
    pub fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)) }
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        // A panic ends the work, as it would in a task, and not the caller: others may wait for the same work.
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        let done = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(done)) => Some(done),
            Err(_) => None,
        };
        // Dropped here: otherwise `drop` would start a task for work that has ended.
        self.work = None;
        Poll::Ready(done)
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        // Without a runtime nothing can continue: the process is shutting down.
        if let (Some(work), Ok(runtime)) = (self.work.take(), Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn work_continues_after_its_caller_has_left() {
        let (begin, may_begin) = oneshot::channel();
        let (end, has_ended) = oneshot::channel();
        let mut work = Box::pin(DetachOnDrop::new(async move {
            may_begin.await.unwrap();
            end.send(7).unwrap();
        }));
        assert!(work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(work);
        begin.send(()).unwrap();
        assert_eq!(has_ended.await, Ok(7));
    }

    #[tokio::test]
    async fn a_panic_ends_the_work_only() {
        assert_eq!(DetachOnDrop::new(async { panic!("a fault in the work") }).await, None::<()>);
        assert_eq!(DetachOnDrop::new(async { 7 }).await, Some(7));
    }
}
