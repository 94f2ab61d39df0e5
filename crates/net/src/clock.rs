//! The only place that reads a clock.
//!
//! Pure crates take the time as an argument. Asynchronous code measures with `tokio::time`, which tests can pause.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Wall-clock time in seconds of the Unix epoch; negative before 1970.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this module is the clock")]
pub fn now_unix() -> i64 {
    unix_seconds(SystemTime::now())
}

/// A point in time that never runs backwards, for durations outside asynchronous code.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this module is the clock")]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// `time` in seconds of the Unix epoch, rounded towards it; what no `i64` can hold saturates.
fn unix_seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |seconds| -seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn seconds_count_from_the_epoch_in_both_directions() {
        assert_eq!(unix_seconds(UNIX_EPOCH), 0);
        assert_eq!(unix_seconds(UNIX_EPOCH + Duration::from_millis(1_999)), 1);
        assert_eq!(unix_seconds(UNIX_EPOCH - Duration::from_secs(5)), -5);
    }

    #[test]
    fn the_monotonic_clock_never_runs_backwards() {
        let earlier = monotonic();
        assert!(monotonic() >= earlier);
        assert!(now_unix() > 1_700_000_000);
    }
}
