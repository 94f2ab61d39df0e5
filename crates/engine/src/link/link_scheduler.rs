//! The ways to the origins, as their answers show them.

use crate::link::{
    admission::Purpose,
    turns::{Demand, Turn, Turns},
};
use forebay_cache::LinkEstimate;
use forebay_telemetry::{Metrics, OriginMetrics};
use forebay_types::Endpoint;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};
use tokio::sync::{Notify, SemaphorePermit};

/// The links to all origins that were used lately.
pub(crate) struct Links {
    metrics: Metrics,
    links: Mutex<BTreeMap<Endpoint, Arc<Link>>>,
}

/// The way to one origin.
pub(crate) struct Link {
    estimate: Mutex<LinkEstimate>,
    /// Bytes that came over it so far.
    delivered: AtomicU64,
    /// Bytes under way over it that no reader has asked for yet.
    ahead_bytes: AtomicU64,
    /// Those of them that are fetched in spare time are counted here instead.
    idle_bytes: AtomicU64,
    /// Told when a fill of these has ended.
    idle_ended: Notify,
    turns: Turns,
    metrics: OriginMetrics,
}

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

/// Most links remembered; beyond it they are measured anew.
const LINKS_MAX: usize = 4096;

impl Links {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self { metrics, links: Mutex::default() }
    }

    /// The link to an origin, named by its first server.
    pub(crate) fn of(&self, server: &Endpoint) -> Arc<Link> {
        let mut links = self.links.lock();
        if let Some(link) = links.get(server) {
            return Arc::clone(link);
        }
        if links.len() >= LINKS_MAX {
            links.clear();
        }
        let link = Arc::new(Link {
            estimate: Mutex::default(),
            delivered: AtomicU64::new(0),
            ahead_bytes: AtomicU64::new(0),
            idle_bytes: AtomicU64::new(0),
            idle_ended: Notify::new(),
            turns: Turns::new(),
            metrics: self.metrics.origin(server),
        });
        links.insert(server.clone(), Arc::clone(&link));
        link
    }
}

impl Link {
    /// What is known of the link.
    pub(crate) fn estimate(&self) -> LinkEstimate {
        *self.estimate.lock()
    }

    /// Starts measuring an answer that was asked for just now.
    pub(crate) fn measure(&self) -> Delivery<'_> {
        let (asked, delivered_before) = (forebay_net::clock::monotonic(), self.delivered.load(Relaxed));
        Delivery { link: self, asked, delivered_before, has_begun: false }
    }

    /// Notes that somebody waits for bytes that come over the link, until that is dropped.
    pub(crate) fn demand(&self) -> Demand<'_> {
        self.turns.demand()
    }

    /// Waits until a fill of `bytes` may ask for what nobody waits for. `None` when too many wait already, or are refused.
    pub(crate) async fn turn(&self, bytes: u64) -> Option<Turn<'_>> {
        self.turns.turn(bytes, self.estimate().latency().unwrap_or_default()).await
    }

    /// Resolves when it is one's turn to fetch something in spare time, until that is dropped.
    pub(crate) async fn idle_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.idle_turn().await
    }

    /// Bytes under way for `purpose`, and for those that share its room.
    pub(crate) const fn bytes_under_way(&self, purpose: Purpose) -> &AtomicU64 {
        match purpose {
            Purpose::ReadAhead | Purpose::Completion => &self.ahead_bytes,
            Purpose::Idle => &self.idle_bytes,
        }
    }

    /// Notes that a fill in spare time has ended, and that there is room for another.
    pub(crate) fn note_idle_ended(&self) {
        self.idle_ended.notify_one();
    }

    /// Resolves when one of them has ended, at once if one has since the last call.
    pub(crate) async fn idle_ended(&self) {
        self.idle_ended.notified().await;
    }

    /// Resolves when nobody waits for bytes that come over the link.
    pub(crate) async fn no_demand(&self) {
        self.turns.no_demand().await;
    }

    /// Refuses all that wait for their turn by now: the origin does not answer, and each of them would find that out for itself.
    pub(crate) fn refuse_waiting(&self) {
        self.turns.refuse_waiting();
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

impl Delivery<'_> {
    /// Notes bytes of the answer.
    pub(crate) fn note_bytes(&mut self, bytes: u64) {
        self.link.delivered.fetch_add(bytes, Relaxed);
        if !self.has_begun {
            self.has_begun = true;
            let latency = forebay_net::clock::monotonic().saturating_duration_since(self.asked);
            self.link.note(|estimate| estimate.note_latency(latency));
        }
    }

    /// Notes that all of the answer has come.
    pub(crate) fn end(self) {
        let bytes = self.link.delivered.load(Relaxed).saturating_sub(self.delivered_before);
        let time = forebay_net::clock::monotonic().saturating_duration_since(self.asked);
        self.link.note(|estimate| estimate.note_rate(bytes, time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_that_of_all_answers_together() {
        let links = Links::new(Metrics::new());
        let link = links.of(&Endpoint::new("origin", 1094));
        let (mut one, mut other) = (link.measure(), link.measure());
        tokio::time::sleep(Duration::from_millis(100)).await;
        one.note_bytes(1000);
        other.note_bytes(1000);
        tokio::time::sleep(Duration::from_millis(100)).await;
        one.end();
        assert_eq!(link.estimate().latency(), Some(Duration::from_millis(100)));
        assert_eq!(link.estimate().bytes_per_s(), Some(10_000));
        assert_eq!(links.of(&Endpoint::new("origin", 1094)).estimate(), link.estimate());
    }
}
