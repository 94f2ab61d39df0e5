//! Results of a replay: sums by period of time, and ratios with their uncertainty.

use crate::access::{Access, Accesses};
use forebay_cache::Policy;
use std::ops::{AddAssign, Range};

/// Periods of equal length into which the time of the records is divided.
pub const PERIODS: usize = 60;

/// Sums over the accesses of one period.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Period {
    pub accesses: u64,
    /// Accesses for which the origin was not read.
    pub hits: u64,
    /// Bytes that clients got.
    pub read: u64,
    /// Those of them that came from the cache.
    pub saved: u64,
    /// Bytes that came from origins.
    pub origin: u64,
    /// Bytes of accesses that the rules kept out of the cache.
    pub bypassed: u64,
}

/// The hits and misses of one cache, and its purges.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub policy: Policy,
    /// Size of the cache in bytes.
    pub size: u64,
    pub periods: Vec<Period>,
    /// The first period in which the cache was full from the begin on; `None` if it never was.
    pub full_from: Option<usize>,
    /// Files and bytes purged.
    pub purged_files: u64,
    pub purged_bytes: u64,
    /// How long the files purged for space had been unused, in milliseconds, over those from the second half of the time on.
    pub eviction_age_ms: Option<i64>,
    /// Bytes in the cache at the end.
    pub used: u64,
}

/// The periods that count, those after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    pub first: usize,
    /// Time of the periods that count, in seconds.
    pub seconds: f64,
}

/// A ratio between 0 and 1, with half the width of its 95 % interval; `None` if there are too few periods for one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub value: f64,
    pub error: Option<f64>,
}

/// The ratios of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    pub sums: Period,
    /// Accesses that did not read the origin.
    pub by_files: Ratio,
    /// Bytes that did not come from the origin.
    pub by_bytes: Ratio,
    /// The same with the time of each byte saved in bytes per 30 days.
    pub saved_per_month: f64,
    pub origin_per_month: f64,
}

const MONTH_SECONDS: f64 = 30.0 * 86_400.0;

impl AddAssign for Period {
    fn add_assign(&mut self, other: Self) {
        self.accesses += other.accesses;
        self.hits += other.hits;
        self.read = self.read.saturating_add(other.read);
        self.saved = self.saved.saturating_add(other.saved);
        self.origin = self.origin.saturating_add(other.origin);
        self.bypassed = self.bypassed.saturating_add(other.bypassed);
    }
}

impl Window {
    /// The window after a warm-up of `warm_up` periods of records between `span_ms`. At least one period counts.
    pub fn after(warm_up: usize, span_ms: (i64, i64)) -> Self {
        let first = warm_up.min(PERIODS - 1);
        let span = span_ms.1.saturating_sub(span_ms.0).max(1) as f64 / 1000.0;
        Self { first, seconds: span * (PERIODS - first) as f64 / PERIODS as f64 }
    }

    /// The window after the warm-up that `outcomes` need: until the largest cache that is full in the first half of the time
    /// is full, but not less than a tenth.
    pub fn after_filling(outcomes: &[Outcome], span_ms: (i64, i64)) -> Self {
        let filled = outcomes.iter().filter_map(|outcome| outcome.full_from).filter(|first| *first <= PERIODS / 2);
        Self::after(filled.max().unwrap_or(0).max(PERIODS / 10), span_ms)
    }

    pub fn periods(self) -> Range<usize> {
        self.first..PERIODS
    }

    /// Whether a cache was full throughout the window.
    pub fn is_warm(self, outcome: &Outcome) -> bool {
        outcome.full_from.is_some_and(|first| first <= self.first)
    }
}

impl Ratios {
    /// The ratios of `periods` within `window`.
    pub fn of(periods: &[Period], window: Window) -> Self {
        let counted = periods.get(window.periods()).unwrap_or_default();
        let mut sums = Period::default();
        counted.iter().for_each(|period| sums += *period);
        let by_files = Ratio::of(counted.iter().map(|period| (period.hits, period.accesses)));
        let by_bytes = Ratio::of(counted.iter().map(|period| (period.saved, period.read)));
        let per_month = |bytes: u64| bytes as f64 * MONTH_SECONDS / window.seconds.max(1.0);
        Self {
            sums,
            by_files,
            by_bytes,
            saved_per_month: per_month(sums.saved),
            origin_per_month: per_month(sums.origin),
        }
    }
}

