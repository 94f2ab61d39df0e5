//! Many jobs at a time that visit files by chance, as the jobs of a cluster do.

use super::connection::{Completed, Connection};
use super::job::{Job, LoadFile};
use super::latency::Latencies;
use super::login::Entry;
use super::poller::Poller;
use super::reply::ReplyError;
use super::slot::Step;
use super::visits::Visits;
use super::{RECEIVE_LEN, STALL_TIMEOUT};
use crate::content::Content;
use anyhow::{Context as _, Result, ensure};
use forebay_net::clock;
use forebay_proto::Status;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What to do to which server.
#[derive(Clone, Debug)]
pub(crate) struct StressOptions {
    /// Who is asked.
    pub(crate) server: SocketAddr,
    /// The list that each job chooses from.
    pub(crate) files: Vec<LoadFile>,
    /// Jobs at a time, each with a connection of its own.
    pub(crate) jobs: u16,
    /// Files that each job visits.
    pub(crate) visits: u32,
    /// The same seed makes the same visits.
    pub(crate) seed: u64,
}

/// What a stress did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StressReport {
    /// Files opened, read and closed.
    pub(crate) visits: u64,
    /// Reads answered.
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
    /// What the first of them said.
    pub(crate) first_error: Option<String>,
}

/// Jobs that are connected and logged in.
pub(crate) struct Stress {
    members: Vec<Option<(Connection, Job)>>,
    poller: Poller,
    buffer: Vec<u8>,
}

impl Stress {
    /// Connects and logs in.
    pub(crate) fn prepare(options: &StressOptions) -> Result<Self> {
        ensure!(!options.files.is_empty(), "there is no file to visit");
        let files: std::rc::Rc<[LoadFile]> = options.files.as_slice().into();
        let mut members = Vec::new();
        for index in 0..options.jobs {
            let connection = Connection::log_in(options.server, &Entry::default(), 1, Content::of_path(""))?;
            let seed = options.seed.wrapping_mul(u64::from(u16::MAX)).wrapping_add(index.into());
            members.push((connection, Job::Visits(Visits::new(files.clone(), seed, options.visits))));
        }
        let poller = Poller::new(members.iter().map(|(connection, _)| connection.stream()))?;
        Ok(Self { members: members.into_iter().map(Some).collect(), poller, buffer: vec![0; RECEIVE_LEN] })
    }

    /// Runs until all jobs are done. A job whose connection breaks, whose request is refused, or that is told to come
    /// again later is counted and left out.
    ///
    /// # Errors
    /// A wrong byte, a stall of all jobs, or an interruption.
    pub(crate) fn run(mut self, cancelled: &AtomicBool) -> Result<StressReport> {
        let mut tally = Tally::new();
        for member in &mut self.members {
            tally.go_on(member, |connection, job, tally| tally.serve_next(connection, 0, job, tally.start))?;
        }
        while self.members.iter().any(Option::is_some) {
            ensure!(!cancelled.load(Ordering::Relaxed), "interrupted");
            let now = clock::monotonic();
            let (members, buffer) = (&mut self.members, &mut self.buffer);
            let progress = self.poller.wait(|index| {
                let member = members.get_mut(index).context("events come from our connections")?;
                tally.go_on(member, |connection, job, tally| {
                    let received = connection.receive(buffer)?;
                    tally.serve(connection, job)?;
                    Ok(received)
                })
            })?;
            if progress {
                tally.last_progress = now;
            }
            if now - tally.last_progress > STALL_TIMEOUT {
                let stalled = self.members.iter_mut().filter_map(Option::take).count();
                tally.errors += u64::try_from(stalled)?;
                tally.first_error.get_or_insert_with(|| format!("no answer for {} s", STALL_TIMEOUT.as_secs()));
            }
        }
        Ok(tally.report())
    }
}

/// The counts of a run.
struct Tally {
    start: Instant,
    last_progress: Instant,
    first_done: Option<Duration>,
    last_done: Duration,
    visits: u64,
    reads: u64,
    bytes: u64,
    read_latencies: Latencies,
    open_latencies: Latencies,
    errors: u64,
    first_error: Option<String>,
}

impl Tally {
    fn new() -> Self {
        let start = clock::monotonic();
        Self {
            start,
            last_progress: start,
            first_done: None,
            last_done: Duration::ZERO,
            visits: 0,
            reads: 0,
            bytes: 0,
            read_latencies: Latencies::new(),
            open_latencies: Latencies::new(),
            errors: 0,
            first_error: None,
        }
    }

    /// Goes on with a member, and leaves it out when it is done or has failed. Whether something was received.
    fn go_on(
        &mut self,
        member: &mut Option<(Connection, Job)>,
        serve: impl FnOnce(&mut Connection, &mut Job, &mut Self) -> Result<bool>,
    ) -> Result<bool> {
        let Some((connection, job)) = member else { return Ok(false) };
        match serve(connection, job, self) {
            Ok(received) => {
                if matches!(job, Job::Visits(visits) if visits.is_done()) {
                    self.last_done = clock::monotonic() - self.start;
                    self.first_done.get_or_insert(self.last_done);
                    *member = None;
                }
                Ok(received)
            }
            Err(error) if is_wrong(&error) => Err(error),
            Err(error) => {
                self.errors += 1;
                self.first_error.get_or_insert_with(|| format!("{error:#}"));
                *member = None;
                Ok(true)
            }
        }
    }

    fn serve(&mut self, connection: &mut Connection, job: &mut Job) -> Result<()> {
        let now = clock::monotonic();
        while let Some(Completed { slot, step, bytes, started }) = connection.next_completed(job)? {
            match step {
                Step::Open => self.open_latencies.record(now - started),
                Step::Close => self.visits += 1,
                _ => {
                    self.reads += 1;
                    self.bytes += bytes;
                    self.read_latencies.record(now - started);
                }
            }
            self.serve_next(connection, slot, job, now)?;
        }
        Ok(())
    }

    fn serve_next(&mut self, connection: &mut Connection, slot: usize, job: &mut Job, now: Instant) -> Result<bool> {
        if !matches!(job, Job::Visits(visits) if visits.is_done()) {
            connection.begin(slot, job, now)?;
            connection.flush()?;
        }
        Ok(false)
    }

    fn report(self) -> StressReport {
        StressReport {
            visits: self.visits,
            reads: self.reads,
            bytes: self.bytes,
            wall_s: self.last_done.as_secs_f64(),
            first_done_s: self.first_done.unwrap_or_default().as_secs_f64(),
            read_p50_us: self.read_latencies.percentile_us(50),
            read_p99_us: self.read_latencies.percentile_us(99),
            read_max_us: self.read_latencies.percentile_us(100),
            open_p99_us: self.open_latencies.percentile_us(99),
            errors: self.errors,
            first_error: self.first_error,
        }
    }
}

/// Whether an answer was wrong, rather than an error, a wish to come again later, or nothing.
fn is_wrong(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ReplyError>().is_some_and(|error| match error {
        ReplyError::Refused { .. } => false,
        ReplyError::UnexpectedStatus { status, .. } => *status != Status::WAIT,
        _ => true,
    })
}
