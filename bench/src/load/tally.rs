//! The counts of a stress: in all, of each job, and of each second.

use super::connection::Completed;
use super::latency::Latencies;
use super::slot::Step;
use forebay_net::clock;
use serde::Serialize;
use std::time::{Duration, Instant};

/// The results of a stress run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StressReport {
    /// Files opened, read and closed.
    pub(crate) visits: u64,
    pub(crate) reads: u64,
    /// Bytes received, all of them compared.
    pub(crate) bytes: u64,
    /// Duration in seconds, until the last job was done.
    pub(crate) wall_s: f64,
    /// When the first job was done, in seconds; as late as the last one where all get their share.
    pub(crate) first_done_s: f64,
    /// Latency of reads in microseconds.
    pub(crate) read_p50_us: f64,
    pub(crate) read_p99_us: f64,
    pub(crate) read_max_us: f64,
    /// Latency of opens in microseconds.
    pub(crate) open_p99_us: f64,
    /// Jobs that did not come to their end.
    pub(crate) errors: u64,
    /// The message of the first of them.
    pub(crate) first_error: Option<String>,
    /// Indexed by job number.
    #[serde(skip)]
    pub(crate) jobs: Vec<JobReport>,
    /// The first one begins with the run.
    #[serde(skip)]
    pub(crate) seconds: Vec<SecondReport>,
}

/// The results of one job.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct JobReport {
    /// How long it ran, in seconds; logging in came before.
    pub(crate) wall_s: f64,
    /// Files opened, read and closed.
    pub(crate) visits: u64,
    pub(crate) reads: u64,
    /// Bytes received, all of them compared.
    pub(crate) bytes: u64,
    /// Why it did not come to its end.
    pub(crate) error: Option<String>,
}

/// The results of all jobs in one second.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(crate) struct SecondReport {
    /// Bytes that came, headers included.
    pub(crate) received_bytes: u64,
    pub(crate) opens: u64,
    /// Number of reads answered.
    pub(crate) reads: u64,
    /// Files opened, read and closed.
    pub(crate) visits: u64,
    /// Jobs that came to their end.
    pub(crate) jobs_done: u64,
    /// Jobs that did not.
    pub(crate) jobs_failed: u64,
}

/// The counts of a run.
pub(super) struct Tally {
    start: Instant,
    first_done: Option<Duration>,
    last_done: Duration,
    read_latencies: Latencies,
    open_latencies: Latencies,
    jobs: Vec<JobReport>,
    seconds: Vec<SecondReport>,
}

impl Tally {
    /// Begins to count, for this many jobs.
    pub(super) fn new(jobs: usize) -> Self {
        Self {
            start: clock::monotonic(),
            first_done: None,
            last_done: Duration::ZERO,
            read_latencies: Latencies::new(),
            open_latencies: Latencies::new(),
            jobs: vec![JobReport::default(); jobs],
            seconds: Vec::new(),
        }
    }

    pub(super) const fn start(&self) -> Instant {
        self.start
    }

    pub(super) fn receive(&mut self, bytes: usize, now: Instant) {
        self.second(now).received_bytes += bytes as u64;
    }

    /// A request of `job` is answered.
    pub(super) fn complete(&mut self, job: usize, completed: &Completed, now: Instant) {
        let latency = now - completed.started;
        match completed.step {
            Step::Open => {
                self.open_latencies.record(latency);
                self.second(now).opens += 1;
            }
            Step::Close => {
                self.second(now).visits += 1;
                self.job(job).visits += 1;
            }
            _ => {
                self.read_latencies.record(latency);
                self.second(now).reads += 1;
                let job = self.job(job);
                job.reads += 1;
                job.bytes += completed.bytes;
            }
        }
    }

    /// A job has come to its end.
    pub(super) fn finish(&mut self, job: usize, now: Instant) {
        self.last_done = now - self.start;
        self.first_done.get_or_insert(self.last_done);
        self.second(now).jobs_done += 1;
        self.job(job).wall_s = (now - self.start).as_secs_f64();
    }

    /// A job has failed.
    pub(super) fn fail(&mut self, job: usize, error: String, now: Instant) {
        self.second(now).jobs_failed += 1;
        let wall_s = (now - self.start).as_secs_f64();
        let job = self.job(job);
        job.wall_s = wall_s;
        job.error = Some(error);
    }

    pub(super) fn report(self) -> StressReport {
        let total = |count: fn(&JobReport) -> u64| self.jobs.iter().map(count).sum();
        StressReport {
            visits: total(|job| job.visits),
            reads: total(|job| job.reads),
            bytes: total(|job| job.bytes),
            wall_s: self.last_done.as_secs_f64(),
            first_done_s: self.first_done.unwrap_or_default().as_secs_f64(),
            read_p50_us: self.read_latencies.percentile_us(50),
            read_p99_us: self.read_latencies.percentile_us(99),
            read_max_us: self.read_latencies.percentile_us(100),
            open_p99_us: self.open_latencies.percentile_us(99),
            errors: total(|job| job.error.is_some().into()),
            first_error: self.jobs.iter().find_map(|job| job.error.clone()),
            jobs: self.jobs,
            seconds: self.seconds,
        }
    }

    fn job(&mut self, number: usize) -> &mut JobReport {
        self.jobs.get_mut(number).expect("counts are made for every job")
    }

    fn second(&mut self, now: Instant) -> &mut SecondReport {
        let number = usize::try_from((now - self.start).as_secs()).unwrap_or(usize::MAX);
        if number >= self.seconds.len() {
            self.seconds.resize(number + 1, SecondReport::default());
        }
        self.seconds.get_mut(number).expect("there is room for this second")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_jobs_and_seconds_adds_up() {
        let mut tally = Tally::new(2);
        let start = tally.start();
        let at = |ms| start + Duration::from_millis(ms);
        let done = |step, bytes| Completed { slot: 0, step, bytes, started: start };
        tally.receive(16, at(10));
        tally.complete(0, &done(Step::Open, 0), at(10));
        tally.complete(0, &done(Step::Read, 100), at(900));
        tally.complete(1, &done(Step::ReadVector, 200), at(2_100));
        tally.receive(316, at(2_100));
        tally.complete(0, &done(Step::Close, 0), at(2_200));
        tally.finish(0, at(2_200));
        tally.fail(1, "gone".to_owned(), at(2_300));
        let report = tally.report();
        assert_eq!((report.visits, report.reads, report.bytes, report.errors), (1, 2, 300, 1));
        assert_eq!(report.first_error.as_deref(), Some("gone"));
        let first = SecondReport { received_bytes: 16, opens: 1, reads: 1, ..SecondReport::default() };
        let last = SecondReport {
            received_bytes: 316,
            reads: 1,
            visits: 1,
            jobs_done: 1,
            jobs_failed: 1,
            ..SecondReport::default()
        };
        assert_eq!(report.seconds, [first, SecondReport::default(), last]);
        assert!(report.jobs[0].error.is_none() && report.jobs[1].bytes == 200);
    }
}
