//! Evicting files from the cache.

use super::{
    Server,
    files::{key_of, not_cached, pattern_of},
    run_all,
    scan::Scan,
};
use crate::{
    call::Call,
    job::Progress,
    model::{EvictedFile, Job, JobKind},
    problem::{Problem, ProblemKind},
};
use forebay_cache::CacheKey;
use forebay_engine::{Engine, EntryInfo, Evicted};
use std::sync::Arc;

/// Files that one job evicts concurrently.
const FILES_AT_ONCE: usize = 8;

pub(crate) async fn one(server: &Server, call: &Call) -> Result<EvictedFile, Problem> {
    let key = key_of(&call.variable)?;
    match server.engine()?.evict(&key, is_forced(call)?).await? {
        Evicted::Removed { bytes } => Ok(EvictedFile { name: key.as_str().to_owned(), bytes }),
        Evicted::NotCached => Err(not_cached(&key)),
        Evicted::Open => Err(Problem::new(ProblemKind::Open, format_args!("{key} is open; use `force` to remove it"))),
        Evicted::Pinned => {
            Err(Problem::new(ProblemKind::Pinned, format_args!("{key} is pinned; use `force` to remove it")))
        }
    }
}

/// Starts to evict the files that match a pattern.
pub(crate) fn matching(server: &Server, call: &Call) -> Result<Job, Problem> {
    let pattern = pattern_of(call)?
        .ok_or_else(|| Problem::invalid("the parameter `pattern` is missing; `/**` matches every file"))?;
    let (engine, is_forced) = (server.engine()?.clone(), is_forced(call)?);
    let mut scan = Scan::new(Some(pattern), None);
    let job = server.jobs.start(JobKind::Evict, None, |progress| async move {
        while let Some(page) = scan.next_page(&engine).await.map_err(|error| error.to_string())? {
            let evict = |entry: EntryInfo| {
                let (engine, progress) = (engine.clone(), Arc::clone(&progress));
                async move { evict_and_record(&engine, &entry.key, is_forced, &progress).await }
            };
            run_all(FILES_AT_ONCE, page.into_iter().map(evict)).await;
        }
        Ok(())
    })?;
    Ok(job.snapshot())
}

async fn evict_and_record(engine: &Engine, key: &CacheKey, is_forced: bool, progress: &Progress) {
    match engine.evict(key, is_forced).await {
        Ok(Evicted::Removed { bytes }) => {
            progress.add_bytes(bytes);
            progress.file_done();
        }
        // It was removed by another request.
        Ok(Evicted::NotCached) => progress.file_done(),
        Ok(Evicted::Open) => progress.file_failed(key.as_str(), "the file is open", true),
        Ok(Evicted::Pinned) => progress.file_failed(key.as_str(), "the file is pinned", false),
        Err(error) => progress.file_failed(key.as_str(), &error, error.is_retryable()),
    }
}

fn is_forced(call: &Call) -> Result<bool, Problem> {
    Ok(call.parsed("force")?.unwrap_or(false))
}
