//! The servers of origins that fail: logged once when they begin to, and once when they answer again.

use forebay_types::Endpoint;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    fmt::Display,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Failing servers remembered; the one that failed longest ago makes room. In forwarding mode clients name the servers.
pub(crate) const FAILING_SERVERS_MAX: usize = 256;

/// Time after the last failure at which a server is forgotten: it gets no requests any more.
const REMEMBERED_FOR: Duration = Duration::from_secs(900);

/// How a server failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// It does not serve at all: no connection, no login, or no answer in time.
    Down,
    /// A session broke, or an answer made no sense. Servers end idle sessions, so one such failure is not a fault yet.
    Broken,
    /// As `Down`, in answers to reads: answers to other requests do not show that it has recovered.
    Reads,
}

/// A server that fails.
#[derive(Clone, Debug)]
pub struct FailingServer {
    pub server: Endpoint,
    /// The first failure since its last answer, in seconds of the Unix epoch.
    pub since: i64,
    /// The last failure.
    pub problem: String,
}

/// The servers that have failed since their last answer.
#[derive(Debug, Default)]
pub(crate) struct FailingServers {
    servers: Mutex<BTreeMap<Endpoint, Failing>>,
    /// Read without the lock: usually none fails.
    count: AtomicUsize,
}

#[derive(Debug)]
struct Failing {
    began: Instant,
    last: Instant,
    fault: Fault,
    problem: String,
    is_known: bool,
}

impl FailingServers {
    /// Notes a failure at `now`; logs the first one.
    pub(crate) fn failed(&self, server: &Endpoint, fault: Fault, problem: &dyn Display, now: Instant) {
        let mut servers = self.servers.lock();
        if servers.len() >= FAILING_SERVERS_MAX && !servers.contains_key(server) {
            let oldest = servers.iter().min_by_key(|(_, failing)| failing.last).map(|(server, _)| server.clone());
            oldest.map(|oldest| servers.remove(&oldest));
        }
        let was_there = servers.contains_key(server);
        let new = || Failing { began: now, last: now, fault, problem: String::new(), is_known: false };
        let failing = servers.entry(server.clone()).or_insert_with(new);
        failing.last = now;
        failing.problem = problem.to_string();
        if fault == Fault::Reads {
            failing.fault = fault;
        }
        if !failing.is_known && (was_there || fault != Fault::Broken) {
            failing.is_known = true;
            tracing::warn!(%server, problem = failing.problem.as_str(), "an origin fails");
        }
        self.count.store(servers.len(), Relaxed);
    }

    /// Notes an answer; logs the end of a fault. Costs one load while no server fails.
    pub(crate) fn answered(&self, server: &Endpoint, to_read: bool, now: Instant) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        let mut servers = self.servers.lock();
        if servers.get(server).is_none_or(|failing| failing.fault == Fault::Reads && !to_read) {
            return;
        }
        let ended = servers.remove(server);
        self.count.store(servers.len(), Relaxed);
        if let Some(Failing { began, is_known: true, .. }) = ended {
            let seconds = now.saturating_duration_since(began).as_secs();
            tracing::info!(%server, after_s = seconds, "an origin answers again");
        }
    }

    /// Forgets the servers whose last failure was long before `now`.
    pub(crate) fn expire(&self, now: Instant) {
        let mut servers = self.servers.lock();
        servers.retain(|_, failing| now.saturating_duration_since(failing.last) < REMEMBERED_FOR);
        self.count.store(servers.len(), Relaxed);
    }

    /// Those that are known to fail, at `now` by both clocks, the one that failed last first.
    pub(crate) fn list(&self, now: (Instant, i64)) -> Vec<FailingServer> {
        self.expire(now.0);
        let servers = self.servers.lock();
        let mut known: Vec<_> = servers.iter().filter(|(_, failing)| failing.is_known).collect();
        known.sort_by_key(|(_, failing)| std::cmp::Reverse(failing.last));
        let shown = |(server, failing): (&Endpoint, &Failing)| FailingServer {
            server: server.clone(),
            since: now.1 - seconds(now.0.saturating_duration_since(failing.began)),
            problem: failing.problem.clone(),
        };
        known.into_iter().map(shown).collect()
    }

    pub(crate) fn known_count(&self) -> u64 {
        let count = self.servers.lock().values().filter(|failing| failing.is_known).count();
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "no other clock is in reach, and the value does not count")]
    fn now() -> Instant {
        Instant::now()
    }

    fn names(failing: &FailingServers, now: Instant) -> Vec<String> {
        failing.list((now, 1000)).iter().map(|it| it.server.to_string()).collect()
    }

    #[test]
    fn a_fault_lasts_from_the_first_failure_to_the_next_answer() {
        let (failing, now) = (FailingServers::default(), now());
        let server = Endpoint::new("origin", 1);
        failing.failed(&server, Fault::Down, &"refused", now);
        failing.failed(&server, Fault::Down, &"refused again", now + Duration::from_secs(5));
        let listed = failing.list((now + Duration::from_secs(9), 1000));
        assert_eq!((listed[0].since, listed[0].problem.as_str()), (991, "refused again"));
        assert_eq!(failing.known_count(), 1);
        failing.answered(&server, false, now + Duration::from_secs(10));
        assert!(names(&failing, now).is_empty());
    }

    #[test]
    fn one_broken_session_is_not_a_fault() {
        let (failing, now) = (FailingServers::default(), now());
        let server = Endpoint::new("origin", 1);
        failing.failed(&server, Fault::Broken, &"closed", now);
        assert!(names(&failing, now).is_empty());
        failing.answered(&server, false, now);
        failing.failed(&server, Fault::Broken, &"closed", now);
        assert!(names(&failing, now).is_empty(), "it answered in between");
        failing.failed(&server, Fault::Broken, &"closed", now);
        assert_eq!(names(&failing, now), ["origin:1"]);
    }

    #[test]
    fn a_server_that_answers_opens_but_no_reads_still_fails() {
        let (failing, now) = (FailingServers::default(), now());
        let server = Endpoint::new("origin", 1);
        failing.failed(&server, Fault::Reads, &"silent", now);
        failing.answered(&server, false, now);
        assert_eq!(names(&failing, now), ["origin:1"]);
        failing.answered(&server, true, now);
        assert!(names(&failing, now).is_empty());
    }

    #[test]
    fn a_server_that_is_not_asked_any_more_is_forgotten() {
        let (failing, now) = (FailingServers::default(), now());
        let server = Endpoint::new("origin", 1);
        failing.failed(&server, Fault::Down, &"refused", now);
        failing.failed(&server, Fault::Down, &"refused", now + REMEMBERED_FOR / 2);
        assert_eq!(names(&failing, now + REMEMBERED_FOR), ["origin:1"]);
        failing.expire(now + 2 * REMEMBERED_FOR);
        assert_eq!(failing.known_count(), 0);
    }

    #[test]
    fn the_number_of_failing_servers_is_bounded() {
        let (failing, now) = (FailingServers::default(), now());
        for port in 0..=u16::try_from(FAILING_SERVERS_MAX).unwrap() {
            failing.failed(&Endpoint::new("dead", port), Fault::Down, &"", now + Duration::from_millis(port.into()));
        }
        let names = names(&failing, now);
        assert_eq!(names.len(), FAILING_SERVERS_MAX);
        assert_eq!((names[0].as_str(), names.last().unwrap().as_str()), ("dead:256", "dead:1"));
    }
}
