//! The load generator: one thread that keeps requests under way on many connections and compares every byte.
//!
//! A [`Load`] is prepared first (connections, logins, opens) and then run, as often as wanted, so that what a server
//! spends on a run is spent on the operations measured and on nothing else.

mod connection;
mod crowd;
mod http;
mod job;
mod latency;
mod login;
mod logins;
mod poller;
mod reply;
mod slot;
mod stress;
mod tally;
mod transport;
mod visits;
mod workload;

pub(crate) use crowd::Crowd;
pub(crate) use http::HttpLoad;
pub(crate) use job::LoadFile;
pub(crate) use login::{Entry, Proof, SECRET_USER};
pub(crate) use logins::Logins;
pub(crate) use stress::{Stress, StressOptions};
pub(crate) use tally::{JobReport, SecondReport, StressReport};
pub(crate) use transport::{SERVER_NAME, TlsClient};
pub(crate) use visits::VisitShape;
pub(crate) use workload::{Operation, Order};

use crate::content::Content;
use anyhow::{Context as _, Result, ensure};
use connection::{Completed, Connection};
use forebay_net::clock;
use forebay_proto::FileHandle;
use job::{FileQueue, Job, WhileOpen};
use latency::Latencies;
use poller::Poller;
use serde::Serialize;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use workload::Offsets;

/// Most connections of one load.
pub(crate) const CONNECTIONS_MAX: u16 = 4096;

/// Most requests under way on one connection: together they fit into any socket buffer.
pub(crate) const PIPELINE_MAX: u16 = 64;

/// Received at once: small enough to stay in the processor's cache while it is compared.
const RECEIVE_LEN: usize = 256 << 10;

/// A load that gets no answer for this long has failed.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The load, and the server that it is put on.
#[derive(Clone, Debug)]
pub(crate) struct LoadOptions {
    pub(crate) server: SocketAddr,
    /// Files to use: reads use the first, opens go from one to the next.
    pub(crate) files: Vec<LoadFile>,
    pub(crate) operation: Operation,
    pub(crate) order: Order,
    /// From 1 to [`CONNECTIONS_MAX`].
    pub(crate) connections: u16,
    /// Requests under way on each connection, from 1 to [`PIPELINE_MAX`].
    pub(crate) pipeline: u16,
    /// How clients log in. If unset, the server is a floor server: it knows only reads, no session and no open.
    pub(crate) entry: Option<Entry>,
}

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// After this time; what is under way then is completed and counted.
    Time(Duration),
    /// After this many operations.
    Operations(u64),
}

/// The results of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct LoadReport {
    pub(crate) operations: u64,
    /// Bytes of data received, all of them compared.
    pub(crate) bytes: u64,
    pub(crate) wall_s: f64,
    /// Latency that half of the operations did not exceed, in microseconds.
    pub(crate) p50_us: f64,
    /// Latency that 99 % of the operations did not exceed, in microseconds.
    pub(crate) p99_us: f64,
    /// The longest latency, in microseconds.
    pub(crate) max_us: f64,
}

/// Connections that are ready to send.
pub(crate) struct Load {
    members: Vec<(Connection, Job)>,
    pipeline: usize,
    poller: Poller,
    buffer: Vec<u8>,
}

impl Load {
    /// Connects, logs in and, for reads, opens the file on each connection.
    pub(crate) fn prepare(options: &LoadOptions) -> Result<Self> {
        ensure!((1..=CONNECTIONS_MAX).contains(&options.connections), "connections must be 1 to {CONNECTIONS_MAX}");
        ensure!((1..=PIPELINE_MAX).contains(&options.pipeline), "the pipeline must be 1 to {PIPELINE_MAX}");
        let queue = FileQueue::new(&options.files);
        let mut members = Vec::new();
        for index in 0..options.connections {
            members.push(prepare_one(options, index, &queue)?);
        }
        let poller = Poller::new(members.iter().map(|(connection, _)| connection.stream()))?;
        Ok(Self { members, pipeline: options.pipeline.into(), poller, buffer: vec![0; RECEIVE_LEN] })
    }

    /// Whether an XRootD server lets a client in at `server`.
    pub(crate) fn answers(server: SocketAddr, entry: &Entry) -> bool {
        Connection::log_in(server, entry, 1, Content::of_path("")).is_ok()
    }

    /// Runs until `bound`, or fails when `cancelled` becomes true.
    pub(crate) fn run(&mut self, bound: Bound, cancelled: &AtomicBool) -> Result<LoadReport> {
        self.run_in_step(bound, cancelled, || Ok(()))
    }

