//! What the API tells and takes, as JSON. Times are seconds of the Unix epoch, sizes are bytes.

mod drain;
mod file;
mod job;
mod prefetch;
mod problem;
mod status;

pub use drain::Drain;
pub use file::{
    BLOCK_RUNS_MAX, BlockRun, CachedFile, FILES_PER_PAGE_MAX, FileAccess, FileChecksum, FileDetail, FileList,
    FileRecord,
};
pub use job::{FileCounts, Job, JobFailure, JobKind, JobList, JobState};
pub use prefetch::{PREFETCH_NAME_LEN_MAX, PREFETCH_NAMES_MAX, PrefetchRequest};
pub use problem::ProblemDocument;
pub use status::{ByteCounts, Index, IndexState, Memory, Space, State, Status, Volume};
