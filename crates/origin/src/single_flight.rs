//! One attempt for all callers that want the same result at the same time.
//!
//! [`SingleFlight`] asks one question for each key and forgets the answer; [`SharedValue`] makes one value and keeps it while
//! it is usable. In both, an attempt continues when the callers that wait for it leave, so that a later attempt never meets
//! the rest of an earlier one, and a failure is shared with the callers that were waiting for it: later ones try again.

use crate::DetachOnDrop;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, OnceLock},
    time::Instant,
};
use tokio::sync::Semaphore;

/// Questions under way, by what they are about. A caller that asks while one is under way gets its answer.
pub struct SingleFlight<K, T> {
    under_way: Mutex<BTreeMap<K, Arc<Attempt<T>>>>,
}

/// A value that is made when it is needed, and made again when it has become unusable.
pub struct SharedValue<V, E> {
    state: Mutex<State<V, E>>,
}

struct State<V, E> {
    value: Option<V>,
    under_way: Option<Arc<Attempt<Result<V, E>>>>,
}

/// One attempt. An attempt that panics ends without an outcome.
struct Attempt<T> {
    started: Instant,
    outcome: OnceLock<T>,
    /// Has no permits and is closed at the end, which wakes the callers in the order in which they came. The channels of tokio
    /// that many may listen to wake in any order, and a simulation must run the same way each time.
    ended: Semaphore,
}

/// Ends an attempt when it is done, and also when it panics or the runtime drops it.
struct Landing<T, F: FnOnce(Option<&T>)> {
    attempt: Arc<Attempt<T>>,
    leave: Option<F>,
}

impl<K, T> SingleFlight<K, T>
where
    K: Clone + Ord + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// The answer to the question about `key`, which `ask` asks unless it is under way. With `since`, only an answer to a
    /// question asked at that time or later will do: an earlier one is awaited first, so that there is never more than one.
    ///
    /// `None` when the question panicked.
    pub async fn join<F>(self: &Arc<Self>, key: &K, since: Option<Instant>, ask: impl FnOnce() -> F) -> Option<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let question = loop {
            let attempt = {
                let mut under_way = self.under_way.lock();
                let Some(attempt) = under_way.get(key) else {
                    let (table, name) = (Arc::clone(self), key.clone());
                    // Off the table before the callers wake: those that come from now on ask again.
                    let leave = move |_: Option<&T>| drop(table.under_way.lock().remove(&name));
                    // Only created here: it is polled after the lock is released.
                    let (attempt, question) = Attempt::start(ask(), leave);
                    under_way.insert(key.clone(), attempt);
                    break question;
                };
                Arc::clone(attempt)
            };
            // Awaited outside of the lock, which other keys need.
            let answer = attempt.outcome().await;
            if since.is_none_or(|since| attempt.started >= since) {
                return answer;
            }
        };
        question.await
    }
}

impl<K, T> Default for SingleFlight<K, T> {
    fn default() -> Self {
        Self { under_way: Mutex::default() }
    }
}

impl<V, E> SharedValue<V, E>
where
    V: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    /// A value that exists from the start.
    pub const fn ready(value: V) -> Self {
        Self { state: Mutex::new(State { value: Some(value), under_way: None }) }
    }

    /// The value made last, usable or not.
    pub fn get(&self) -> Option<V> {
        self.state.lock().value.clone()
    }

    /// Has `make` make the value at once if it can, unless there is one or it is being made.
    pub fn make_at_once(&self, make: impl FnOnce() -> Option<V>) {
        // Locked meanwhile: an attempt that began in between would make a second value.
        let mut state = self.state.lock();
        if state.value.is_none() && state.under_way.is_none() {
            state.value = make();
        }
    }

    /// The value, made by `make` when there is none that `is_usable`, unless an attempt is under way.
    ///
    /// A caller whose own attempt succeeds gets that value whatever `is_usable` says. `None` when the attempt panicked.
    pub async fn get_or_make<F>(
        self: &Arc<Self>,
        is_usable: impl Fn(&V) -> bool,
        make: impl FnOnce() -> F,
    ) -> Option<Result<V, E>>
    where
        F: Future<Output = Result<V, E>> + Send + 'static,
    {
        let making = loop {
            let attempt = {
                let mut state = self.state.lock();
                if let Some(value) = state.value.as_ref().filter(|value| is_usable(value)) {
                    return Some(Ok(value.clone()));
                }
                let Some(attempt) = &state.under_way else {
                    // Owned by the attempt, which must store its value even if all callers have left.
                    let shared = Arc::clone(self);
                    let leave = move |outcome: Option<&Result<V, E>>| shared.note_ended(outcome);
                    let (attempt, making) = Attempt::start(make(), leave);
                    state.under_way = Some(attempt);
                    break making;
                };
                Arc::clone(attempt)
            };
            match attempt.outcome().await {
                // Good for the caller that made it, not for this one.
                Some(Ok(value)) if !is_usable(&value) => {}
                outcome => return outcome,
            }
        };
        making.await
    }

    fn note_ended(&self, outcome: Option<&Result<V, E>>) {
        let mut state = self.state.lock();
        state.under_way = None;
        // A failure leaves the last value in place: an unusable one may still be good for other callers.
        if let Some(Ok(value)) = outcome {
            state.value = Some(value.clone());
        }
    }
}

