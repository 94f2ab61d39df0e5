//! Jobs.

use crate::{api::Shared, model::JobList};

/// All jobs.
pub(crate) fn list(shared: &Shared) -> JobList {
    JobList { jobs: shared.jobs.list() }
}
