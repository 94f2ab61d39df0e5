//! The LRU curve of a running cache: which hit ratio a cache of each size would have had, and what it is used for.

use crate::{
    recency::{Recency, UNIT},
    top::Top,
};
use forebay_types::DataName;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Days that the curve covers at most.
pub const REUSE_DAYS: usize = 30;

/// Files that are known at most: with them, it takes 64 MB.
pub const REUSE_FILES_MAX: usize = 1_000_000;

/// Data tiers and datasets that are counted by themselves at most.
const TIERS_MAX: usize = 100;
const DATASETS_MAX: usize = 2000;

/// Follows the accesses of a cache, and keeps what an LRU cache of each size would have made of them.
///
/// For each access, the *reuse distance* is computed: the bytes of all files that were used since the last access to the same file, its own
/// included. An LRU cache of that size or more has the file, a smaller one does not. Distances are exact; they are counted in steps of
/// a seventh to a quarter, at whose ends the curve is exact. The size of a file is the largest part of it that was read: where readers of a file read
/// different amounts, small caches would hold less of it. An access costs O(log n).
#[derive(Debug)]
pub struct ReuseCurve {
    recency: Recency,
    days: Vec<Day>,
    since: i64,
    tiers: Top,
    datasets: Top,
}

/// One access as the curve counts it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Use<'a> {
    pub path: &'a str,
    /// Size of the file.
    pub size: u64,
    /// Bytes that the client got.
    pub read: u64,
    /// When it ended, in seconds of the Unix epoch.
    pub at: i64,
}

/// The curve, and sums over the files and accesses that it rests on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reuse {
    /// Since when accesses were followed, in seconds of the Unix epoch.
    pub since: i64,
    /// The days that are counted.
    pub days: u64,
    /// Accesses and bytes read in these days.
    pub accesses: u64,
    pub read: u64,
    /// Those to files that were not known: the first ones, or after a very long time.
    pub first_accesses: u64,
    pub first_bytes: u64,
    /// LRU caches of 16 MiB and more; the last one has room for all files.
    pub curve: Vec<CurvePoint>,
    pub working_sets: Vec<WorkingSet>,
    /// Accesses by the time since the last one to the same file.
    pub intervals: Vec<Interval>,
    /// Files that are known, with the bytes that were read of them.
    pub files: u64,
    pub bytes: u64,
    pub once_files: u64,
    pub once_bytes: u64,
    /// Largest size for which the curve holds: files beyond were forgotten.
    pub size_max: Option<u64>,
    pub tiers: Vec<Group>,
    pub datasets: Vec<Group>,
}

/// An LRU cache of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Its size in bytes.
    pub size: u64,
    /// Accesses that would not have read the origin.
    pub hits: u64,
    /// Bytes that would have come from the cache.
    pub saved: u64,
    /// How long the next file to be evicted has been unused, in seconds; `None` if the cache would not be full.
    pub eviction_age: Option<u64>,
}

/// The bytes that were used in the last days.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WorkingSet {
    pub days: u64,
    pub files: u64,
    pub bytes: u64,
}

/// Accesses that came within some time after the last one to the same file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Interval {
    /// Longest time, in seconds; the largest number for the last one.
    pub seconds: u64,
    pub accesses: u64,
    pub bytes: u64,
}

/// A data tier or a dataset.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Group {
    pub name: String,
    pub accesses: u64,
    pub read: u64,
    /// Bytes that were read again, of files that were known.
    pub reread: u64,
}

/// Days of working sets.
const WORKING_SETS: [u64; 4] = [1, 7, 30, 90];

/// Limits of intervals, in seconds: an hour, and days.
const INTERVALS: [u64; 8] = [3600, 86_400, 3 * 86_400, 7 * 86_400, 14 * 86_400, 30 * 86_400, 90 * 86_400, u64::MAX];

/// Steps of distances: four for each power of two, up to 2^48 units.
const STEPS: usize = 192;

const DAY_SECONDS: i64 = 86_400;