    /// As [`Load::run`], and whenever something was received calls `settle` before anything more is sent.
    pub(crate) fn run_in_step(
        &mut self,
        bound: Bound,
        cancelled: &AtomicBool,
        mut settle: impl FnMut() -> Result<()>,
    ) -> Result<LoadReport> {
        let start = clock::monotonic();
        let mut run = Run { start, bound, begun: 0, completed: 0, bytes: 0, latencies: Latencies::new() };
        for (connection, job) in &mut self.members {
            for slot in 0..self.pipeline {
                if run.begins_one(start) {
                    connection.begin(slot, job, start)?;
                }
            }
            connection.flush()?;
        }
        let mut last_progress = start;
        while run.completed < run.begun {
            ensure!(!cancelled.load(Ordering::Relaxed), "interrupted");
            let now = clock::monotonic();
            let members = &mut self.members;
            let progress = self.poller.wait(|index| {
                let (connection, job) = members.get_mut(index).context("events come from our connections")?;
                if connection.receive(&mut self.buffer)? == 0 {
                    return Ok(false);
                }
                settle()?;
                run.serve(connection, job)
            })?;
            if progress {
                last_progress = now;
            }
            ensure!(now - last_progress < STALL_TIMEOUT, "no answer for {} s", STALL_TIMEOUT.as_secs());
        }
        Ok(run.report(clock::monotonic() - start))
    }
}

/// Opens a session with `server` and `file` in it, for callers that send their own requests.
pub(crate) fn open_session(server: SocketAddr, file: &LoadFile) -> Result<(TcpStream, FileHandle)> {
    let mut connection = Connection::log_in(server, &Entry::default(), 1, Content::of_path(&file.path))?;
    let handle = connection.open(file)?;
    Ok((connection.into_stream()?, handle))
}

fn prepare_one(options: &LoadOptions, index: u16, queue: &FileQueue) -> Result<(Connection, Job)> {
    let file = options.files.first().context("a load needs a file")?;
    let content = Content::of_path(&file.path);
    let mut connection = match &options.entry {
        None => Connection::connect(options.server, options.pipeline, content),
        Some(entry) => Connection::log_in(options.server, entry, options.pipeline, content),
    }?;
    let mut open = |len| -> Result<_> {
        let handle =
            if options.entry.is_none() { forebay_proto::FileHandle::default() } else { connection.open(file)? };
        Ok((handle, Offsets::new(options.order, file.len, len, index.into(), options.connections.into())))
    };
    let job = match options.operation {
        Operation::Read { len } => open(len).map(|(handle, offsets)| Job::Read { handle, offsets }),
        Operation::PageRead { len } => open(len).map(|(handle, offsets)| Job::PageRead { handle, offsets }),
        Operation::ReadVector { elements, len } => {
            open(len).map(|(handle, offsets)| Job::ReadVector { handle, offsets, elements })
        }
        Operation::OpenStatClose => Ok(Job::Files { queue: queue.clone(), while_open: WhileOpen::Stat }),
        Operation::OpenReadClose => Ok(Job::Files { queue: queue.clone(), while_open: WhileOpen::Read }),
    }?;
    Ok((connection, job))
}

/// The counts of a run.
struct Run {
    start: Instant,
    bound: Bound,
    begun: u64,
    completed: u64,
    bytes: u64,
    latencies: Latencies,
}

impl Run {
    /// Whether one more operation begins at `now`; counts it if so.
    fn begins_one(&mut self, now: Instant) -> bool {
        let begins = match self.bound {
            Bound::Time(limit) => now - self.start < limit,
            Bound::Operations(limit) => self.begun < limit,
        };
        self.begun += u64::from(begins);
        begins
    }

    /// Counts what is complete on a connection and begins the next operations. Always true: there was progress.
    fn serve(&mut self, connection: &mut Connection, job: &mut Job) -> Result<bool> {
        let now = clock::monotonic();
        while let Some(Completed { slot, bytes, started, .. }) = connection.next_completed(job)? {
            self.completed += 1;
            self.bytes += bytes;
            self.latencies.record(now - started);
            if self.begins_one(now) {
                connection.begin(slot, job, now)?;
            }
        }
        connection.flush()?;
        Ok(true)
    }

    fn report(&self, wall: Duration) -> LoadReport {
        LoadReport {
            operations: self.completed,
            bytes: self.bytes,
            wall_s: wall.as_secs_f64(),
            p50_us: self.latencies.percentile_us(50),
            p99_us: self.latencies.percentile_us(99),
            max_us: self.latencies.percentile_us(100),
        }
    }
}
