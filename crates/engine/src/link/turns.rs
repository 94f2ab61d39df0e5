//! When bytes are fetched that nobody waits for, but that make blocks whole.

use parking_lot::Mutex;
use std::{
    pin::pin,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// Lets fills of one link fetch what nobody waits for: one after the other while somebody waits for bytes over the link or did a
/// moment ago, else all at once.
///
/// A request for scattered bytes brings blocks of which little is wanted only where that costs the next one nothing.
pub(crate) struct Turns {
    /// Fills that somebody waits for.
    demands: AtomicUsize,
    /// Told when there is none any more.
    demands_over: Notify,
    last_demand: Mutex<Option<Instant>>,
    one: Semaphore,
    /// Who wants to fetch in spare time: one looks out for it.
    spare: Semaphore,
    waiting_bytes: AtomicU64,
    /// How often those who waited were refused.
    refusals: AtomicU64,
}

/// Somebody who waits for bytes that come over a link.
pub(crate) struct Demand<'a>(&'a Turns);

/// Leave to fetch what nobody waits for, until this is dropped.
pub(crate) struct Turn<'a> {
    _alone: Option<SemaphorePermit<'a>>,
    _waiting: Waiting<'a>,
}

/// Bytes of fills that wait or fetch what nobody waits for; they hold memory.
struct Waiting<'a> {
    turns: &'a Turns,
    bytes: u64,
}

/// Bytes of fills that may wait for their turn on one link.
const WAITING_BYTES_MAX: u64 = 16 << 20;

/// Latencies without a demand after which nobody is about to ask for more.
const QUIET_LATENCIES: u32 = 2;

impl Turns {
    pub(crate) const fn new() -> Self {
        Self {
            demands: AtomicUsize::new(0),
            demands_over: Notify::const_new(),
            last_demand: Mutex::new(None),
            one: Semaphore::const_new(1),
            spare: Semaphore::const_new(1),
            waiting_bytes: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        }
    }

    pub(crate) fn demand(&self) -> Demand<'_> {
        self.demands.fetch_add(1, Relaxed);
        Demand(self)
    }

    /// Waits for the turn of a fill of `bytes` over a link of this `latency`. `None` when too many wait already, or are refused meanwhile.
    pub(crate) async fn turn(&self, bytes: u64, latency: Duration) -> Option<Turn<'_>> {
        let refusals = self.refusals.load(Relaxed);
        let waiting = self.wait(bytes)?;
        let alone = self.one.acquire().await.ok()?;
        if self.refusals.load(Relaxed) != refusals {
            return None;
        }
        Some(Turn { _alone: (!self.is_quiet(latency)).then_some(alone), _waiting: waiting })
    }

    /// Resolves when those who came before have fetched something in spare time.
    pub(crate) async fn idle_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.spare.acquire().await.ok()
    }

    /// Resolves when nobody waits for bytes.
    pub(crate) async fn no_demand(&self) {
        while self.demands.load(Relaxed) > 0 {
            let mut over = pin!(self.demands_over.notified());
            over.as_mut().enable();
            if self.demands.load(Relaxed) > 0 {
                over.await;
            }
        }
    }

    /// Refuses all that wait by now.
    pub(crate) fn refuse_waiting(&self) {
        self.refusals.fetch_add(1, Relaxed);
    }

    fn wait(&self, bytes: u64) -> Option<Waiting<'_>> {
        let add = |sum: u64| sum.checked_add(bytes).filter(|sum| *sum <= WAITING_BYTES_MAX);
        self.waiting_bytes.fetch_update(Relaxed, Relaxed, add).ok()?;
        Some(Waiting { turns: self, bytes })
    }

    fn is_quiet(&self, latency: Duration) -> bool {
        let last_demand = *self.last_demand.lock();
        let since = last_demand.map(|last| forebay_net::clock::monotonic().saturating_duration_since(last));
        self.demands.load(Relaxed) == 0 && since.is_none_or(|since| since > latency * QUIET_LATENCIES)
    }
}

impl Drop for Demand<'_> {
    fn drop(&mut self) {
        *self.0.last_demand.lock() = Some(forebay_net::clock::monotonic());
        if self.0.demands.fetch_sub(1, Relaxed) == 1 {
            self.0.demands_over.notify_waiters();
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.turns.waiting_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::Future, task::Context};

    const LATENCY: Duration = Duration::from_millis(10);

    fn is_pending(future: impl Future) -> bool {
        let future = std::pin::pin!(future);
        future.poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending()
    }

    #[tokio::test(start_paused = true)]
    async fn one_after_the_other_while_somebody_waits_and_for_a_moment_after() {
        let turns = Turns::new();
        let demand = turns.demand();
        let first = turns.turn(1, LATENCY).await.unwrap();
        assert!(is_pending(turns.turn(1, LATENCY)));
        drop(demand);
        assert!(is_pending(turns.turn(1, LATENCY)));
        drop(first);
        let _second = turns.turn(1, LATENCY).await.unwrap();
        assert!(is_pending(turns.turn(1, LATENCY)));
    }

    #[tokio::test(start_paused = true)]
    async fn all_at_once_when_nobody_waits() {
        let turns = Turns::new();
        drop(turns.demand());
        tokio::time::sleep(3 * LATENCY).await;
        let _first = turns.turn(1, LATENCY).await.unwrap();
        let _second = turns.turn(1, LATENCY).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_refused_when_another_turn_has_failed() {
        let turns = Turns::new();
        let _demand = turns.demand();
        let first = turns.turn(1, LATENCY).await.unwrap();
        let mut waiting = std::pin::pin!(turns.turn(1, LATENCY));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
        turns.refuse_waiting();
        drop(first);
        assert!(waiting.await.is_none());
        assert!(turns.turn(1, LATENCY).await.is_some(), "who comes later tries again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_bounded_number_of_bytes_waits() {
        let turns = Turns::new();
        let held = turns.turn(WAITING_BYTES_MAX, LATENCY).await.unwrap();
        assert!(turns.turn(1, LATENCY).await.is_none());
        drop(held);
        assert!(turns.turn(1, LATENCY).await.is_some());
    }
}
