//! Jobs: operations that take longer than a request.

use forebay_types::named_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Background work.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Job {
    /// Identifies the job, unique across restarts of the server.
    pub id: String,
    /// Kind of work.
    pub kind: JobKind,
    /// State.
    pub state: JobState,
    /// Start.
    pub started: i64,
    /// End.
    pub ended: Option<i64>,
    /// Files processed.
    pub files: FileCounts,
    /// Bytes cached of the files whose fetch has started, or bytes removed.
    pub bytes: u64,
    /// Total size of the files whose fetch has started.
    pub bytes_known: u64,
    /// Files that failed, the first hundred of them.
    pub failures: Vec<JobFailure>,
    /// Why the job failed as a whole.
    pub error: Option<String>,
}

/// All jobs.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct JobList {
    /// Newest first.
    pub jobs: Vec<Job>,
}

/// Files processed by a job.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct FileCounts {
    /// Total number; `null` while unknown.
    pub total: Option<u64>,
    /// Done, including those that needed no work.
    pub done: u64,
    /// Failed, including open and pinned files.
    pub failed: u64,
}

/// A file that failed.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct JobFailure {
    /// The file, as named in the request.
    pub name: String,
    /// Reason.
    pub reason: String,
    /// Whether a retry may help.
    pub is_retryable: bool,
}

named_enum! {
    /// Kind of a job.
    #[derive(Deserialize, JsonSchema, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum JobKind {
        /// Fetch files.
        Prefetch = "prefetch",
        /// Remove files that match a pattern.
        Evict = "evict",
        /// Free disk space by removing the least valuable files.
        Purge = "purge",
    }
}

named_enum! {
    /// State of a job.
    #[derive(Deserialize, JsonSchema, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum JobState {
        /// Running.
        Running = "running",
        /// Every file was processed; some may have failed.
        Done = "done",
        /// The job failed as a whole.
        Failed = "failed",
        /// The job was cancelled.
        Cancelled = "cancelled",
    }
}
