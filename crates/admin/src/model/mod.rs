//! What the API tells and takes, as JSON. Times are seconds of the Unix epoch, sizes are bytes.

mod drain;
mod job;
mod prefetch;
mod problem;
mod status;

pub use drain::Drain;
pub use job::{FileCounts, Job, JobFailure, JobKind, JobList, JobState};
pub use prefetch::{PREFETCH_NAMES_MAX, PrefetchRequest};
pub use problem::ProblemDocument;
pub use status::{ByteCounts, Memory, Space, State, Status};
