//! Prefetching.

use super::{Server, run_all};
use crate::{
    call::Call,
    entry_name::EntryName,
    job::Progress,
    model::{Job, JobKind, PREFETCH_NAME_LEN_MAX, PREFETCH_NAMES_MAX, PrefetchRequest},
    problem::{Problem, ProblemKind},
};
use forebay_engine::{Caller, Engine, Error, OpenRequest};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Files that one job fetches concurrently: enough to keep a link busy while some of them are being opened.
const FILES_AT_ONCE: usize = 4;

/// Begins to fetch files.
pub(crate) fn start(server: &Server, call: &Call) -> Result<Job, Problem> {
    let PrefetchRequest { names } = call.body()?;
    if names.is_empty() || names.len() > PREFETCH_NAMES_MAX {
        let count = names.len();
        return Err(Problem::invalid(format_args!("{count} names: the limit is {PREFETCH_NAMES_MAX}, the minimum 1")));
    }
    if !names.iter().all(|name| (1..=PREFETCH_NAME_LEN_MAX).contains(&name.chars().count())) {
        return Err(Problem::invalid(format_args!("names must have 1 to {PREFETCH_NAME_LEN_MAX} characters")));
    }
    let engine = server.cache()?.clone();
    if server.readiness.is_draining() {
        return Err(Problem::new(ProblemKind::Draining, "the server accepts no new work; undo the draining first"));
    }
    let total = names.len() as u64;
    let job = server.jobs.start(JobKind::Prefetch, Some(total), |progress| async move {
        let fetch = |name: String| {
            let (engine, progress) = (engine.clone(), Arc::clone(&progress));
            async move { fetch_and_record(&engine, &name, &progress).await }
        };
        run_all(FILES_AT_ONCE, names.into_iter().map(fetch)).await;
        Ok(())
    })?;
    Ok(job.snapshot())
}

async fn fetch_and_record(engine: &Engine, name: &str, progress: &Progress) {
    let request = match EntryName::parse(name) {
        Ok(entry) => OpenRequest::from(entry.path),
        Err(error) => return progress.file_failed(name, error, false),
    };
    match fetch(engine, &request, progress).await {
        Ok(()) => progress.file_done(),
        Err(error) => progress.file_failed(name, &error, error.is_retryable()),
    }
}

async fn fetch(engine: &Engine, request: &OpenRequest, progress: &Progress) -> Result<(), Error> {
    // Bytes cached before count as known and as done.
    let (done_before, known_before) = (AtomicU64::new(0), AtomicU64::new(0));
    let report = |done: u64, size: u64| {
        progress.add_bytes(done.saturating_sub(done_before.fetch_max(done, Relaxed)));
        progress.add_known_bytes(size.saturating_sub(known_before.fetch_max(size, Relaxed)));
    };
    engine.complete(request, &Caller::operator("prefetch"), &report).await
}
