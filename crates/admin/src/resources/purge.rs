//! Purging.

use crate::{
    api::Shared,
    call::Call,
    model::{Job, JobKind, PurgeRequest},
    problem::{Problem, ProblemKind},
};

pub(crate) fn start(shared: &Shared, call: &Call) -> Result<Job, Problem> {
    let PurgeRequest { to } = call.body()?;
    if !(0.0..=1.0).contains(&to) {
        return Err(Problem::invalid("`to`: write a number from 0 to 1"));
    }
    if !shared.engine.keeps_files() {
        let text = "this server keeps no files: it exports directories only, or is a manager, whose filler does";
        return Err(Problem::new(ProblemKind::NotSetUp, text));
    }
    let engine = shared.engine.clone();
    let job = shared.jobs.start(JobKind::Purge, None, |progress| async move {
        let report = engine.purge_to(to).await.map_err(|error| error.to_string())?;
        progress.add_files(report.files, report.refused);
        progress.add_bytes(report.freed.bytes);
        if report.unmet.bytes == 0 && report.unmet.inodes == 0 {
            return Ok(());
        }
        let (bytes, inodes) = (report.unmet.bytes, report.unmet.inodes);
        Err(format!("{bytes} bytes and {inodes} inodes more were to go: what is left is open, pinned or guaranteed"))
    })?;
    Ok(job.told())
}
