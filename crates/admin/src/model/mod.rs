//! Requests and results of the API, as JSON. Times are seconds of the Unix epoch, sizes are bytes.

mod file;
mod job;
mod maintenance;
mod problem;
mod status;

pub use file::{
    BLOCK_RUNS_MAX, BlockRun, CachedFile, EvictedFile, FILES_PER_PAGE_MAX, FileAccess, FileChecksum, FileDetail,
    FileList, FileRecord, PIN_SECONDS_MAX, Pin, PinRequest,
};
pub use forebay_engine::ScrubState as Scrub;
pub use job::{FileCounts, Job, JobFailure, JobKind, JobList, JobState};
pub use maintenance::{Drain, PREFETCH_NAME_LEN_MAX, PREFETCH_NAMES_MAX, PrefetchRequest, PurgeRequest};
pub use problem::ProblemDocument;
pub use status::{
    ByteCounts, Filler, Footprint, Index, IndexState, Memory, Purged, Quota, Role, Space, State, Status, Usage, Volume,
};

/// Adds `as_str`: the name of each variant, as in JSON.
macro_rules! names {
    ($type:ident { $($variant:ident = $name:literal),+ $(,)? }) => {
        impl $type {
            /// The name in JSON and logs.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}
pub(crate) use names;
