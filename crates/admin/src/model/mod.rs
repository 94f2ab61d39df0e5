//! What the API tells and takes, as JSON. Times are seconds of the Unix epoch, sizes are bytes.

mod drain;
mod file;
mod job;
mod prefetch;
mod problem;
mod purge;
mod scrub;
mod status;

pub use drain::Drain;
pub use file::{
    BLOCK_RUNS_MAX, BlockRun, CachedFile, EvictedFile, FILES_PER_PAGE_MAX, FileAccess, FileChecksum, FileDetail,
    FileList, FileRecord, PIN_SECONDS_MAX, Pin, PinRequest,
};
pub use job::{FileCounts, Job, JobFailure, JobKind, JobList, JobState};
pub use prefetch::{PREFETCH_NAME_LEN_MAX, PREFETCH_NAMES_MAX, PrefetchRequest};
pub use problem::ProblemDocument;
pub use purge::PurgeRequest;
pub use scrub::Scrub;
pub use status::{
    ByteCounts, Filler, Footprint, Index, IndexState, Memory, Purged, Quota, Role, Space, State, Status, Usage, Volume,
};