/// Counts of one day.
#[derive(Clone, Debug)]
struct Day {
    number: i64,
    accesses: u64,
    read: u64,
    first: Count,
    /// By reuse distance; hits are counted in the step of their distance.
    steps: [Count; STEPS],
    intervals: [Count; INTERVALS.len()],
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    accesses: u64,
    bytes: u64,
}

impl Count {
    fn add(&mut self, accesses: u64, bytes: u64) {
        self.accesses += accesses;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl ReuseCurve {
    /// A curve without accesses, of `files_max` files at most; `now` in seconds of the Unix epoch.
    pub fn new(files_max: usize, now: i64) -> Self {
        let (tiers, datasets) = (Top::new(TIERS_MAX), Top::new(DATASETS_MAX));
        Self { recency: Recency::new(files_max), days: Vec::new(), since: now, tiers, datasets }
    }

    /// Follows an access. Times that go back count as the latest one.
    pub fn add(&mut self, access: &Use<'_>) {
        let mut hasher = DefaultHasher::new();
        access.path.hash(&mut hasher);
        let hash = hasher.finish();
        let now = u32::try_from(access.at).unwrap_or(0);
        let wanted = access.read.min(access.size);
        let known = self.recency.find(hash);
        let held = known.map_or(0, |(entry, _)| u64::from(entry.size) * UNIT);
        let missed = if known.is_some() { wanted.saturating_sub(held) } else { wanted };
        let saved = access.read - missed.min(access.read);
        let is_hit = u64::from(known.is_some() && missed == 0);
        if let Some(day) = self.day(access.at.div_euclid(DAY_SECONDS)) {
            day.accesses += 1;
            day.read = day.read.saturating_add(access.read);
            match known {
                Some((entry, distance)) => {
                    if let Some(step) = day.steps.get_mut(step_of(distance)) {
                        step.add(is_hit, saved);
                    }
                    let seconds = u64::from(now.saturating_sub(entry.last_use));
                    let interval = INTERVALS.iter().position(|limit| seconds <= *limit);
                    if let Some(interval) = interval.and_then(|interval| day.intervals.get_mut(interval)) {
                        interval.add(1, access.read);
                    }
                }
                None => day.first.add(1, access.read),
            }
        }
        let reread = if known.is_some() { saved } else { 0 };
        let data = DataName::of(access.path);
        self.tiers.add(data.tier, access.read, reread);
        self.datasets.add(&data.dataset, access.read, reread);
        let units = u32::try_from(wanted.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let size = known.map_or(units, |(entry, _)| entry.size.max(units));
        self.recency.touch(hash, size, now);
    }

    /// The curve of the last [`REUSE_DAYS`] days at `now`, in seconds of the Unix epoch. Costs a look at each file.
    pub fn report(&self, now: i64) -> Reuse {
        let today = now.div_euclid(DAY_SECONDS);
        let oldest = today - REUSE_DAYS as i64 + 1;
        let mut reuse = Reuse {
            since: self.since,
            days: u64::try_from(today - self.since.div_euclid(DAY_SECONDS).max(oldest) + 1).unwrap_or(1),
            tiers: self.tiers.groups(),
            datasets: self.datasets.groups(),
            ..Reuse::default()
        };
        let mut steps = [Count::default(); STEPS];
        let mut intervals = [Count::default(); INTERVALS.len()];
        for day in self.days.iter().filter(|day| (oldest..=today).contains(&day.number)) {
            reuse.accesses += day.accesses;
            reuse.read = reuse.read.saturating_add(day.read);
            reuse.first_accesses += day.first.accesses;
            reuse.first_bytes = reuse.first_bytes.saturating_add(day.first.bytes);
            let sums = steps.iter_mut().zip(&day.steps).chain(intervals.iter_mut().zip(&day.intervals));
            sums.for_each(|(sum, count)| sum.add(count.accesses, count.bytes));
        }
        let interval = |(seconds, count): (&u64, &Count)| Interval {
            seconds: *seconds,
            accesses: count.accesses,
            bytes: count.bytes,
        };
        reuse.intervals = INTERVALS.iter().zip(&intervals).map(interval).collect();
        reuse.size_max = self.recency.is_full().then(|| self.recency.total() * UNIT);
        self.scan(&mut reuse, &steps, now);
        reuse
    }

    /// Adds what depends on the files: the points of the curve, and working sets.
    fn scan(&self, reuse: &mut Reuse, steps: &[Count; STEPS], now: i64) {
        let age_of = |last_use: u32| u64::try_from(now - i64::from(last_use)).unwrap_or(0);
        reuse.working_sets = WORKING_SETS.map(|days| WorkingSet { days, files: 0, bytes: 0 }).to_vec();
        let mut points = (0..STEPS).map(|step| (step, step_end(step))).peekable();
        let mut ages: Vec<Option<u64>> = Vec::with_capacity(STEPS);
        let mut units = 0_u64;
        for entry in self.recency.latest_first() {
            units += u64::from(entry.size);
            let (age, bytes) = (age_of(entry.last_use), u64::from(entry.size) * UNIT);
            while points.next_if(|(_, end)| *end < units).is_some() {
                ages.push(Some(age));
            }
            for set in reuse.working_sets.iter_mut().filter(|set| age <= set.days * DAY_SECONDS.unsigned_abs()) {
                set.files += 1;
                set.bytes += bytes;
            }
            reuse.files += 1;
            reuse.bytes += bytes;
            if entry.uses == 1 {
                reuse.once_files += 1;
                reuse.once_bytes += bytes;
            }
        }
        let mut sums = Count::default();
        // The last point is the first one that has all files.
        for (step, age) in (0..STEPS).zip(ages.into_iter().map(Some).chain([None])) {
            if let Some(count) = steps.get(step) {
                sums.add(count.accesses, count.bytes);
            }
            let size = step_end(step).saturating_mul(UNIT);
            let point = CurvePoint { size, hits: sums.accesses, saved: sums.bytes, eviction_age: age.flatten() };
            if size >= CURVE_FROM || age.is_none() {
                reuse.curve.push(point);
            }
        }
    }

    fn day(&mut self, number: i64) -> Option<&mut Day> {
        let latest = self.days.iter().map(|day| day.number).max().unwrap_or(number);
        let number = number.max(latest);
        if !self.days.iter().any(|day| day.number == number) {
            self.days.retain(|day| day.number > number - REUSE_DAYS as i64);
            let (steps, intervals) = ([Count::default(); STEPS], [Count::default(); INTERVALS.len()]);
            self.days.push(Day { number, accesses: 0, read: 0, first: Count::default(), steps, intervals });
        }
        self.days.iter_mut().find(|day| day.number == number)
    }
}

/// The smallest cache of the curve in bytes, if it does not have room for everything.
const CURVE_FROM: u64 = 1 << 24;

/// The step of a distance in units: the first one whose end is not below it.
fn step_of(distance: u64) -> usize {
    let below = distance.saturating_sub(1);
    if below < 4 {
        return usize::try_from(below).unwrap_or(0);
    }
    let power = u64::from(below.ilog2());
    let quarter = (below >> (power - 2)) & 3;
    usize::try_from(4 * (power - 1) + quarter).unwrap_or(STEPS).min(STEPS - 1)
}

/// The largest distance of a step, in units.
const fn step_end(step: usize) -> u64 {
    if step < 4 {
        return step as u64 + 1;
    }
    ((step % 4) as u64 + 5) << (step / 4 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Hits and bytes saved by an LRU cache of `size` bytes, as a list of files.
    fn brute_force(uses: &[(u8, u64, u64)], size: u64) -> (u64, u64) {
        let mut list: Vec<(u8, u64)> = Vec::new();
        let (mut hits, mut saved) = (0, 0);
        for &(file, file_size, read) in uses {
            let wanted = read.min(file_size);
            let position = list.iter().position(|entry| entry.0 == file);
            let held = position.map(|position| list.remove(position).1);
            let missed = wanted.saturating_sub(held.unwrap_or(0));
            if held.is_some() {
                hits += u64::from(missed == 0);
                saved += read - missed;
            }
            list.push((file, wanted.div_ceil(UNIT).max(held.unwrap_or(0) / UNIT) * UNIT));
            while list.iter().map(|entry| entry.1).sum::<u64>() > size {
                list.remove(0);
            }
        }
        (hits, saved)
    }

    proptest! {
        #[test]
        fn the_curve_is_that_of_lru_caches_of_its_sizes(
            uses in prop::collection::vec((0_u8..30, 1_u64..3), 1..300),
        ) {
            // Each file has a size of its own, and is read as a whole, or twice as much.
            let sized = |(file, times): &(u8, u64)| {
                let size = u64::from(*file + 1) * 150 * UNIT;
                (*file, size, times * size)
            };
            let uses: Vec<_> = uses.iter().map(sized).collect();
            let mut curve = ReuseCurve::new(100, 0);
            for (position, (file, size, read)) in (0..).zip(&uses) {
                let path = format!("/f{file}");
                curve.add(&Use { path: &path, size: *size, read: *read, at: position });
            }
            let reuse = curve.report(1000);
            prop_assert!(!reuse.curve.is_empty() || reuse.bytes < CURVE_FROM);
            for point in &reuse.curve {
                prop_assert_eq!((point.hits, point.saved), brute_force(&uses, point.size), "{}", point.size);
            }
            prop_assert_eq!(reuse.accesses, uses.len() as u64);
        }
    }

    #[test]
    fn steps_end_where_the_next_ones_begin() {
        for step in 0..STEPS - 1 {
            assert_eq!(step_of(step_end(step)), step);
            assert_eq!(step_of(step_end(step) + 1), step + 1);
        }
        assert_eq!((step_of(0), step_of(1), step_of(u64::MAX)), (0, 0, STEPS - 1));
    }

    #[test]
    fn working_sets_intervals_and_files_used_once_are_counted() {
        const DAY: i64 = DAY_SECONDS;
        let mut curve = ReuseCurve::new(100, 100 * DAY);
        let tib = 1 << 40;
        for (path, at) in [("/store/mc/R/D/AOD/v/a", 101), ("/b", 110), ("/b", 118), ("/c", 120), ("/d", 120)] {
            curve.add(&Use { path, size: tib, read: tib, at: at * DAY });
        }
        let reuse = curve.report(121 * DAY);
        let sets: Vec<_> = reuse.working_sets.iter().map(|set| (set.days, set.files, set.bytes >> 40)).collect();
        assert_eq!(sets, [(1, 2, 2), (7, 3, 3), (30, 4, 4), (90, 4, 4)]);
        assert_eq!((reuse.files, reuse.once_files, reuse.once_bytes), (4, 3, 3 * tib));
        assert_eq!((reuse.accesses, reuse.first_accesses, reuse.days), (5, 4, 22));
        let used: Vec<_> = reuse.intervals.iter().map(|interval| interval.accesses).collect();
        assert_eq!(used, [0, 0, 0, 0, 1, 0, 0, 0]);
        let at = |size: u64| *reuse.curve.iter().find(|point| point.size == size).unwrap();
        assert_eq!((at(tib).hits, at(tib).eviction_age), (1, Some(86_400)));
        assert_eq!(at(3 * tib).eviction_age, Some(20 * 86_400));
        assert_eq!(reuse.curve.last().map(|point| (point.size, point.eviction_age)), Some((4 * tib, None)));
        assert_eq!(
            reuse.tiers.iter().map(|tier| (tier.name.as_str(), tier.accesses)).collect::<Vec<_>>(),
            [("unknown", 4), ("AOD", 1)]
        );
        // Days that are past are no longer counted.
        assert_eq!(curve.report(140 * DAY).accesses, 3);
    }
}
