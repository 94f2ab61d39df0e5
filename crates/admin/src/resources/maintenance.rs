//! Draining, purging and scrubbing.

use super::Server;
use crate::{
    call::Call,
    model::{Drain, Job, JobKind, PurgeRequest, Scrub},
    problem::Problem,
};

pub(crate) fn drain(server: &Server) -> Drain {
    server.readiness.set_draining();
    drain_state(server)
}

pub(crate) fn undrain(server: &Server) -> Drain {
    server.readiness.set_ready();
    drain_state(server)
}

fn drain_state(server: &Server) -> Drain {
    let metrics = server.backend.metrics();
    Drain {
        is_draining: server.readiness.is_draining(),
        open_handles: metrics.open_handles(),
        connections: metrics.connections(),
    }
}

pub(crate) fn start_purge(server: &Server, call: &Call) -> Result<Job, Problem> {
    let PurgeRequest { to, dry_run } = call.body()?;
    if !(0.0..=1.0).contains(&to) {
        return Err(Problem::invalid("`to` must be a number from 0 to 1"));
    }
    let engine = server.cache()?.clone();
    let job = server.jobs.start(JobKind::Purge, None, |progress| async move {
        let report = engine.purge_to(to, dry_run).await.map_err(|error| error.to_string())?;
        progress.add_files(report.files, report.refused);
        progress.add_bytes(report.freed.bytes);
        if report.unmet.bytes == 0 && report.unmet.inodes == 0 {
            return Ok(());
        }
        Err(format!(
            "{} bytes and {} inodes short of the target: all other files are open, pinned or guaranteed by a quota",
            report.unmet.bytes, report.unmet.inodes
        ))
    })?;
    Ok(job.snapshot())
}

/// Starts a scrub unless one is running.
pub(crate) fn start_scrub(server: &Server) -> Result<Scrub, Problem> {
    let engine = server.cache()?;
    engine.start_scrub()?;
    Ok(engine.scrub_state())
}
