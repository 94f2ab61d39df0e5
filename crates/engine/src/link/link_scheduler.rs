//! The ways to the origins, as their answers show them.

use crate::link::admission::Purpose;
use forebay_cache::LinkEstimate;
use forebay_telemetry::{Metrics, OriginMetrics};
use forebay_types::OriginId;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};

/// The links to all origins that were used lately.
pub(crate) struct Links {
    metrics: Metrics,
    links: Mutex<BTreeMap<OriginId, Arc<Link>>>,
}

pub(crate) struct Link {
    estimate: Mutex<LinkEstimate>,
    /// Bytes that came over it so far.
    delivered: AtomicU64,
    /// When the last of them came.
    last_delivery: Mutex<Option<Instant>>,
    /// When an answer last counted that was slower than the estimate.
    last_slow_answer: Mutex<Option<Instant>>,
    answers: watch::Sender<Answers>,
    is_probed: AtomicBool,
    /// Notified when a probe has ended.
    probe_ended: Notify,
    /// Bytes under way over it that no reader has asked for yet.
    ahead_bytes: AtomicU64,
    /// Those of them that are fetched in spare time are counted here instead.
    idle_bytes: AtomicU64,
    /// Notified when a fill of these has ended.
    idle_ended: Notify,
    /// Notified when others of them make room.
    room: Notify,
    pub(crate) turns: Turns,
    /// Listings that are requested or wait for memory: one origin delays its own only.
    pub(crate) listings: Semaphore,
    metrics: OriginMetrics,
}

/// Whether the origin answers reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answers {
    /// None was answered lately.
    Unknown,
    Coming,
    /// Nothing has come for [`SILENCE`] although it was asked.
    Silent,
}

/// The one request to an origin that may hang that has no memory reserved, until this is dropped.
pub(crate) struct Probe(Arc<Link>);

/// Time without a byte over a link, while some are requested, after which its origin counts as silent. Long enough for the
/// latency of links around the world, short enough for readers of other origins that wait for the memory.
const SILENCE: Duration = Duration::from_millis(400);

/// Time without a byte after which it is not known whether an origin of the longest latency still answers.
const LATELY_MAX: Duration = Duration::from_secs(2);

/// One answer on its way, measured.
///
/// The rate is that of all answers together while this one was under way: one fill of many does not see all that the link
/// carries.
pub(crate) struct Delivery<'a> {
    link: &'a Link,
    asked: Instant,
    delivered_before: u64,
    has_begun: bool,
}

/// The part of the window that may be under way ahead of readers on a link that counts as quiet, and the bytes if the window is not
/// known.
const BUSY_PART: u64 = 4;
const BUSY_BYTES_MIN: u64 = 1 << 20;

/// Directory listings of one origin that are in progress at the same time; further ones wait. Each is up to 64 MiB as received.
const LISTINGS_MAX: usize = 4;

/// Largest number of links remembered; beyond it they are measured again.
const LINKS_MAX: usize = 4096;

impl Links {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self { metrics, links: Mutex::default() }
    }

    /// The link to an origin, named by its first server.
    pub(crate) fn of(&self, server: &OriginId) -> Arc<Link> {
        let mut links = self.links.lock();
        if let Some(link) = links.get(server) {
            return Arc::clone(link);
        }
        // Cleared rather than evicted one by one: links in use are held by their files, the others are measured again.
        if links.len() >= LINKS_MAX {
            links.clear();
        }
        let link = Arc::new(Link {
            estimate: Mutex::default(),
            delivered: AtomicU64::new(0),
            last_delivery: Mutex::new(None),
            last_slow_answer: Mutex::new(None),
            answers: watch::Sender::new(Answers::Unknown),
            is_probed: AtomicBool::new(false),
            probe_ended: Notify::new(),
            ahead_bytes: AtomicU64::new(0),
            idle_bytes: AtomicU64::new(0),
            idle_ended: Notify::new(),
            room: Notify::new(),
            turns: Turns::new(),
            listings: Semaphore::new(LISTINGS_MAX),
            metrics: self.metrics.origin(server),
        });
        links.insert(server.clone(), Arc::clone(&link));
        link
    }
}

