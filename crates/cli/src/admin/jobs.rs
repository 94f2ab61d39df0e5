//! `forebay jobs`: the jobs of a server.

use super::{
    AdminArgs,
    connection::{Connection, understood},
};
use crate::{failure::AdminError, text};
use forebay_admin::model::{Job, JobList, JobState};
use std::{
    io::{self, Write},
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

/// List the jobs of a running server, or cancel one
#[derive(Debug, clap::Args)]
pub(crate) struct JobsArgs {
    /// Show this job only, with the files that failed
    id: Option<String>,
    /// Cancel the job; completed work is kept. An ended job is removed from the list
    #[arg(long, requires = "id")]
    cancel: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Polling interval of a job.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &JobsArgs) -> anyhow::Result<()> {
    let answer = args.admin.run(async |server| match &args.id {
        None => server.get("/api/v1/jobs").await,
        Some(id) if args.cancel => server.delete(&path_of(id)).await,
        Some(id) => server.get(&path_of(id)).await,
    })?;
    match &args.id {
        None => args
            .admin
            .print(answer, |out, list: JobList| list.jobs.iter().try_for_each(|job| writeln!(out, "{}", line(job)))),
        Some(_) if args.cancel => args.admin.print(answer, |_, (): ()| Ok(())),
        Some(_) => args.admin.print(answer, |out, job| {
            writeln!(out, "{}", line(&job))?;
            print_failures(out, &job)
        }),
    }
}

fn line(job: &Job) -> String {
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

/// Prints the files that failed, one per line.
pub(super) fn print_failures(out: &mut dyn Write, job: &Job) -> io::Result<()> {
    for failure in &job.failures {
        writeln!(out, "{}: {}", text::printable(&failure.name), text::printable(&failure.reason))?;
    }
    let unlisted = job.files.failed.saturating_sub(job.failures.len() as u64);
    if unlisted > 0 {
        writeln!(out, "and {unlisted} more")?;
    }
    Ok(())
}

/// Starts a job, waits until it has ended, and reports its progress. Ctrl-C cancels the job.
pub(super) async fn follow(
    server: &Connection,
    begin: impl Future<Output = anyhow::Result<Job>>,
    mut show: impl FnMut(&Job),
) -> anyhow::Result<Job> {
    // Before the job starts: it must not continue if Ctrl-C comes at once.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let begun = begin.await?;
    let path = path_of(&begun.id);
    loop {
        let job: Job = understood(server.get(&path).await?)?;
        show(&job);
        if job.state != JobState::Running {
            return Ok(job);
        }
        tokio::select! {
            biased;
            _ = interrupts.recv() => {
                server.delete(&path).await?;
                let advice = "the job was cancelled, completed work is kept; run the same command to continue";
                return Err(AdminError::interrupted(advice));
            }
            () = sleep(POLL_INTERVAL) => {}
        }
    }
}

fn path_of(id: &str) -> String {
    format!("/api/v1/jobs/{}", percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC))
}
