//! The progress of one job.

use crate::model::{FileCounts, Job, JobFailure, JobKind, JobState};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::task::AbortHandle;

/// Failures stored per job; further ones are only counted.
pub const JOB_FAILURES_MAX: usize = 100;

/// The progress of a job. The job's task updates it, and calls read it.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) id: String,
    pub(crate) kind: JobKind,
    started: i64,
    files_done: AtomicU64,
    files_failed: AtomicU64,
    bytes: AtomicU64,
    bytes_known: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: JobState,
    ended: Option<i64>,
    files_total: Option<u64>,
    failures: Vec<JobFailure>,
    error: Option<String>,
    task: Option<AbortHandle>,
}

impl Progress {
    pub(crate) fn new(id: String, kind: JobKind, files_total: Option<u64>, now: i64) -> Self {
        Self {
            id,
            kind,
            started: now,
            files_done: AtomicU64::new(0),
            files_failed: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            bytes_known: AtomicU64::new(0),
            inner: Mutex::new(Inner {
                state: JobState::Running,
                ended: None,
                files_total,
                failures: Vec::new(),
                error: None,
                task: None,
            }),
        }
    }

    pub(crate) fn file_done(&self) {
        self.files_done.fetch_add(1, Relaxed);
    }

    pub(crate) fn file_failed(&self, name: &str, reason: impl ToString, is_retryable: bool) {
        self.files_failed.fetch_add(1, Relaxed);
        let mut inner = self.inner.lock();
        if inner.failures.len() < JOB_FAILURES_MAX {
            inner.failures.push(JobFailure { name: name.to_owned(), reason: reason.to_string(), is_retryable });
        }
    }

    pub(crate) fn add_files(&self, done: u64, failed: u64) {
        self.files_done.fetch_add(done, Relaxed);
        self.files_failed.fetch_add(failed, Relaxed);
    }

    /// Counts bytes fetched or removed.
    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts bytes of files whose fetch has started.
    pub(crate) fn add_known_bytes(&self, bytes: u64) {
        self.bytes_known.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn set_task(&self, task: AbortHandle) {
        self.inner.lock().task = Some(task);
    }

    /// Aborts the job, unless it has ended.
    pub(crate) fn cancel(&self) {
        if let Some(task) = &self.inner.lock().task {
            task.abort();
        }
    }

    pub(crate) fn end(&self, state: JobState, error: Option<String>, now: i64) {
        let mut inner = self.inner.lock();
        (inner.state, inner.error, inner.ended, inner.task) = (state, error, Some(now), None);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.inner.lock().state == JobState::Running
    }

    pub(crate) fn snapshot(&self) -> Job {
        let inner = self.inner.lock();
        Job {
            id: self.id.clone(),
            kind: self.kind,
            state: inner.state,
            started: self.started,
            ended: inner.ended,
            files: FileCounts {
                total: inner.files_total,
                done: self.files_done.load(Relaxed),
                failed: self.files_failed.load(Relaxed),
            },
            bytes: self.bytes.load(Relaxed),
            bytes_known: self.bytes_known.load(Relaxed),
            failures: inner.failures.clone(),
            error: inner.error.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_failures_are_counted_and_the_first_hundred_listed() {
        let progress = Progress::new("1-1".to_owned(), JobKind::Prefetch, Some(200), 5);
        for number in 0..=JOB_FAILURES_MAX {
            progress.file_failed(&format!("/{number}"), "gone", false);
        }
        progress.file_done();
        let snapshot = progress.snapshot();
        assert_eq!((snapshot.files.failed, snapshot.failures.len(), snapshot.files.done), (101, JOB_FAILURES_MAX, 1));
        assert_eq!(snapshot.failures[99].name, "/99");
    }
}