impl Link {
    pub(crate) fn estimate(&self) -> LinkEstimate {
        *self.estimate.lock()
    }

    pub(crate) fn answers(&self) -> Answers {
        let answers = *self.answers.borrow();
        let is_old = answers == Answers::Coming && {
            let lately = (self.estimate().latency().unwrap_or_default() * QUIET_LATENCIES).clamp(SILENCE, LATELY_MAX);
            let last = *self.last_delivery.lock();
            last.is_none_or(|last| forebay_net::clock::monotonic().saturating_duration_since(last) >= lately)
        };
        if is_old { Answers::Unknown } else { answers }
    }

    /// The right to ask the origin without memory, if no other request has it.
    pub(crate) fn probe(self: &Arc<Self>) -> Option<Probe> {
        (!self.is_probed.swap(true, Relaxed)).then(|| Probe(Arc::clone(self)))
    }

    /// Waits until the probe under way has ended, if there is one.
    pub(crate) async fn probed(&self) {
        let mut ended = pin!(self.probe_ended.notified());
        // Registered before the look: a probe that ends in between wakes this waiter.
        ended.as_mut().enable();
        if self.is_probed.load(Relaxed) {
            ended.await;
        }
    }

    pub(crate) fn watch_answers(&self) -> watch::Receiver<Answers> {
        self.answers.subscribe()
    }

    /// Notes bytes that came over it.
    pub(crate) fn note_delivered(&self, bytes: u64) {
        self.delivered.fetch_add(bytes, Relaxed);
        *self.last_delivery.lock() = Some(forebay_net::clock::monotonic());
        // Looked at first: a change takes a lock for writing and wakes those who wait for memory.
        if *self.answers.borrow() != Answers::Coming {
            self.answers.send_replace(Answers::Coming);
        }
    }

    /// Resolves when nothing has come for a while: the origin counts as silent then, until something comes. For those who wait for
    /// bytes.
    pub(crate) async fn silence(&self) {
        loop {
            let delivered = self.delivered.load(Relaxed);
            tokio::time::sleep(SILENCE).await;
            if self.delivered.load(Relaxed) == delivered {
                let is_new = |answers: &mut Answers| std::mem::replace(answers, Answers::Silent) != Answers::Silent;
                self.answers.send_if_modified(is_new);
                return;
            }
        }
    }

    /// Starts measuring an answer that was asked for just now.
    pub(crate) fn measure(&self) -> Delivery<'_> {
        let asked = forebay_net::clock::monotonic();
        let delivered_before = self.delivered.load(Relaxed);
        Delivery { link: self, asked, delivered_before, has_begun: false }
    }

    /// Waits until a fill of `bytes` may request bytes that no reader waits for. `None` when too many wait already, or are refused.
    pub(crate) async fn turn(&self, bytes: u64) -> Option<Turn<'_>> {
        let estimate = self.estimate();
        // Bytes for expected reads have the priority of bytes that readers wait for.
        let is_free =
            || self.ahead_bytes.load(Relaxed) <= estimate.window().map_or(BUSY_BYTES_MIN, |window| window / BUSY_PART);
        self.turns.turn(bytes, estimate.latency().unwrap_or_default(), is_free).await
    }

    /// Bytes under way for `purpose`, and for those that share its room.
    pub(crate) const fn bytes_under_way(&self, purpose: Purpose) -> &AtomicU64 {
        match purpose {
            Purpose::ReadAhead | Purpose::Completion => &self.ahead_bytes,
            Purpose::Idle => &self.idle_bytes,
        }
    }

    /// Notes that there is room for another fill for `purpose`, and notifies the waiters.
    pub(crate) fn note_room(&self, purpose: Purpose) {
        // Prefetchers in spare time wait for room made by others of their kind only.
        match purpose {
            Purpose::Idle => self.idle_ended.notify_one(),
            Purpose::ReadAhead | Purpose::Completion => self.room.notify_one(),
        }
    }

    /// Resolves when there may be room for bytes that a reader is about to come to. For the one who has [`Turns::ahead_turn`].
    pub(crate) async fn room(&self) {
        self.room.notified().await;
    }

    /// Resolves when one of them has ended, at once if one has since the last call.
    pub(crate) async fn idle_ended(&self) {
        self.idle_ended.notified().await;
    }

    /// Notes how long a first byte took that came now. Of those that took longer than others one counts for each latency: many small
    /// answers that queue behind each other would make the way look longer, and the queue grow.
    fn note_latency(&self, now: Instant, latency: Duration) {
        let known = self.estimate().latency().unwrap_or_default();
        if latency > known {
            let mut last = self.last_slow_answer.lock();
            if last.is_some_and(|last| now.saturating_duration_since(last) < known) {
                return;
            }
            *last = Some(now);
        }
        self.note(|estimate| estimate.note_latency(latency));
    }

    pub(crate) fn note(&self, change: impl FnOnce(&mut LinkEstimate)) {
        let estimate = {
            let mut estimate = self.estimate.lock();
            change(&mut estimate);
            *estimate
        };
        self.metrics.set_link(estimate.latency().unwrap_or_default(), estimate.bytes_per_s().unwrap_or_default());
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.is_probed.store(false, Relaxed);
        self.0.probe_ended.notify_waiters();
    }
}

