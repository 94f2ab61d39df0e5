//! Reads ranges of a file through lost connections and failing servers.

use super::{
    assembly::Assembly,
    job::Job,
    open_handle::OpenHandle,
    plan::{Ability, VECTOR_LIMITS_DEFAULT, is_scattered, plan},
    round::{Round, WINDOW_REQUESTS_MAX},
    state::{Bad, FileState},
};
use crate::{
    options::Options,
    route::call::{Answer, CallLimits, call},
    session::connection::{Connection, VectorLimits},
};
use forebay_origin::OriginError;
use forebay_proto::{
    FileHandle, QueryKind, Request,
    limits::{VECTOR_ELEMENT_LEN_MAX, VECTOR_ELEMENTS_MAX},
    request::Query,
    response::ConfigValues,
};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// A read of some ranges under way.
pub(super) struct Reading {
    file: Arc<FileState>,
    options: Arc<Options>,
    jobs: Vec<Job>,
    bad: Option<Bad>,
    /// Failures since the last progress.
    failures: u32,
    deadline: Instant,
}

impl Reading {
    pub(super) fn new(file: Arc<FileState>, jobs: Vec<Job>) -> Self {
        let options = Arc::clone(&file.servers.router.options);
        let deadline = Instant::now() + options.deadline;
        Self { file, options, jobs, bad: None, failures: 0, deadline }
    }

    /// Reads until each job has its bytes or an error. Delivered bytes are never requested again.
    pub(super) async fn run(mut self) {
        while self.is_wanted() {
            match self.file.handle(self.bad.as_ref(), self.deadline).await {
                Ok(opened) => self.round(opened).await,
                // The open has used a retry budget of its own: another round would only repeat it.
                Err(error) => return self.end_with(&error),
            }
        }
    }

    /// Like [`Reading::run`], for a future that the reader polls, or does not poll, as it pleases: steps for which other callers
    /// may wait too (opening the file again, making a session, waiting for a turn to send) are left to a task.
    pub(super) async fn run_at_hand(mut self) {
        let opened = self.file.usable().filter(|opened| opened.connection.has_room_for(WINDOW_REQUESTS_MAX));
        if let Some(opened) = opened {
            let missing_before = self.ask(&opened).await;
            // The time during which the reader has not polled says nothing about the origin.
            self.deadline = Instant::now() + self.options.deadline;
            self.judge(opened, missing_before).await;
        }
        if self.is_wanted() {
            tokio::spawn(self.run());
        }
    }

    /// Whether a reader waits for more.
    fn is_wanted(&mut self) -> bool {
        self.jobs.retain(Job::is_open);
        !self.jobs.is_empty()
    }

    /// Requests all missing bytes once; after a failure that another attempt may help, returns when it is time for it.
    async fn round(&mut self, opened: Arc<OpenHandle>) {
        let missing_before = self.ask(&opened).await;
        self.judge(opened, missing_before).await;
    }

    /// Requests all missing bytes once; returns how many they were.
    async fn ask(&mut self, opened: &OpenHandle) -> u64 {
        let missing = missing_len(&self.jobs);
        run_round(&self.file, opened, &self.options, &mut self.jobs).await;
        missing
    }

    /// Ends finished and hopeless jobs after a round, and waits until it is time for the next one.
    async fn judge(&mut self, opened: Arc<OpenHandle>, missing_before: u64) {
        // Progress restarts the budget: a slow origin that continues to deliver is not given up.
        if missing_len(&self.jobs) < missing_before {
            self.failures = 0;
            self.deadline = Instant::now() + self.options.deadline;
        }
        self.failures += 1;
        let Some(error) = end_hopeless(&mut self.jobs, self.failures, &self.file) else { return };
        let pause = pause_before(self.failures, &error, &self.options);
        // Another attempt would end with a time-out at once: the reader gets the actual error instead.
        if Instant::now() + pause >= self.deadline {
            return self.end_with(&error);
        }
        // A connection may end for reasons that have nothing to do with its server: that is asked once more before another one.
        let is_mishap = self.failures == 1 && matches!(error, OriginError::Lost { .. });
        self.bad = Some(Bad { handle: opened, elsewhere: (!is_mishap).then_some(error) });
        sleep(pause).await;
    }

    fn end_with(&mut self, error: &OriginError) {
        self.jobs.drain(..).for_each(|job| job.end_with(error.clone()));
    }
}

