//! Requests and results of the API, as JSON. Times are seconds of the Unix epoch, sizes are bytes.

mod activity;
mod file;
mod job;
mod learned_columns;
mod location;
mod maintenance;
mod sizing;
mod status;

pub use activity::{Activity, GroupSums, NamedSum, OPEN_FILES_MAX, OpenFile};
pub use file::{
    BLOCK_RUNS_MAX, BlockRun, CachedFile, EvictedFile, FILES_PER_PAGE_MAX, FileAccess, FileChecksum, FileDetail,
    FileList, FileRecord, PIN_SECONDS_MAX, Pin, PinRequest,
};
pub use forebay_engine::ScrubState as Scrub;
pub use job::{FileCounts, Job, JobFailure, JobKind, JobList, JobState};
pub use learned_columns::{COLUMN_SETS_PER_PAGE_MAX, ColumnSetList, ForgottenSets, LearnedSet};
pub use location::{FileLocation, FileLocations};
pub use maintenance::{Drain, PREFETCH_NAME_LEN_MAX, PREFETCH_NAMES_MAX, PrefetchRequest, PurgeRequest};
pub use sizing::{CurvePoint, DATASETS_SHOWN_MAX, ReadGroup, ReuseInterval, Sizing, WorkingSet};
pub use status::{
    ByteCounts, CertificateEnd, ClusterMember, FailingOrigin, FileResults, Filler, Footprint, Index, IndexState,
    MemberBytes, Memory, Purged, Quota, Role, Space, State, Status, Usage, Volume,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A problem document (RFC 9457).
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Problem")]
pub struct ProblemDocument {
    /// Kind of the problem: `urn:forebay:problem:` and a name.
    pub r#type: String,
    /// Short description of the kind.
    pub title: String,
    /// HTTP status code.
    pub status: u16,
    /// Description of this occurrence.
    pub detail: String,
}