impl Delivery<'_> {
    pub(crate) fn note_bytes(&mut self, bytes: u64) {
        self.link.note_delivered(bytes);
        // The first byte measures the latency; later ones only the rate.
        if !self.has_begun {
            self.has_begun = true;
            let now = forebay_net::clock::monotonic();
            self.link.note_latency(now, now.saturating_duration_since(self.asked));
        }
    }

    /// Notes that all of the answer has come.
    pub(crate) fn end(self) {
        let bytes = self.link.delivered.load(Relaxed).saturating_sub(self.delivered_before);
        let time = forebay_net::clock::monotonic().saturating_duration_since(self.asked);
        self.link.note(|estimate| estimate.note_rate(bytes, time));
    }
}

/// Lets fills of one link fetch bytes that no reader waits for: one after the other while a reader waits for bytes over the link or did a
/// moment ago, else all at once.
///
/// A request for scattered bytes brings blocks of which little is wanted only where that costs the next one nothing.
pub(crate) struct Turns {
    /// Fills that a reader waits for.
    demands: AtomicUsize,
    /// Notified when there is none any more.
    demands_over: Notify,
    last_demand: Mutex<Option<Instant>>,
    one: Semaphore,
    /// One prefetcher at a time waits for the link to be idle.
    spare: Semaphore,
    /// One prefetcher by the structure of files at a time asks for room.
    ahead: Semaphore,
    waiting_bytes: AtomicU64,
    /// How often all waiting fills were refused.
    refusals: AtomicU64,
}

/// A reader that waits for bytes that come over a link.
pub(crate) struct Demand<'a>(&'a Turns);

/// The turn to fetch bytes that no reader waits for, until this is dropped.
pub(crate) struct Turn<'a> {
    _alone: Option<SemaphorePermit<'a>>,
    _waiting: Waiting<'a>,
}

/// Bytes of fills that wait for their turn or have it; they hold memory.
struct Waiting<'a> {
    turns: &'a Turns,
    bytes: u64,
}

/// Bytes of fills that may wait for their turn on one link.
const WAITING_BYTES_MAX: u64 = 16 << 20;

/// Latencies without a demand after which no further request is expected.
const QUIET_LATENCIES: u32 = 2;

impl Turns {
    pub(crate) const fn new() -> Self {
        Self {
            demands: AtomicUsize::new(0),
            demands_over: Notify::const_new(),
            last_demand: Mutex::new(None),
            one: Semaphore::const_new(1),
            spare: Semaphore::const_new(1),
            ahead: Semaphore::const_new(1),
            waiting_bytes: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        }
    }

