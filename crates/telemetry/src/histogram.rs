//! A histogram of durations that any thread updates without a lock.

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Upper bound of the first bucket: 4 µs, a little less than the fastest hit takes.
const FIRST_BOUND_MICROS: u64 = 4;

/// Bounded buckets, each twice as wide as the one before: 4 µs to 67 s. One more bucket holds the rest.
const BOUNDED_BUCKETS: usize = 25;

/// Durations in fixed buckets that double from 4 µs to 67 s. An update is two relaxed atomic additions.
#[derive(Debug, Default)]
pub(crate) struct AtomicHistogram {
    buckets: [AtomicU64; BOUNDED_BUCKETS + 1],
    sum_nanos: AtomicU64,
}

impl AtomicHistogram {
    pub(crate) fn observe(&self, duration: Duration, count: u64) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(bucket_of(nanos)) {
            bucket.fetch_add(count, Ordering::Relaxed);
        }
        self.sum_nanos.fetch_add(nanos.saturating_mul(count), Ordering::Relaxed);
    }

    /// The number of durations.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }
}

impl EncodeMetric for &AtomicHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bounds = (0..BOUNDED_BUCKETS).map(|bucket| bound(bucket).as_secs_f64()).chain([f64::INFINITY]);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        // The sum of the exported buckets, so that count and buckets agree during concurrent updates.
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = Duration::from_nanos(self.sum_nanos.load(Ordering::Relaxed)).as_secs_f64();
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// Upper bound of a bounded bucket; the bound belongs to it.
const fn bound(bucket: usize) -> Duration {
    Duration::from_micros(FIRST_BOUND_MICROS << bucket)
}

/// Index of the bucket for a duration; the last one is unbounded.
fn bucket_of(nanos: u64) -> usize {
    let quotient = nanos.div_ceil(FIRST_BOUND_MICROS * 1000).max(1);
    let doublings = u64::BITS - (quotient - 1).leading_zeros();
    usize::try_from(doublings).unwrap_or(BOUNDED_BUCKETS).min(BOUNDED_BUCKETS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_in_the_bucket_whose_bound_they_do_not_exceed() {
        for bucket in 0..BOUNDED_BUCKETS {
            let nanos = u64::try_from(bound(bucket).as_nanos()).unwrap();
            assert_eq!(bucket_of(nanos), bucket, "{nanos} ns");
            assert_eq!(bucket_of(nanos + 1), bucket + 1, "{} ns", nanos + 1);
        }
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(u64::MAX), BOUNDED_BUCKETS);
        let histogram = AtomicHistogram::default();
        histogram.observe(Duration::from_micros(3), 1);
        histogram.observe(Duration::from_millis(1), 1);
        histogram.observe(Duration::MAX, 1);
        let total: u64 = histogram.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum();
        assert_eq!(total, 3);
        assert_eq!(histogram.buckets.first().unwrap().load(Ordering::Relaxed), 1);
        assert_eq!(histogram.buckets.last().unwrap().load(Ordering::Relaxed), 1);
    }
}