impl<V, E> Default for SharedValue<V, E> {
    fn default() -> Self {
        Self { state: Mutex::new(State { value: None, under_way: None }) }
    }
}

impl<T: Clone + Send + Sync + 'static> Attempt<T> {
    /// An attempt, and the work of its first caller, after which `leave` is called and then all callers wake.
    fn start(
        work: impl Future<Output = T> + Send + 'static,
        leave: impl FnOnce(Option<&T>) + Send + 'static,
    ) -> (Arc<Self>, DetachOnDrop<T>) {
        let started = forebay_net::clock::monotonic();
        let attempt = Arc::new(Self { started, outcome: OnceLock::new(), ended: Semaphore::new(0) });
        let landing = Landing { attempt: Arc::clone(&attempt), leave: Some(leave) };
        let work = DetachOnDrop::new(async move {
            let outcome = work.await;
            landing.attempt.outcome.get_or_init(|| outcome).clone()
        });
        (attempt, work)
    }

    /// The outcome, once there is one.
    async fn outcome(&self) -> Option<T> {
        let acquired = self.ended.acquire().await;
        assert!(acquired.is_err(), "the semaphore has no permits");
        self.outcome.get().cloned()
    }
}

impl<T, F: FnOnce(Option<&T>)> Drop for Landing<T, F> {
    fn drop(&mut self) {
        if let Some(leave) = self.leave.take() {
            // Before the callers wake: they must not find an attempt that has ended.
            leave(self.attempt.outcome.get());
        }
        self.attempt.ended.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        pin::{Pin, pin},
        sync::atomic::{AtomicU32, Ordering::SeqCst},
        task::{Context, Waker},
        time::Duration,
    };
    use tokio::{sync::watch, task::yield_now};

    type Questions = Arc<SingleFlight<u8, u32>>;
    type Value = Arc<SharedValue<u32, &'static str>>;

    /// A question whose answer is how many were asked before it.
    fn counted(asked: &Arc<AtomicU32>) -> impl Future<Output = u32> + Send + use<> {
        let asked = Arc::clone(asked);
        async move {
            yield_now().await;
            asked.fetch_add(1, SeqCst)
        }
    }

    fn poll_once<T>(future: Pin<&mut impl Future<Output = T>>) {
        assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }

    #[tokio::test]
    async fn a_question_under_way_answers_all_callers() {
        let (questions, asked) = (Questions::default(), Arc::default());
        let ask = || counted(&asked);
        let (first, second, other) =
            tokio::join!(questions.join(&1, None, ask), questions.join(&1, None, ask), questions.join(&2, None, ask));
        assert_eq!(first, second);
        assert_ne!(first, other);
        assert_eq!(asked.load(SeqCst), 2);
        assert_eq!(questions.join(&1, None, ask).await, Some(2), "an answer is not remembered");
        assert!(questions.under_way.lock().is_empty());
    }

    #[tokio::test]
    async fn a_value_is_made_at_once_unless_there_is_one_or_it_is_being_made() {
        let value = Value::default();
        value.make_at_once(|| None);
        assert_eq!(value.get(), None);
        let never = || -> Option<u32> { panic!("it is there, or being made") };
        {
            let mut making = pin!(value.get_or_make(
                |_| true,
                || async {
                    yield_now().await;
                    Ok(1)
                }
            ));
            poll_once(making.as_mut());
            value.make_at_once(never);
            assert_eq!(making.await, Some(Ok(1)));
        }
        value.make_at_once(never);
        let other = Value::default();
        other.make_at_once(|| Some(2));
        assert_eq!(other.get_or_make(|_| true, || async { Ok(3) }).await, Some(Ok(2)));
    }

