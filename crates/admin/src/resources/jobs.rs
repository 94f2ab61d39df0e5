//! Jobs.

use crate::{api::Shared, model::JobList};

pub(crate) fn list(shared: &Shared) -> JobList {
    JobList { jobs: shared.jobs.list() }
}
