//! Jobs: what takes longer than an exchange.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Work that goes on while nobody waits for it.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Job {
    /// Names the job, also across restarts of the server.
    pub id: String,
    /// What it does.
    pub kind: JobKind,
    /// How far it is.
    pub state: JobState,
    /// When it was started.
    pub started: i64,
    /// When it ended.
    pub ended: Option<i64>,
    /// Files dealt with.
    pub files: FileCounts,
    /// Bytes that are in the cache of files that were begun to be fetched, or bytes removed.
    pub bytes: u64,
    /// Sizes of the files that were begun to be fetched.
    pub bytes_known: u64,
    /// Files that could not be dealt with, the first hundred of them.
    pub failures: Vec<JobFailure>,
    /// Why the job as a whole failed.
    pub error: Option<String>,
}

/// All jobs.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct JobList {
    /// The newest first.
    pub jobs: Vec<Job>,
}

/// Files a job has dealt with.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct FileCounts {
    /// How many there are; `null` while that is not known.
    pub total: Option<u64>,
    /// Done, those with nothing to do included.
    pub done: u64,
    /// Not done: open, pinned, or failed.
    pub failed: u64,
}

/// A file that could not be dealt with.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct JobFailure {
    /// The file, as it was named.
    pub name: String,
    /// Why not.
    pub reason: String,
    /// Whether trying again may help.
    pub is_retryable: bool,
}

/// What a job does.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Fetch files.
    Prefetch,
    /// Remove files that match a pattern.
    Evict,
    /// Remove the files that are least worth keeping.
    Purge,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// At work.
    Running,
    /// Every file was dealt with, which need not mean that all went well.
    Done,
    /// It broke off.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
}

impl JobKind {
    /// Its name in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prefetch => "prefetch",
            Self::Evict => "evict",
            Self::Purge => "purge",
        }
    }
}

impl JobState {
    /// Its name in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}
