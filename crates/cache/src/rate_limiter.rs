//! Rate limit of background work.

use std::time::{Duration, Instant};

/// Spreads work over time, so that it takes no more than a given rate.
#[derive(Debug)]
pub struct RateLimiter {
    rate: u64,
    /// When the work begun so far is paid for.
    due: Option<Instant>,
}

impl RateLimiter {
    /// `rate` is in bytes per second; 0 counts as 1.
    pub fn new(rate: u64) -> Self {
        Self { rate: rate.max(1), due: None }
    }

    /// How long to wait before work on `bytes` bytes may begin at `now`. Idle time is not saved up.
    pub fn wait_for(&mut self, bytes: u64, now: Instant) -> Duration {
        let begin = self.due.map_or(now, |due| due.max(now));
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate);
        self.due = begin.checked_add(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)));
        begin.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn some_instant() -> Instant {
        Instant::now()
    }

    #[test]
    fn work_is_spread_and_idle_time_is_not_saved_up() {
        let start = some_instant();
        let at = |ms| start + Duration::from_millis(ms);
        let mut limiter = RateLimiter::new(1000);
        assert_eq!(limiter.wait_for(500, at(0)), Duration::ZERO);
        assert_eq!(limiter.wait_for(500, at(0)), Duration::from_millis(500));
        assert_eq!(limiter.wait_for(100, at(600)), Duration::from_millis(400));
        assert_eq!(limiter.wait_for(100, at(5000)), Duration::ZERO);
        assert_eq!(limiter.wait_for(100, at(5000)), Duration::from_millis(100));
    }

    #[test]
    fn a_rate_of_zero_is_slow_but_not_an_error() {
        let mut limiter = RateLimiter::new(0);
        let now = some_instant();
        limiter.wait_for(u64::MAX, now);
        limiter.wait_for(u64::MAX, now);
    }
}
