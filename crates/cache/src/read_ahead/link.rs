//! Estimates of the link to an origin: latency and rate.

use std::time::Duration;

/// Latency and rate of the way to an origin, from the answers that came over it.
///
/// Both follow a better measurement quickly and a worse one slowly: an answer that queued behind others says nothing about the
/// way, and a reader that asks for little shows little of what the way carries.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LinkEstimate {
    latency_us: Option<u64>,
    bytes_per_s: Option<u64>,
}

/// How many times what is under way at full rate is asked for ahead: twice, so that a rate that was measured while too little
/// was asked for doubles until it is that of the link.
const FACTOR: u64 = 2;

/// A better value counts as one in this many, a worse one as one in that many.
const BETTER_SHARE: u64 = 2;
const WORSE_SHARE: u64 = 32;

const US_PER_S: u64 = 1_000_000;

impl LinkEstimate {
    /// Notes how long the first byte of an answer took.
    pub fn note_latency(&mut self, latency: Duration) {
        let sample = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).max(1);
        approach(&mut self.latency_us, sample, |latency| sample < latency);
    }

    /// Notes that `bytes` came over the link within `time`.
    pub fn note_rate(&mut self, bytes: u64, time: Duration) {
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        let sample = bytes.saturating_mul(US_PER_S) / time_us;
        approach(&mut self.bytes_per_s, sample, |rate| sample > rate);
    }

    /// Time to the first byte of an answer, once one was measured.
    pub fn latency(&self) -> Option<Duration> {
        self.latency_us.map(Duration::from_micros)
    }

    /// Bytes per second, once they were measured.
    pub const fn bytes_per_s(&self) -> Option<u64> {
        self.bytes_per_s
    }

    /// Bytes to have asked for so that the link is never idle: latency times rate, times two. `None` before both are known.
    pub fn window(&self) -> Option<u64> {
        let latency_us = self.latency_us?;
        let bytes_per_s = self.bytes_per_s?;
        let under_way = u128::from(latency_us) * u128::from(bytes_per_s) / u128::from(US_PER_S);
        Some(u64::try_from(under_way).unwrap_or(u64::MAX).saturating_mul(FACTOR))
    }
}

/// Moves `value` towards `sample` by its share, and by one at least; the first sample is the value.
fn approach(value: &mut Option<u64>, sample: u64, is_better: impl FnOnce(u64) -> bool) {
    let Some(last) = *value else { return *value = Some(sample) };
    let step = last.abs_diff(sample).div_ceil(if is_better(last) { BETTER_SHARE } else { WORSE_SHARE });
    *value = Some(if sample > last { last.saturating_add(step) } else { last.saturating_sub(step) });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(latency_ms: u64, bytes: u64, time_ms: u64) -> LinkEstimate {
        let mut link = LinkEstimate::default();
        link.note_latency(Duration::from_millis(latency_ms));
        link.note_rate(bytes, Duration::from_millis(time_ms));
        link
    }

    #[test]
    fn the_window_is_twice_latency_times_rate() {
        assert_eq!(LinkEstimate::default().window(), None);
        assert_eq!(link(50, 100_000_000, 1000).window(), Some(10_000_000));
        assert!(link(0, 1 << 20, 0).window().is_some_and(|window| window > 0));
    }

    #[test]
    fn worse_measurements_move_the_estimates_little() {
        let mut link = link(10, 1, 1);
        link.note_latency(Duration::from_millis(330));
        assert_eq!(link.latency(), Some(Duration::from_millis(20)));
        link.note_latency(Duration::from_millis(10));
        assert_eq!(link.latency(), Some(Duration::from_millis(15)));
        let mut link = self::link(10, 1_000_000, 1000);
        link.note_rate(0, Duration::from_secs(1));
        assert_eq!(link.bytes_per_s(), Some(968_750));
        link.note_rate(2_000_000, Duration::from_secs(1));
        assert_eq!(link.bytes_per_s(), Some(1_484_375));
    }

    #[test]
    fn a_rate_that_only_the_window_holds_down_doubles() {
        let (latency, mut window) = (Duration::from_millis(50), 128_u64 << 10);
        let mut link = LinkEstimate::default();
        link.note_latency(latency);
        let mut rounds = 0;
        while window < 16 << 20 {
            link.note_rate(window, latency);
            window = link.window().unwrap();
            rounds += 1;
        }
        assert!(rounds <= 12, "{rounds} rounds");
    }
}
