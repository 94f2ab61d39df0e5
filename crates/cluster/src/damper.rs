//! Damping of a state that changes again and again: a node that has failed returns later after each failure.

use std::time::Duration;
use tokio::time::Instant;

/// Pause after the second failure in a row; each further one doubles it.
const PAUSE_MIN: Duration = Duration::from_secs(5);

const PAUSE_MAX: Duration = Duration::from_secs(5 * 60);

/// Failures with a longer time between them are not in a row.
const CALM: Duration = Duration::from_secs(10 * 60);

/// The state of a part of this node that the cluster sees. Managers ask about each file again whenever it changes.
#[derive(Debug)]
pub(crate) struct Damper {
    part: &'static str,
    has_failed: bool,
    failures: u32,
    failed_at: Option<Instant>,
}

impl Damper {
    pub(crate) const fn new(part: &'static str) -> Self {
        Self { part, has_failed: false, failures: 0, failed_at: None }
    }

    /// Whether the cluster uses the part. A failure counts at once; after the first one the part is used as soon as it works. There is a
    /// pause only while others can stand in.
    pub(crate) fn is_usable(&mut self, works: bool, has_others: bool, now: Instant) -> bool {
        if works {
            let is_pausing = self.failed_at.is_some_and(|at| now.saturating_duration_since(at) < self.pause());
            self.has_failed &= is_pausing && has_others;
        } else {
            if !self.has_failed {
                self.count(now);
            }
            (self.has_failed, self.failed_at) = (true, Some(now));
        }
        !self.has_failed
    }

    fn count(&mut self, now: Instant) {
        let is_in_row = self.failed_at.is_some_and(|at| now.saturating_duration_since(at) < CALM);
        self.failures = if is_in_row { self.failures.saturating_add(1) } else { 1 };
        let (part, failures, pause_s) = (self.part, self.failures, self.pause().as_secs());
        if pause_s > 0 {
            tracing::warn!(
                part,
                failures,
                pause_s,
                "fails again and again: the cluster uses it after a pause without failure"
            );
        }
    }

    fn pause(&self) -> Duration {
        match self.failures.checked_sub(2) {
            None => Duration::ZERO,
            Some(doublings) => PAUSE_MIN.saturating_mul(2_u32.saturating_pow(doublings)).min(PAUSE_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds after which a part that works again is usable, counted from its failure.
    fn return_s(damper: &mut Damper, at: Instant) -> u64 {
        assert!(!damper.is_usable(false, true, at), "a failure counts at once");
        (0..1000).find(|&later| damper.is_usable(true, true, at + Duration::from_secs(later))).unwrap()
    }

    #[test]
    fn each_failure_in_a_row_lasts_longer_for_others() {
        let (mut damper, mut at) = (Damper::new("disk"), Instant::now());
        assert!(damper.is_usable(true, true, at));
        let returns = [0; 9].map(|_| {
            let return_s = return_s(&mut damper, at);
            at += Duration::from_secs(return_s + 1);
            return_s
        });
        assert_eq!(returns, [0, 5, 10, 20, 40, 80, 160, 300, 300]);
        at += CALM;
        assert_eq!(return_s(&mut damper, at), 0, "it is the first failure again");
    }

    #[test]
    fn the_pause_begins_when_the_failure_is_over() {
        let (mut damper, at) = (Damper::new("disk"), Instant::now());
        assert_eq!(return_s(&mut damper, at), 0);
        for later in 1..100 {
            assert!(!damper.is_usable(false, true, at + Duration::from_secs(later)));
        }
        assert!(!damper.is_usable(true, true, at + Duration::from_secs(103)));
        assert!(damper.is_usable(true, true, at + Duration::from_secs(104)), "one long failure is one");
    }

    #[test]
    fn there_is_no_pause_without_others() {
        let (mut damper, at) = (Damper::new("disk"), Instant::now());
        for _ in 0..9 {
            assert!(!damper.is_usable(false, false, at));
            assert!(damper.is_usable(true, false, at));
        }
        assert!(!damper.is_usable(false, true, at));
        assert!(!damper.is_usable(true, true, at));
        assert!(damper.is_usable(true, false, at), "the others have failed meanwhile");
    }
}