    #[tokio::test]
    async fn a_question_continues_without_the_caller_that_asked_it() {
        let (questions, (open, opened)) = (Questions::default(), watch::channel(false));
        let ask = || {
            let mut opened = opened.clone();
            async move {
                opened.wait_for(|open| *open).await.unwrap();
                7
            }
        };
        let mut left = Box::pin(questions.join(&1, None, ask));
        poll_once(left.as_mut());
        drop(left);
        let second = questions.join(&1, None, || async { panic!("it is under way") });
        open.send_replace(true);
        assert_eq!(second.await, Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_may_be_too_old_is_awaited_and_the_question_asked_again() {
        let (questions, asked) = (Questions::default(), Arc::default());
        let ask = || counted(&asked);
        let mut first = pin!(questions.join(&1, None, ask));
        poll_once(first.as_mut());
        let later = questions.under_way.lock()[&1].started + Duration::from_nanos(1);
        tokio::time::advance(Duration::from_millis(1)).await;
        let mut any = pin!(questions.join(&1, None, ask));
        poll_once(any.as_mut());
        let mut recent = pin!(questions.join(&1, Some(later), ask));
        poll_once(recent.as_mut());
        let (first, any, recent, recent_too) = tokio::join!(first, any, recent, questions.join(&1, Some(later), ask));
        assert_eq!((first, any, recent, recent_too), (Some(0), Some(0), Some(1), Some(1)));
        assert_eq!(asked.load(SeqCst), 2);
    }

    #[tokio::test]
    async fn a_question_that_panics_has_no_answer_and_may_be_asked_again() {
        let questions = Questions::default();
        let panics = || async {
            yield_now().await;
            panic!("a fault in the question")
        };
        let (first, second) = tokio::join!(questions.join(&1, None, panics), questions.join(&1, None, panics));
        assert_eq!((first, second), (None, None));
        assert_eq!(questions.join(&1, None, || async { 1 }).await, Some(1));
    }

    #[tokio::test]
    async fn a_failure_is_shared_with_the_waiting_callers_and_a_value_is_kept() {
        let (value, attempts) = (Value::default(), Arc::new(AtomicU32::new(0)));
        let fail = || {
            let attempt = counted(&attempts);
            async move {
                attempt.await;
                Err("refused")
            }
        };
        let (first, second) = tokio::join!(value.get_or_make(|_| true, fail), value.get_or_make(|_| true, fail));
        assert_eq!((first, second), (Some(Err("refused")), Some(Err("refused"))));
        assert_eq!(attempts.load(SeqCst), 1);
        assert_eq!(value.get(), None);
        assert_eq!(value.get_or_make(|_| true, || async { Ok(7) }).await, Some(Ok(7)), "a later caller tries again");
        assert_eq!(value.get_or_make(|_| true, fail).await, Some(Ok(7)));
        assert_eq!(value.get(), Some(7));
    }

    #[tokio::test]
    async fn an_unusable_value_is_made_again_once_and_stays_until_then() {
        let (value, attempts) = (Arc::new(SharedValue::ready(100)), Arc::new(AtomicU32::new(0)));
        let make = || {
            let attempt = counted(&attempts);
            async move { Ok(attempt.await) }
        };
        let is_usable = |value: &u32| *value < 100;
        let mut first = pin!(value.get_or_make(is_usable, make));
        poll_once(first.as_mut());
        assert_eq!(value.get(), Some(100));
        let (first, second) = tokio::join!(first, value.get_or_make(is_usable, make));
        assert_eq!((first, second), (Some(Ok::<_, &str>(0)), Some(Ok(0))));
        let failed = value.get_or_make(|_| false, || async { Err("refused") }).await;
        assert_eq!((failed, value.get()), (Some(Err("refused")), Some(0)));
    }

    #[tokio::test]
    async fn a_value_that_suits_its_maker_only_is_made_again_for_the_others() {
        let value = Value::default();
        let make = |made| async move {
            yield_now().await;
            Ok(made)
        };
        let mut first = pin!(value.get_or_make(|_| false, || make(1)));
        poll_once(first.as_mut());
        let mut second = pin!(value.get_or_make(|value| *value == 2, || make(2)));
        poll_once(second.as_mut());
        assert_eq!(first.await, Some(Ok(1)));
        poll_once(second.as_mut());
        let third = value.get_or_make(|value| *value == 2, || make(3));
        assert_eq!(tokio::join!(second, third), (Some(Ok(2)), Some(Ok(2))));
    }

    #[tokio::test]
    async fn an_attempt_continues_without_its_callers_and_keeps_its_value() {
        let (value, (open, mut opened)) = (Value::default(), watch::channel(false));
        let mut left = Box::pin(value.get_or_make(
            |_| true,
            || async move {
                opened.wait_for(|open| *open).await.unwrap();
                Ok(7)
            },
        ));
        poll_once(left.as_mut());
        drop(left);
        assert!(Arc::strong_count(&value) > 1, "the attempt holds the value");
        open.send_replace(true);
        assert_eq!(value.get_or_make(|_| true, || async { Err("it is under way") }).await, Some(Ok(7)));
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