async fn run_round(file: &FileState, opened: &OpenHandle, options: &Options, jobs: &mut [Job]) {
    let connection = &opened.connection;
    let ability = if options.page_reads && connection.page_reads.load(Relaxed) {
        Ability::Pages
    } else if is_scattered(jobs) && connection.vector_reads.load(Relaxed) {
        // Limits are requested once per session, and only when a read needs them.
        let limits = CallLimits::from_now(options);
        Ability::Vectors(*connection.vector_limits.get_or_init(|| ask_vector_limits(connection, limits)).await)
    } else {
        Ability::Ranges
    };
    let mut assembly = Assembly::default();
    let planned = plan(jobs, ability, &mut assembly);
    Round::new(opened, file, jobs, assembly, planned).run().await;
}

/// Ends the jobs that another attempt cannot help; the error of a remaining one, if there is any.
fn end_hopeless(jobs: &mut Vec<Job>, failures: u32, file: &FileState) -> Option<OriginError> {
    let mut hopeful = None;
    for mut job in std::mem::take(jobs) {
        match job.take_failure() {
            Some(error) if failures < attempts_max(&error, file) => {
                hopeful = Some(error);
                jobs.push(job);
            }
            Some(error) => job.end_with(error),
            // It is complete, or its reader has left: `is_wanted` removes it.
            None => jobs.push(job),
        }
    }
    hopeful
}

/// How often a read that fails like this is attempted without a byte of progress.
fn attempts_max(error: &OriginError, file: &FileState) -> u32 {
    let options = &file.servers.router.options;
    // A redirector counts as one more server: it may name another replica.
    let has_redirector = file.current().is_behind_redirector;
    let servers = file.servers.count().saturating_add(u32::from(has_redirector));
    match error {
        OriginError::Unreachable { .. } | OriginError::Lost { .. } | OriginError::TimedOut { .. } => {
            options.read_attempts.max(servers)
        }
        // The page was requested twice already.
        OriginError::Corrupt { .. } => servers,
        // Once more at the same server, which may have been cut off.
        OriginError::ShortRead { .. } => servers.max(2),
        OriginError::Refused { .. } if error.is_retryable() => options.attempts.max(servers),
        OriginError::Refused { .. }
        | OriginError::Changed { .. }
        | OriginError::RedirectLoop { .. }
        | OriginError::RedirectRefused { .. }
        | OriginError::Itself { .. }
        | OriginError::Tls { .. }
        | OriginError::Authentication { .. }
        | OriginError::Protocol { .. } => 1,
    }
}

fn pause_before(failures: u32, error: &OriginError, options: &Options) -> Duration {
    let doublings = match error {
        // A server that refuses needs time from the first failure on.
        OriginError::Refused { .. } => failures.saturating_sub(1),
        // A lost connection need not be the server's fault: the second attempt follows at once.
        _ if failures < 2 => return Duration::ZERO,
        _ => failures - 2,
    };
    options.back_off_min.saturating_mul(1 << doublings.min(16)).min(options.back_off_max)
}

fn missing_len(jobs: &[Job]) -> u64 {
    jobs.iter().map(|job| job.remaining.len()).sum()
}

/// Asks a server how large a vector read may be; one that does not answer has the limits of the reference server.
async fn ask_vector_limits(connection: &Arc<Connection>, limits: CallLimits) -> VectorLimits {
    const ELEMENT_LEN: &str = "readv_ior_max";
    const ELEMENTS: &str = "readv_iov_max";
    let argument = format!("{ELEMENT_LEN} {ELEMENTS}");
    let handle = FileHandle([0; 4]);
    let request = Request::Query(Query { kind: QueryKind::CONFIG, handle, argument: argument.as_bytes() });
    let Ok(Answer::Body(body)) = call(connection, &request, "asking for limits", limits).await else {
        return VECTOR_LIMITS_DEFAULT;
    };
    let values = ConfigValues::parse(&body).ok();
    let number = |index, name| values.and_then(|values| values.value(index, name)?.parse::<u32>().ok());
    // A server that does not report a limit has that of the reference server.
    let element_len = number(0, ELEMENT_LEN).filter(|&len| len > 0).unwrap_or(VECTOR_ELEMENT_LEN_MAX);
    let elements = number(1, ELEMENTS).filter(|&count| count > 0).unwrap_or(VECTOR_ELEMENTS_MAX);
    VectorLimits {
        // Never above the limits of the protocol, whatever the server reports.
        elements_max: usize::try_from(elements.min(VECTOR_ELEMENTS_MAX)).unwrap_or(1),
        element_len_max: u64::from(element_len.min(VECTOR_ELEMENT_LEN_MAX)),
    }
}
