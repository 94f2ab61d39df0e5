//! Prefetching.

use crate::{
    api::Shared,
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
use tokio::task::JoinSet;

/// Files that one job fetches at the same time: enough to keep a link busy while some of them are opened.
const FILES_AT_ONCE: usize = 4;

/// Begins to fetch files.
pub(crate) fn start(shared: &Shared, call: &Call) -> Result<Job, Problem> {
    let PrefetchRequest { names } = call.body()?;
    if names.is_empty() || names.len() > PREFETCH_NAMES_MAX {
        let count = names.len();
        return Err(Problem::invalid(format_args!("{count} names: send 1 to {PREFETCH_NAMES_MAX}")));
    }
    if !names.iter().all(|name| (1..=PREFETCH_NAME_LEN_MAX).contains(&name.chars().count())) {
        return Err(Problem::invalid(format_args!("a name has 1 to {PREFETCH_NAME_LEN_MAX} characters")));
    }
    if !shared.engine.keeps_files() {
        let text = "this server keeps no files: it exports directories only, or is a manager, whose filler does";
        return Err(Problem::new(ProblemKind::NotSetUp, text));
    }
    if shared.readiness.is_draining() {
        return Err(Problem::new(ProblemKind::Draining, "the server takes no new work: undo the draining first"));
    }
    let engine = shared.engine.clone();
    let total = names.len() as u64;
    let job = shared.jobs.start(JobKind::Prefetch, Some(total), |progress| async move {
        fetch_all(&engine, names, &progress).await;
        Ok(())
    })?;
    Ok(job.told())
}

/// Fetches files, a few at a time. Dropping the future ends what is under way.
async fn fetch_all(engine: &Engine, names: Vec<String>, progress: &Arc<Progress>) {
    let mut under_way = JoinSet::new();
    for name in names {
        if under_way.len() >= FILES_AT_ONCE {
            let _ended = under_way.join_next().await;
        }
        let (engine, progress) = (engine.clone(), Arc::clone(progress));
        under_way.spawn(async move { fetch_or_tell(&engine, &name, &progress).await });
    }
    while under_way.join_next().await.is_some() {}
}

async fn fetch_or_tell(engine: &Engine, name: &str, progress: &Progress) {
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
    // Bytes that were there before count as known and as done at once.
    let (done_before, known_before) = (AtomicU64::new(0), AtomicU64::new(0));
    let tell = |done: u64, size: u64| {
        progress.add_bytes(done.saturating_sub(done_before.fetch_max(done, Relaxed)));
        progress.add_known_bytes(size.saturating_sub(known_before.fetch_max(size, Relaxed)));
    };
    engine.complete(request, &Caller::operator("prefetch"), &tell).await
}
