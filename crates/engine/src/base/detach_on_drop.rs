//! Work that goes on when whoever waits for it leaves.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};
use tokio::runtime::Handle;

/// Work that is done by whoever waits for it, and by a task of its own from when that is dropped. `None` when it panics.
pub(crate) struct DetachOnDrop<T: Send + 'static> {
    /// `None` once it has ended.
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
}

impl<T: Send + 'static> DetachOnDrop<T> {
    pub(crate) fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)) }
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        // A panic costs the work, as it would in a task, and not whoever waits.
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        let done = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(done)) => Some(done),
            Err(_) => None,
        };
        self.work = None;
        Poll::Ready(done)
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        // Without a runtime nothing goes on at all.
        if let (Some(work), Ok(runtime)) = (self.work.take(), Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn work_goes_on_when_nobody_waits_for_it_any_more() {
        let (begin, may_begin) = oneshot::channel();
        let (end, has_ended) = oneshot::channel();
        let mut work = Box::pin(DetachOnDrop::new(async move {
            may_begin.await.unwrap();
            end.send(7).unwrap();
        }));
        assert!(work.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
        drop(work);
        begin.send(()).unwrap();
        assert_eq!(has_ended.await, Ok(7));
    }

    #[tokio::test]
    async fn a_panic_costs_the_work_only() {
        assert_eq!(DetachOnDrop::new(async { panic!("a fault in the work") }).await, None::<()>);
        assert_eq!(DetachOnDrop::new(async { 7 }).await, Some(7));
    }
}
