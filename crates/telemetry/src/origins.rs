//! Counters per origin, with a bounded number of labels.

use crate::{
    failing_servers::{FailingServers, Fault},
    label::{PerLabel, RequestKind},
};
use forebay_types::{Endpoint, OriginId};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    fmt::Display,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Origins that get a label of their own. In forwarding mode clients name the origins, so without a limit they could
/// make the exposition grow without bound.
pub const ORIGIN_LABELS_MAX: usize = 64;

/// Label shared by all origins beyond [`ORIGIN_LABELS_MAX`].
pub const ORIGIN_LABEL_OTHER: &str = "other";

/// Metrics of one origin. Cheap to clone; keep it with the connection instead of looking it up at each request.
#[derive(Clone, Debug, Default)]
pub struct OriginMetrics {
    pub(crate) counters: Arc<OriginCounters>,
    /// Of all origins.
    failing: Arc<FailingServers>,
}

#[derive(Debug, Default)]
pub(crate) struct OriginCounters {
    pub(crate) bytes: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) requests: PerLabel<AtomicU64, { RequestKind::ALL.len() }>,
    pub(crate) latency_us: AtomicU64,
    pub(crate) bytes_per_s: AtomicU64,
}

impl OriginMetrics {
    /// Counts file bytes received.
    pub fn add_bytes(&self, bytes: u64) {
        self.counters.bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts a request sent.
    pub fn add_request(&self, kind: RequestKind) {
        self.counters.requests.of(kind).fetch_add(1, Relaxed);
    }

    /// Counts a failure of a connection or a request, or corrupt bytes.
    pub fn add_error(&self) {
        self.counters.errors.fetch_add(1, Relaxed);
    }

    /// Counts a failure, at `now`, of one of the origin's servers, which is logged if it is the first one since the last answer.
    pub fn add_failure_of(&self, server: &Endpoint, fault: Fault, problem: &dyn Display, now: Instant) {
        self.add_error();
        self.failing.failed(server, fault, problem, now);
    }

    /// Notes that a server answered a request, or a read, at `now`.
    pub fn note_answer(&self, server: &Endpoint, to_read: bool, now: Instant) {
        self.failing.answered(server, to_read, now);
    }

    /// Sets the estimates of the link from the origin: the time to the first byte of a read, and bytes per second.
    pub fn set_link(&self, latency: Duration, bytes_per_s: u64) {
        self.counters.latency_us.store(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX), Relaxed);
        self.counters.bytes_per_s.store(bytes_per_s, Relaxed);
    }
}

/// The counters of an origin at one moment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OriginState {
    pub name: String,
    pub bytes: u64,
    pub requests: u64,
    pub errors: u64,
    /// Recent time to the first byte of a read.
    pub latency: Duration,
    pub bytes_per_s: u64,
}

/// The origins seen so far.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    named: Mutex<BTreeMap<OriginId, Arc<OriginCounters>>>,
    other: Arc<OriginCounters>,
    pub(crate) failing: Arc<FailingServers>,
}

impl Origins {
    /// The metrics of `origin`, or the shared ones if every label is taken.
    pub(crate) fn of(&self, origin: &OriginId) -> OriginMetrics {
        let mut named = self.named.lock();
        let counters = if named.len() >= ORIGIN_LABELS_MAX && !named.contains_key(origin) {
            &self.other
        } else {
            named.entry(origin.clone()).or_default()
        };
        OriginMetrics { counters: Arc::clone(counters), failing: Arc::clone(&self.failing) }
    }

    /// File bytes received from all origins.
    pub(crate) fn bytes(&self) -> u64 {
        let named = self.named.lock();
        named.values().chain([&self.other]).map(|counters| counters.bytes.load(Relaxed)).sum()
    }

    /// Every label and its metrics, the shared one last.
    pub(crate) fn snapshot(&self) -> Vec<(String, Arc<OriginCounters>)> {
        let named = self.named.lock();
        let mut snapshot: Vec<_> =
            named.iter().map(|(origin, metrics)| (origin.to_string(), Arc::clone(metrics))).collect();
        snapshot.push((ORIGIN_LABEL_OTHER.to_owned(), Arc::clone(&self.other)));
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::Endpoint;

    #[test]
    fn origins_beyond_the_limit_share_a_label() {
        let origins = Origins::default();
        for port in (1_u16..).take(ORIGIN_LABELS_MAX) {
            origins.of(&Endpoint::new("origin", port).into()).add_bytes(1);
        }
        assert_eq!(origins.other.bytes.load(Relaxed), 0);
        for port in [5000, 5001] {
            origins.of(&Endpoint::new("late", port).into()).add_bytes(10);
        }
        origins.of(&Endpoint::new("origin", 1).into()).add_bytes(1);
        let snapshot = origins.snapshot();
        assert_eq!(snapshot.len(), ORIGIN_LABELS_MAX + 1);
        let counted = |(label, metrics): &(String, Arc<OriginCounters>)| (label.clone(), metrics.bytes.load(Relaxed));
        assert_eq!(counted(&snapshot[0]), ("origin:1".to_owned(), 2));
        assert_eq!(counted(&snapshot[ORIGIN_LABELS_MAX]), ("other".to_owned(), 20));
    }
}