impl Ratio {
    /// The ratio of two sums, and its uncertainty by batch means: from the spread of the ratios of ten or more batches around it.
    fn of(parts: impl Iterator<Item = (u64, u64)>) -> Self {
        let parts: Vec<(f64, f64)> = parts.map(|(part, whole)| (part as f64, whole as f64)).collect();
        let sum = |of: fn(&(f64, f64)) -> f64| parts.iter().map(of).sum::<f64>();
        let (part, whole) = (sum(|pair| pair.0), sum(|pair| pair.1));
        if whole <= 0.0 {
            return Self { value: 0.0, error: None };
        }
        let value = part / whole;
        let batch_len = parts.len() / BATCHES;
        if batch_len == 0 {
            return Self { value, error: None };
        }
        let batches = parts.chunks(batch_len).map(|batch| {
            let deviation: f64 = batch.iter().map(|(part, whole)| part - value * whole).sum();
            deviation * deviation
        });
        let count = parts.len().div_ceil(batch_len) as f64;
        let variance = batches.sum::<f64>() * count / (count - 1.0);
        Self { value, error: Some(STUDENT * variance.sqrt() / whole) }
    }
}

/// Batches of periods: fewer say too little of the spread, more are too short to be independent.
const BATCHES: usize = 10;

/// The 97.5 % point of Student's distribution for nine degrees of freedom.
const STUDENT: f64 = 2.262;

/// The periods as they were measured, if every access of the window has its outcome. An access of which no byte came from
/// an origin is a hit.
#[must_use]
pub fn measured(accesses: &Accesses, window: Window) -> Option<Vec<Period>> {
    let span_ms = accesses.span_ms()?;
    let mut periods = vec![Period::default(); PERIODS];
    let mut clock = PeriodClock::new(span_ms);
    for access in accesses.list() {
        let number = clock.period_of(access.at_ms);
        if access.saved == Access::UNKNOWN {
            if number >= window.first {
                return None;
            }
            continue;
        }
        let missed = access.read - access.saved.min(access.read);
        if let Some(period) = periods.get_mut(number) {
            *period += Period {
                accesses: 1,
                hits: u64::from(missed == 0),
                read: access.read,
                saved: access.read - missed,
                origin: missed,
                bypassed: 0,
            };
        }
    }
    Some(periods)
}

/// The period of times that increase.
pub(crate) struct PeriodClock {
    span_ms: (i64, i64),
    number: usize,
    ends_ms: i64,
}

impl PeriodClock {
    pub(crate) fn new(span_ms: (i64, i64)) -> Self {
        let mut clock = Self { span_ms, number: 0, ends_ms: 0 };
        clock.ends_ms = clock.end_of(0);
        clock
    }

    pub(crate) fn period_of(&mut self, at_ms: i64) -> usize {
        while at_ms >= self.ends_ms && self.number < PERIODS - 1 {
            self.number += 1;
            self.ends_ms = self.end_of(self.number);
        }
        self.number
    }

    fn end_of(&self, number: usize) -> i64 {
        let span = i128::from(self.span_ms.1) - i128::from(self.span_ms.0) + 1;
        let end = i128::from(self.span_ms.0) + span * (number as i128 + 1) / PERIODS as i128;
        i64::try_from(end).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uncertainty_is_that_of_the_batches() {
        let equal = Ratio::of((0..PERIODS).map(|_| (1, 2)));
        assert_eq!((equal.value, equal.error), (0.5, Some(0.0)));
        let alternating = Ratio::of((0..PERIODS as u64).map(|n| (n / 6 % 2, 1)));
        assert_eq!(alternating.value, 0.5);
        // Ten batches with deviations of ±3 of 6: t · sqrt(10 · 9 · 10 / 9) / 60.
        assert!((alternating.error.unwrap() - STUDENT * 10.0 / 60.0).abs() < 1e-9);
        assert_eq!(Ratio::of([(1, 2)].into_iter()).error, None);
        assert_eq!(Ratio::of([(0, 0)].into_iter()).value, 0.0);
    }

    #[test]
    fn periods_divide_the_time_evenly() {
        let mut clock = PeriodClock::new((1000, 1000 + 59));
        let periods: Vec<_> = (1000..1060).map(|at_ms| clock.period_of(at_ms)).collect();
        assert_eq!(periods, (0..60).collect::<Vec<_>>());
        assert_eq!(PeriodClock::new((5, 5)).period_of(5), PERIODS - 1);
        let mut long = PeriodClock::new((i64::MIN, i64::MAX));
        assert_eq!((long.period_of(i64::MIN), long.period_of(i64::MAX)), (0, PERIODS - 1));
    }
}
