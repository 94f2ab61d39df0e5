//! Many jobs at a time that visit random files, as the jobs of a cluster do.

use super::connection::Connection;
use super::job::{Job, LoadFile};
use super::login::Entry;
use super::poller::Poller;
use super::reply::ReplyError;
use super::tally::{StressReport, Tally};
use super::visits::{VisitShape, Visits};
use super::{CONNECTIONS_MAX, RECEIVE_LEN, STALL_TIMEOUT};
use crate::content::Content;
use anyhow::{Context as _, Result, ensure};
use forebay_net::clock;
use forebay_proto::Status;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The jobs, and the server that they run against.
#[derive(Clone, Debug)]
pub(crate) struct StressOptions {
    pub(crate) server: SocketAddr,
    /// The list that each job chooses from.
    pub(crate) files: Vec<LoadFile>,
    /// Jobs at a time, each with a connection of its own; from 1 to [`CONNECTIONS_MAX`].
    pub(crate) jobs: u16,
    /// Files that each job visits.
    pub(crate) visits: u32,
    /// The reads of a visit.
    pub(crate) shape: VisitShape,
    /// The same seed makes the same visits.
    pub(crate) seed: u64,
}

/// Jobs that are connected and logged in.
pub(crate) struct Stress {
    /// Those that are left.
    members: Vec<Option<Member>>,
    jobs: usize,
    /// Jobs that could not log in, by number.
    refused: Vec<(usize, String)>,
    poller: Poller,
    buffer: Vec<u8>,
}

/// A job that runs.
struct Member {
    number: usize,
    connection: Connection,
    job: Job,
    /// Time of the next request, if the server deferred it.
    put_off: Option<Instant>,
}

/// Interval between checks of deferred jobs.
const PUT_OFF_LOOK: Duration = Duration::from_millis(100);

/// Jobs that log in at the same time: over a long path, one after the other takes minutes.
const LOGINS_AT_A_TIME: usize = 32;

impl Stress {
    /// Connects and logs in. A job that cannot log in has failed.
    pub(crate) fn prepare(options: &StressOptions) -> Result<Self> {
        ensure!(!options.files.is_empty(), "there is no file to visit");
        ensure!((1..=CONNECTIONS_MAX).contains(&options.jobs), "jobs must be 1 to {CONNECTIONS_MAX}");
        let files: std::rc::Rc<[LoadFile]> = options.files.as_slice().into();
        let (mut members, mut refused) = (Vec::new(), Vec::new());
        for (number, connection) in log_in_all(options.server, options.jobs.into())?.into_iter().enumerate() {
            match connection {
                Err(error) => refused.push((number, format!("{error:#}"))),
                Ok(connection) => {
                    let seed = options.seed.wrapping_mul(u64::from(u16::MAX)).wrapping_add(number as u64);
                    let visits = Visits::new(files.clone(), options.shape, seed, options.visits);
                    members.push(Member { number, connection, job: Job::Visits(visits), put_off: None });
                }
            }
        }
        let poller = Poller::new(members.iter().map(|member| member.connection.stream()))?;
        let members = members.into_iter().map(Some).collect();
        Ok(Self { members, jobs: options.jobs.into(), refused, poller, buffer: vec![0; RECEIVE_LEN] })
    }

