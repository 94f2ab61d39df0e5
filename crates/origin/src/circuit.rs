//! Remembers which servers could not be reached lately.

use forebay_types::Endpoint;
use parking_lot::Mutex;
use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;

/// Unreachable servers remembered at once; the one that would be forgotten first makes room.
const ENTRIES_MAX: usize = 1024;

/// The servers that could not be reached lately. They are skipped when there is another one to ask.
#[derive(Debug)]
pub struct Circuit {
    open_time: Duration,
    open_until: Mutex<HashMap<Endpoint, Instant>>,
}

impl Circuit {
    /// No server is skipped yet; those that are noted are skipped for `open_time`.
    #[must_use]
    pub fn new(open_time: Duration) -> Self {
        Self { open_time, open_until: Mutex::default() }
    }

    /// Notes that `endpoint` could not be reached.
    pub fn trip(&self, endpoint: &Endpoint, now: Instant) {
        let mut open_until = self.open_until.lock();
        // Expired entries do no harm before the table is full.
        if open_until.len() >= ENTRIES_MAX {
            open_until.retain(|_, until| *until > now);
        }
        if open_until.len() >= ENTRIES_MAX {
            let first = open_until.iter().min_by_key(|(_, until)| **until).map(|(endpoint, _)| endpoint.clone());
            first.map(|first| open_until.remove(&first));
        }
        open_until.insert(endpoint.clone(), now + self.open_time);
    }

    /// Notes that `endpoint` was reached.
    pub fn close(&self, endpoint: &Endpoint) {
        self.open_until.lock().remove(endpoint);
    }

    /// Whether another server should be asked before `endpoint`.
    #[must_use]
    pub fn is_open(&self, endpoint: &Endpoint, now: Instant) -> bool {
        let open_until = self.open_until.lock();
        open_until.get(endpoint).is_some_and(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreachable_server_is_skipped_for_a_while() {
        let circuit = Circuit::new(Duration::from_secs(30));
        let (dead, alive) = (Endpoint::new("dead", 1), Endpoint::new("alive", 1));
        let now = Instant::now();
        circuit.trip(&dead, now);
        assert!(circuit.is_open(&dead, now + Duration::from_secs(29)));
        assert!(!circuit.is_open(&dead, now + Duration::from_secs(30)));
        assert!(!circuit.is_open(&alive, now));
        circuit.close(&dead);
        assert!(!circuit.is_open(&dead, now));
    }

    #[test]
    fn the_memory_is_bounded() {
        let circuit = Circuit::new(Duration::from_secs(30));
        let now = Instant::now();
        for port in 1..=u16::try_from(ENTRIES_MAX).unwrap() + 1 {
            circuit.trip(&Endpoint::new("dead", port), now + Duration::from_millis(port.into()));
        }
        assert_eq!(circuit.open_until.lock().len(), ENTRIES_MAX);
        assert!(!circuit.is_open(&Endpoint::new("dead", 1), now));
        assert!(circuit.is_open(&Endpoint::new("dead", 1025), now));
    }
}