    pub(crate) fn demand(&self) -> Demand<'_> {
        self.demands.fetch_add(1, Relaxed);
        Demand(self)
    }

    /// Waits for the turn of a fill of `bytes` over a link of this `latency`, which `is_free` of bytes for which readers are about to come.
    /// `None` when too many wait already, or are refused meanwhile.
    async fn turn(&self, bytes: u64, latency: Duration, is_free: impl Fn() -> bool) -> Option<Turn<'_>> {
        // Counted before the wait: a refusal during the wait is noticed after it.
        let refusals = self.refusals.load(Relaxed);
        let waiting = self.wait(bytes)?;
        // All fills pass through here, one by one; on a quiet link each gives the place back at once.
        let alone = self.one.acquire().await.ok()?;
        if self.refusals.load(Relaxed) != refusals {
            return None;
        }
        let is_quiet = self.is_quiet(latency) && is_free();
        Some(Turn { _alone: (!is_quiet).then_some(alone), _waiting: waiting })
    }

    /// Resolves when earlier prefetchers have had their turn.
    pub(crate) async fn idle_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.spare.acquire().await.ok()
    }

    /// Resolves when earlier prefetchers have had their turn, each for one advice.
    pub(crate) async fn ahead_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.ahead.acquire().await.ok()
    }

    /// Resolves when no reader waits for bytes.
    pub(crate) async fn no_demand(&self) {
        while self.demands.load(Relaxed) > 0 {
            // Registered before the second look: a demand that ends in between wakes this prefetcher.
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
        // Noted before the count drops: a fill that sees no demand must also see how recent it was.
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
    use forebay_types::Endpoint;
    use std::{future::Future, task::Context};

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_that_of_all_answers_together() {
        let links = Links::new(Metrics::new());
        let link = links.of(&Endpoint::new("origin", 1094).into());
        let mut one = link.measure();
        let mut other = link.measure();
        tokio::time::sleep(Duration::from_millis(100)).await;
        one.note_bytes(1000);
        other.note_bytes(1000);
        tokio::time::sleep(Duration::from_millis(100)).await;
        one.end();
        assert_eq!(link.estimate().latency(), Some(Duration::from_millis(100)));
        assert_eq!(link.estimate().bytes_per_s(), Some(10_000));
        assert_eq!(links.of(&Endpoint::new("origin", 1094).into()).estimate(), link.estimate());
    }

    const LATENCY: Duration = Duration::from_millis(10);

    fn is_pending(future: impl Future) -> bool {
        let future = std::pin::pin!(future);
        future.poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending()
    }

    #[tokio::test(start_paused = true)]
    async fn turns_are_taken_one_by_one_during_a_demand_and_shortly_after() {
        let turns = Turns::new();
        let demand = turns.demand();
        let first = turns.turn(1, LATENCY, || true).await.unwrap();
        assert!(is_pending(turns.turn(1, LATENCY, || true)));
        drop(demand);
        assert!(is_pending(turns.turn(1, LATENCY, || true)));
        drop(first);
        let _second = turns.turn(1, LATENCY, || true).await.unwrap();
        assert!(is_pending(turns.turn(1, LATENCY, || true)));
    }

    #[tokio::test(start_paused = true)]
    async fn turns_are_taken_at_once_without_a_demand() {
        let turns = Turns::new();
        drop(turns.demand());
        tokio::time::sleep(3 * LATENCY).await;
        let _first = turns.turn(1, LATENCY, || true).await.unwrap();
        let _second = turns.turn(1, LATENCY, || true).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_fills_are_refused_after_a_failed_turn() {
        let turns = Turns::new();
        let _demand = turns.demand();
        let first = turns.turn(1, LATENCY, || true).await.unwrap();
        let mut waiting = std::pin::pin!(turns.turn(1, LATENCY, || true));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
        turns.refuse_waiting();
        drop(first);
        assert!(waiting.await.is_none());
        assert!(turns.turn(1, LATENCY, || true).await.is_some(), "a later fill tries again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_bounded_number_of_bytes_waits() {
        let turns = Turns::new();
        let held = turns.turn(WAITING_BYTES_MAX, LATENCY, || true).await.unwrap();
        assert!(turns.turn(1, LATENCY, || true).await.is_none());
        drop(held);
        assert!(turns.turn(1, LATENCY, || true).await.is_some());
    }
}