    /// Runs until all jobs are done. A job whose connection breaks or whose request is refused is counted and left out;
    /// one whose open is deferred by the server repeats it later.
    ///
    /// # Errors
    /// A wrong byte, or an interruption.
    pub(crate) fn run(mut self, cancelled: &AtomicBool) -> Result<StressReport> {
        let mut tally = Tally::new(self.jobs);
        let start = tally.start();
        for (number, error) in self.refused.drain(..) {
            tally.fail(number, error, start);
        }
        for member in &mut self.members {
            go_on(member, &mut tally, |member, _| member.begin(0, start).map(|()| false))?;
        }
        let (mut last_progress, mut last_look) = (start, start);
        while self.members.iter().any(Option::is_some) {
            ensure!(!cancelled.load(Ordering::Relaxed), "interrupted");
            let now = clock::monotonic();
            let (members, buffer) = (&mut self.members, &mut self.buffer);
            let progress = self.poller.wait(|index| {
                let member = members.get_mut(index).context("events come from our connections")?;
                go_on(member, &mut tally, |member, tally| member.receive(buffer, tally))
            })?;
            if progress {
                last_progress = now;
            }
            if now - last_look > PUT_OFF_LOOK {
                last_look = now;
                for member in &mut self.members {
                    go_on(member, &mut tally, |member, _| member.begin_if_due(now).map(|()| false))?;
                }
            }
            if now - last_progress > STALL_TIMEOUT {
                for member in self.members.iter_mut().filter_map(Option::take) {
                    tally.fail(member.number, format!("no answer for {} s", STALL_TIMEOUT.as_secs()), now);
                }
            }
        }
        Ok(tally.report())
    }
}

impl Member {
    /// Sends the next request, if there is one left.
    fn begin(&mut self, slot: usize, now: Instant) -> Result<()> {
        if !self.is_done() {
            self.connection.begin(slot, &mut self.job, now)?;
            self.connection.flush()?;
        }
        Ok(())
    }

    /// Sends the request that was put off, when its time has come.
    fn begin_if_due(&mut self, now: Instant) -> Result<()> {
        if self.put_off.is_none_or(|at| now < at) {
            return Ok(());
        }
        self.put_off = None;
        self.begin(0, now)
    }

    /// Takes what has come. Whether anything has.
    fn receive(&mut self, buffer: &mut [u8], tally: &mut Tally) -> Result<bool> {
        let len = self.connection.receive(buffer)?;
        let now = clock::monotonic();
        tally.receive(len, now);
        while let Some(completed) = self.connection.next_completed(&mut self.job)? {
            if let Job::Visits(visits) = &self.job
                && let Some(wait) = visits.put_off()
            {
                self.put_off = Some(now + wait);
                continue;
            }
            tally.complete(self.number, &completed, now);
            self.begin(completed.slot, now)?;
        }
        Ok(len > 0)
    }

    fn is_done(&self) -> bool {
        matches!(&self.job, Job::Visits(visits) if visits.is_done())
    }
}

/// Advances a member, and leaves it out when it is done or has failed. Returns whether something was received.
fn go_on(
    member: &mut Option<Member>,
    tally: &mut Tally,
    step: impl FnOnce(&mut Member, &mut Tally) -> Result<bool>,
) -> Result<bool> {
    let Some(running) = member else { return Ok(false) };
    match step(running, tally) {
        Ok(received) => {
            if running.is_done() {
                tally.finish(running.number, clock::monotonic());
                *member = None;
            }
            Ok(received)
        }
        Err(error) if is_wrong(&error) => Err(error),
        Err(error) => {
            tally.fail(running.number, format!("{error:#}"), clock::monotonic());
            *member = None;
            Ok(true)
        }
    }
}

/// Logs `count` clients in, and returns the result of each.
fn log_in_all(server: SocketAddr, count: usize) -> Result<Vec<Result<Connection>>> {
    let log_in = || Connection::log_in(server, &Entry::default(), 1, Content::of_path(""));
    let share = count.div_ceil(LOGINS_AT_A_TIME);
    std::thread::scope(|scope| {
        let logins = |share| move || (0..share).map(|_| log_in()).collect::<Vec<_>>();
        let shares = (0..count).step_by(share).map(|first| share.min(count - first));
        let threads: Vec<_> = shares.map(|share| scope.spawn(logins(share))).collect();
        let mut all = Vec::with_capacity(count);
        for thread in threads {
            all.extend(thread.join().ok().context("a thread that logs in has failed")?);
        }
        Ok(all)
    })
}

/// Whether an answer was wrong, rather than an error, a wish to come again later (which only opens may meet), or nothing.
fn is_wrong(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ReplyError>().is_some_and(|error| match error {
        ReplyError::Refused { .. } => false,
        ReplyError::UnexpectedStatus { status, .. } => *status != Status::WAIT,
        _ => true,
    })
}
