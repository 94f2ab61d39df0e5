//! `forebay jobs`: what the server is at.

use super::{
    AdminArgs, AdminError,
    connection::{Connection, understood},
    print_json,
};
use crate::text;
use forebay_admin::model::{Job, JobList, JobState};
use std::{
    io::{self, Write},
    time::Duration,
};
use tokio::time::sleep;

/// List the jobs of a running server, or cancel one
#[derive(Debug, clap::Args)]
pub(crate) struct JobsArgs {
    /// Show this job only, with the files that could not be dealt with
    id: Option<String>,
    /// Cancel the job; what it has done stays done. One that has ended is forgotten
    #[arg(long, requires = "id")]
    cancel: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Pause between two questions how far a job is.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &JobsArgs) -> anyhow::Result<()> {
    let answer = args.admin.run(async |server| match &args.id {
        None => server.get("/api/v1/jobs").await,
        Some(id) if args.cancel => server.delete(&path_of(id)).await,
        Some(id) => server.get(&path_of(id)).await,
    })?;
    let mut out = io::stdout().lock();
    if args.admin.json {
        return print_json(&mut out, &answer);
    }
    match &args.id {
        None => {
            for job in &understood::<JobList>(answer)?.jobs {
                writeln!(out, "{}", line(job))?;
            }
        }
        Some(_) if args.cancel => {}
        Some(_) => {
            let job = understood::<Job>(answer)?;
            writeln!(out, "{}", line(&job))?;
            print_failures(&mut out, &job)?;
        }
    }
    Ok(())
}

/// A job in a line.
pub(super) fn line(job: &Job) -> String {
    let total = job.files.total.map_or_else(String::new, |total| format!(" of {total}"));
    let error = job.error.as_ref().map_or_else(String::new, |error| format!(": {}", text::printable(error)));
    format!(
        "{} {} {}, {}{total} files done, {} not, {}{error}",
        job.id,
        job.kind.as_str(),
        job.state.as_str(),
        job.files.done,
        job.files.failed,
        text::bytes(job.bytes),
    )
}

/// The files a job could not deal with, a line each.
pub(super) fn print_failures(out: &mut impl Write, job: &Job) -> io::Result<()> {
    for failure in &job.failures {
        writeln!(out, "{}: {}", text::printable(&failure.name), text::printable(&failure.reason))?;
    }
    let untold = job.files.failed.saturating_sub(job.failures.len() as u64);
    if untold > 0 {
        writeln!(out, "and {untold} more")?;
    }
    Ok(())
}

/// Waits until a job has ended, and shows how far it is meanwhile. When the user interrupts, the job is cancelled.
pub(super) async fn follow(server: &Connection, id: &str, mut show: impl FnMut(&Job)) -> anyhow::Result<Job> {
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let job: Job = understood(server.get(&path_of(id)).await?)?;
        show(&job);
        if job.state != JobState::Running {
            return Ok(job);
        }
        tokio::select! {
            biased;
            interrupted = &mut interrupted => {
                interrupted?;
                server.delete(&path_of(id)).await?;
                let advice = "the job was cancelled and what it has done stays; run the same command to go on";
                return Err(AdminError::Interrupted { advice }.into());
            }
            () = sleep(POLL_INTERVAL) => {}
        }
    }
}

fn path_of(id: &str) -> String {
    format!("/api/v1/jobs/{}", percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC))
}
