//! Processor efficiency of jobs by the source of their input, and the time that the cache saves.

use crate::jobs::{DataSource, Input, Job, Join};
use std::collections::BTreeMap;

/// Sums over jobs with the same source of their input.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JobSums {
    pub jobs: u64,
    pub wall_seconds: f64,
    pub cpu_seconds: f64,
    /// Bytes that they read through the cache, as their accesses were found.
    pub read: u64,
    /// Sums of squares and products, for the uncertainty.
    wall_squares: f64,
    cpu_squares: f64,
    products: f64,
}

/// Jobs by the source of their input, of all sites and of each.
#[derive(Clone, Debug, Default)]
pub struct Efficiency {
    pub sources: BTreeMap<&'static str, JobSums>,
    pub sites: BTreeMap<String, BTreeMap<&'static str, JobSums>>,
}

/// Sites that are listed at most; jobs of further ones count as those of `other`.
pub const SITES_MAX: usize = 500;

impl JobSums {
    fn add(&mut self, job: &Job, input: Input) {
        let Job { wall_seconds, cpu_seconds, .. } = *job;
        self.jobs += 1;
        self.wall_seconds += wall_seconds;
        self.cpu_seconds += cpu_seconds;
        self.read = self.read.saturating_add(input.read);
        self.wall_squares += wall_seconds * wall_seconds;
        self.cpu_squares += cpu_seconds * cpu_seconds;
        self.products += wall_seconds * cpu_seconds;
    }

    /// Processor time by time on the cores; `None` without jobs.
    pub fn efficiency(&self) -> Option<f64> {
        (self.wall_seconds > 0.0).then(|| self.cpu_seconds / self.wall_seconds)
    }

    /// Half the width of the 95 % interval of the efficiency, by the spread between jobs; `None` for fewer than ten.
    pub fn error(&self) -> Option<f64> {
        let ratio = self.efficiency()?;
        if self.jobs < ERROR_JOBS_MIN {
            return None;
        }
        let count = self.jobs as f64;
        let squares = self.cpu_squares - 2.0 * ratio * self.products + ratio * ratio * self.wall_squares;
        Some(1.96 * (squares.max(0.0) * count / (count - 1.0)).sqrt() / self.wall_seconds)
    }

    /// Time in seconds that these jobs would have saved with the efficiency `with`.
    pub fn saved_seconds(&self, with: f64) -> f64 {
        if with > 0.0 { (self.wall_seconds - self.cpu_seconds / with).max(0.0) } else { 0.0 }
    }
}

/// Jobs that are needed for an estimate of their spread.
const ERROR_JOBS_MIN: u64 = 10;

impl Efficiency {
    /// The efficiency of `jobs`, whose input is found by `join`.
    pub fn of(jobs: &[Job], join: &Join<'_>) -> Self {
        let mut efficiency = Self::default();
        for job in jobs {
            let input = join.input(job);
            let source = input.source().as_str();
            efficiency.sources.entry(source).or_default().add(job, input);
            let is_listed = efficiency.sites.contains_key(&job.site) || efficiency.sites.len() < SITES_MAX;
            let site = if is_listed { job.site.clone() } else { "other".to_owned() };
            efficiency.sites.entry(site).or_default().entry(source).or_default().add(job, input);
        }
        efficiency
    }

    /// The efficiency of jobs that read from the cache; `None` without such jobs.
    #[must_use]
    pub fn from_cache(&self) -> Option<f64> {
        self.sources.get(DataSource::Cache.as_str())?.efficiency()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Access, Accesses};
    use forebay_cache::CacheKey;

    #[test]
    fn savings_are_those_of_the_published_kind() {
        // As published: 77.2 % with, 70.4 % without the cache.
        let mut accesses = Accesses::default();
        let mut jobs = Vec::new();
        for (position, (user, cpu, saved)) in [("near", 772.0, 50), ("far", 704.0, 0)].into_iter().enumerate() {
            let access = Access { at_ms: 5000 + position as i64, file: 0, user: 0, read: 50, saved };
            accesses.add(CacheKey::from_text("/a").unwrap(), None, user, access).unwrap();
            let job = Job {
                user: user.to_owned(),
                start_ms: 0,
                end_ms: 1_000_000,
                wall_seconds: 1000.0,
                cpu_seconds: cpu,
                ..Job::default()
            };
            jobs.extend(std::iter::repeat_n(job, 20));
        }
        accesses.sort();
        let efficiency = Efficiency::of(&jobs, &Join::new(&accesses));
        let with = efficiency.from_cache().unwrap();
        assert!((with - 0.772).abs() < 1e-9);
        let far = efficiency.sources.get("origin").unwrap();
        assert_eq!((far.jobs, far.read, far.error()), (20, 1000, Some(0.0)));
        assert!((far.saved_seconds(with) - 20.0 * (1000.0 - 704.0 / 0.772)).abs() < 1e-6);
        assert_eq!(efficiency.sites.get("").map(BTreeMap::len), Some(2));
        assert_eq!(JobSums::default().efficiency(), None);
    }

    #[test]
    fn the_uncertainty_is_that_of_the_jobs() {
        let mut sums = JobSums::default();
        for number in 0..100 {
            let cpu_seconds = if number % 2 == 0 { 60.0 } else { 80.0 };
            sums.add(&Job { wall_seconds: 100.0, cpu_seconds, ..Job::default() }, Input::default());
        }
        // 0.1 of standard deviation, of a hundred jobs.
        assert!((sums.error().unwrap() - 1.96 * 0.1 / 99_f64.sqrt()).abs() < 1e-9);
    }
}
