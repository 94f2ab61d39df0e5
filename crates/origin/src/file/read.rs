//! Reads ranges of a file through lost connections and failing servers.

use super::{
    Bad, FileState,
    assembly::Assembly,
    job::Job,
    open_handle::OpenHandle,
    plan::{Ability, VECTOR_LIMITS_DEFAULT, is_scattered, plan},
    round::Round,
};
use crate::{
    Options, OriginError,
    call::{Answer, CallLimits, call},
    connection::{Connection, VectorLimits},
};
use forebay_proto::{
    FileHandle, QueryKind, Request,
    limits::{VECTOR_ELEMENT_LEN_MAX, VECTOR_ELEMENTS_MAX},
    request::Query,
    response::ConfigValues,
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// Reads for all jobs until each has its bytes or an error. What was delivered is never asked for again.
pub(super) async fn read(file: Arc<FileState>, mut jobs: Vec<Job>) {
    let options = Arc::clone(&file.servers.router.options);
    let mut bad: Option<Bad> = None;
    let mut failures = 0;
    let mut deadline = Instant::now() + options.deadline;
    loop {
        jobs.retain(Job::is_open);
        if jobs.is_empty() {
            return;
        }
        let opened = match file.handle(bad.as_ref(), deadline).await {
            Ok(opened) => opened,
            Err(error) => return jobs.into_iter().for_each(|job| job.end_with(error.clone())),
        };
        let missing_before = missing_len(&jobs);
        run_round(&file, &opened, &options, &mut jobs).await;
        if missing_len(&jobs) < missing_before {
            failures = 0;
            deadline = Instant::now() + options.deadline;
        }
        failures += 1;
        let Some(error) = end_hopeless(&mut jobs, failures, &file) else { continue };
        let pause = pause_before(failures, &error, &options);
        if Instant::now() + pause >= deadline {
            return jobs.into_iter().for_each(|job| job.end_with(error.clone()));
        }
        // A connection may end for reasons of its own: the same server is asked once more before another one.
        let is_mishap = failures == 1 && matches!(error, OriginError::Lost { .. });
        bad = Some(Bad { handle: opened, elsewhere: (!is_mishap).then_some(error) });
        sleep(pause).await;
    }
}

async fn run_round(file: &FileState, opened: &OpenHandle, options: &Options, jobs: &mut [Job]) {
    let connection = &opened.connection;
    connection.streams().prepare(missing_len(jobs));
    let ability = if options.page_reads && connection.does_page_reads() {
        Ability::Pages
    } else if is_scattered(jobs) && connection.does_vector_reads() {
        let limits = CallLimits::from_now(options);
        Ability::Vectors(*connection.vector_limits().get_or_init(|| ask_vector_limits(connection, limits)).await)
    } else {
        Ability::Ranges
    };
    let mut assembly = Assembly::default();
    let planned = plan(jobs, ability, &mut assembly);
    Round::new(opened, options, &file.servers.router.metrics, jobs, assembly, planned).run().await;
}

/// Ends the jobs that another try cannot help; the error of one that is left, if there is any.
fn end_hopeless(jobs: &mut Vec<Job>, failures: u32, file: &FileState) -> Option<OriginError> {
    let mut hopeful = None;
    for mut job in std::mem::take(jobs) {
        match job.take_failure() {
            Some(error) if failures < tries_max(&error, file) => {
                hopeful = Some(error);
                jobs.push(job);
            }
            Some(error) => job.end_with(error),
            None => jobs.push(job),
        }
    }
    hopeful
}

/// How often a read that fails like this is tried without a byte of progress.
fn tries_max(error: &OriginError, file: &FileState) -> u32 {
    let options = &file.servers.router.options;
    let has_redirector = file.current().is_behind_redirector;
    let servers = file.servers.count().saturating_add(u32::from(has_redirector));
    match error {
        OriginError::Unreachable { .. } | OriginError::Lost { .. } | OriginError::TimedOut { .. } => {
            options.read_attempts.max(servers)
        }
        // The page was asked for twice already.
        OriginError::Corrupt { .. } => servers,
        // Once more at the same server, which may have been cut off.
        OriginError::ShortRead { .. } => servers.max(2),
        OriginError::Refused { .. } if error.is_retryable() => options.attempts.max(servers),
        OriginError::Refused { .. }
        | OriginError::Changed { .. }
        | OriginError::RedirectLoop { .. }
        | OriginError::Protocol { .. } => 1,
    }
}

fn pause_before(failures: u32, error: &OriginError, options: &Options) -> Duration {
    let doublings = match error {
        OriginError::Refused { .. } => failures.saturating_sub(1),
        _ if failures < 2 => return Duration::ZERO,
        _ => failures - 2,
    };
    options.back_off_min.saturating_mul(1 << doublings.min(16)).min(options.back_off_max)
}

fn missing_len(jobs: &[Job]) -> u64 {
    jobs.iter().map(|job| job.remaining().len()).sum()
}

/// Asks a server how large a vector read may be; one that does not say has the limits of the reference server.
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
    let element_len = number(0, ELEMENT_LEN).filter(|&len| len > 0).unwrap_or(VECTOR_ELEMENT_LEN_MAX);
    let elements = number(1, ELEMENTS).filter(|&count| count > 0).unwrap_or(VECTOR_ELEMENTS_MAX);
    VectorLimits {
        elements_max: usize::try_from(elements.min(VECTOR_ELEMENTS_MAX)).unwrap_or(1),
        element_len_max: u64::from(element_len.min(VECTOR_ELEMENT_LEN_MAX)),
    }
}
