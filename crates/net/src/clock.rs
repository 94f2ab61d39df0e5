//! The only place that reads a clock.
//!
//! Pure crates take the time as an argument. Asynchronous code measures with `tokio::time`, which tests can pause; the clocks
//! here follow it, so that a simulation has one time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Wall-clock time in seconds of the Unix epoch; negative before 1970.
#[expect(clippy::disallowed_methods, reason = "this module is the clock")]
pub fn now_unix() -> i64 {
    #[cfg(feature = "simulation")]
    if let Some(now) = simulation::now_unix() {
        return now;
    }
    unix_seconds(SystemTime::now())
}

/// Wall-clock time in microseconds of the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "this module is the clock")]
pub fn now_unix_micros() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        Err(_) => 0,
    }
}

/// A point in time that never runs backwards, for durations outside asynchronous code. It stands still while tokio's clock is
/// paused.
pub fn monotonic() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// `time` in seconds of the Unix epoch, rounded towards it; what no `i64` can hold saturates.
fn unix_seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |seconds| -seconds),
    }
}

/// A wall clock that follows tokio's clock, for one thread.
#[cfg(feature = "simulation")]
pub mod simulation {
    use std::cell::Cell;
    use tokio::time::Instant;

    thread_local! {
        static START: Cell<Option<(i64, Instant)>> = const { Cell::new(None) };
    }

    /// From now on this thread's wall clock shows `unix` (seconds of the Unix epoch) and goes on with tokio's clock.
    pub fn start_at(unix: i64) {
        START.set(Some((unix, Instant::now())));
    }

    pub(super) fn now_unix() -> Option<i64> {
        let (unix, start) = START.get()?;
        let elapsed = i64::try_from(start.elapsed().as_secs()).unwrap_or(i64::MAX);
        Some(unix.saturating_add(elapsed))
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
