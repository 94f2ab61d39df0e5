//! A histogram of latencies with constant relative error and no allocation per sample.

use std::time::Duration;

/// Each power of two is divided into 2^5 steps, so a quantile is at most 1/32 too high.
const STEP_BITS: u32 = 5;
const STEPS: u64 = 1 << STEP_BITS;

/// Every `u64` of nanoseconds has a bucket.
const BUCKETS: usize = ((u64::BITS - STEP_BITS + 1) as usize) << STEP_BITS;

/// Counts latencies in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    buckets: Vec<u64>,
    count: u64,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0 }
    }

    /// Counts one operation that took `latency`.
    pub(crate) fn record(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get_mut(bucket_of(nanoseconds)) {
            *bucket += 1;
            self.count += 1;
        }
    }

    /// Counts what another histogram has counted.
    pub(crate) fn add(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(all, more)| *all += more);
        self.count += other.count;
    }

    /// How many operations were counted.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// The latency that a share of `percent` of the operations did not exceed, in microseconds; 0 without operations.
    pub(crate) fn percentile_us(&self, percent: u64) -> f64 {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|&count| {
            seen += count;
            seen >= rank
        });
        bucket.map_or(0.0, |bucket| Duration::from_nanos(upper_edge(bucket)).as_secs_f64() * 1e6)
    }
}

/// The bucket of a latency: itself while small, then its exponent and the bits after its leading one.
fn bucket_of(nanoseconds: u64) -> usize {
    let exponent = nanoseconds.checked_ilog2().unwrap_or(0);
    let shift = exponent.saturating_sub(STEP_BITS);
    let bucket = u64::from(shift) * STEPS + (nanoseconds >> shift);
    usize::try_from(bucket).unwrap_or(BUCKETS)
}

/// The greatest latency that falls into a bucket.
fn upper_edge(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / STEPS).saturating_sub(1);
    let step = bucket - shift * STEPS;
    (u128::from(step + 1) << shift).try_into().map_or(u64::MAX, |edge: u64| edge - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_latency_lies_in_its_bucket_with_small_error() {
        for value in (0..2_000).chain([4_095, 4_096, 1_000_000_007, u64::MAX / 3, u64::MAX]) {
            let bucket = bucket_of(value);
            assert!(bucket < BUCKETS);
            let edge = upper_edge(bucket);
            assert!(edge >= value);
            assert!(edge - value <= value / 32, "{value} is shown as {edge}");
            assert!(bucket == 0 || upper_edge(bucket - 1) < value);
        }
    }

    #[test]
    fn percentiles_are_read_off_by_rank() {
        let mut latencies = Latencies::new();
        assert!(latencies.percentile_us(50).abs() < f64::EPSILON);
        for microseconds in 1..=100 {
            latencies.record(Duration::from_micros(microseconds));
        }
        assert!((latencies.percentile_us(50) - 50.0).abs() < 2.0);
        assert!((latencies.percentile_us(99) - 99.0).abs() < 4.0);
    }
}
