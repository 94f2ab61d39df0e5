//! Questions asked once for all who want to know the same at the same time.

use crate::{Error, base::latch::Latch};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, OnceLock},
    time::Instant,
};

/// Questions under way, each under the name of what it is about. Who asks while one is under way gets its answer, if it is
/// recent enough; nothing is remembered behind the answer.
pub(crate) struct Flights<K, T> {
    under_way: Mutex<BTreeMap<K, Arc<Answer<T>>>>,
}

/// How recent an answer must be: whatever is under way will do, or only what was asked at a time or later.
pub(crate) type Since = Option<Instant>;

/// What is answered; nothing, once it has come in, when the question broke off.
struct Answer<T> {
    value: OnceLock<T>,
    asked: Instant,
    has_come: Latch,
}

/// Takes a question off the list when it is answered or its task has broken off, and then tells who waits.
struct Landing<K: Ord, T> {
    flights: Arc<Flights<K, T>>,
    name: K,
    answer: Arc<Answer<T>>,
}

impl<K, T> Default for Flights<K, T> {
    fn default() -> Self {
        Self { under_way: Mutex::default() }
    }
}

impl<K, T> Flights<K, T>
where
    K: Clone + Ord + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// The answer to the question about `name`, which `ask` asks unless it is under way. One under way that was asked before
    /// `since` is waited for, so that there is never more than one. It goes on when those who wait for it leave.
    ///
    /// # Errors
    /// When the question broke off.
    pub(crate) async fn join<F>(self: &Arc<Self>, name: &K, since: Since, ask: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let answer = loop {
            let answer = self.answer_to(name, &ask);
            answer.has_come.wait().await;
            if since.is_none_or(|since| answer.asked >= since) {
                break answer;
            }
        };
        answer.value.get().cloned().ok_or(Error::Internal { what: "a question to an origin broke off" })
    }

    fn answer_to<F>(self: &Arc<Self>, name: &K, ask: &impl Fn() -> F) -> Arc<Answer<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut under_way = self.under_way();
        if let Some(answer) = under_way.get(name) {
            return Arc::clone(answer);
        }
        let answer = Arc::new(Answer {
            value: OnceLock::new(),
            asked: forebay_net::clock::monotonic(),
            has_come: Latch::default(),
        });
        under_way.insert(name.clone(), Arc::clone(&answer));
        let landing = Landing { flights: Arc::clone(self), name: name.clone(), answer: Arc::clone(&answer) };
        let question = ask();
        tokio::spawn(async move {
            let value = question.await;
            landing.answer.value.get_or_init(|| value);
        });
        answer
    }

    fn under_way(&self) -> MutexGuard<'_, BTreeMap<K, Arc<Answer<T>>>> {
        self.under_way.lock()
    }
}

impl<K: Ord, T> Drop for Landing<K, T> {
    fn drop(&mut self) {
        self.flights.under_way.lock().remove(&self.name);
        // Off the list first: who asks from now on asks anew.
        self.answer.has_come.set();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::time::Duration;
    use tokio::sync::watch;

    /// A question whose answer is how many were asked before it.
    fn counted(asked: &Arc<AtomicU32>) -> impl Future<Output = u32> + Send + use<> {
        let asked = Arc::clone(asked);
        async move {
            tokio::task::yield_now().await;
            asked.fetch_add(1, SeqCst)
        }
    }

    #[tokio::test]
    async fn a_question_under_way_answers_all_who_ask_it() {
        let (flights, asked) = (Arc::new(Flights::<u8, u32>::default()), Arc::new(AtomicU32::new(0)));
        let ask = || counted(&asked);
        let (first, second, other) =
            tokio::join!(flights.join(&1, None, ask), flights.join(&1, None, ask), flights.join(&2, None, ask));
        assert_eq!(first, second);
        assert_ne!(first, other);
        assert_eq!(asked.load(SeqCst), 2);
        assert_eq!(flights.join(&1, None, ask).await, Ok(2), "an answer is not remembered");
        assert!(flights.under_way().is_empty());
    }

    #[tokio::test]
    async fn a_question_goes_on_without_the_one_who_asked_it() {
        let (flights, (open, opened)) = (Arc::new(Flights::<u8, u32>::default()), watch::channel(false));
        let ask = || {
            let mut opened = opened.clone();
            async move {
                opened.wait_for(|open| *open).await.unwrap();
                7
            }
        };
        let mut left = Box::pin(flights.join(&1, None, ask));
        assert!(polled_once(left.as_mut()).await.is_none());
        drop(left);
        let second = flights.join(&1, None, || async { panic!("it is under way") });
        open.send_replace(true);
        assert_eq!(second.await, Ok(7));
    }

    #[tokio::test]
    async fn an_answer_that_may_be_too_old_is_waited_for_and_the_question_asked_again() {
        let (flights, asked) = (Arc::new(Flights::<u8, u32>::default()), Arc::new(AtomicU32::new(0)));
        let ask = || counted(&asked);
        let mut first = Box::pin(flights.join(&1, None, ask));
        assert!(polled_once(first.as_mut()).await.is_none());
        let later = flights.under_way()[&1].asked + Duration::from_nanos(1);
        while forebay_net::clock::monotonic() < later {
            std::hint::spin_loop();
        }
        let (first, any, recent, recent_too) = tokio::join!(
            first,
            flights.join(&1, None, ask),
            flights.join(&1, Some(later), ask),
            flights.join(&1, Some(later), ask),
        );
        assert_eq!((first, any, recent, recent_too), (Ok(0), Ok(0), Ok(1), Ok(1)));
        assert_eq!(asked.load(SeqCst), 2);
    }

    #[tokio::test]
    async fn a_question_that_breaks_off_is_an_error_and_may_be_asked_again() {
        let flights = Arc::new(Flights::<u8, u32>::default());
        let broken = flights.join(&1, None, || async { panic!("told to panic") }).await;
        assert!(matches!(broken, Err(Error::Internal { .. })));
        assert_eq!(flights.join(&1, None, || async { 1 }).await, Ok(1));
    }

    /// What a future gives when it is polled once.
    async fn polled_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(match std::pin::Pin::new(&mut future).poll(context) {
                std::task::Poll::Ready(output) => Some(output),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
