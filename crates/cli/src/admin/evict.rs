//! `forebay evict`: removes files from a running cache.

use super::{
    AdminArgs,
    connection::understood,
    files::{Named, encoded, path_of},
    jobs::{follow, print_failures},
};
use crate::{failure::AdminError, progress, text};
use forebay_admin::model::{EvictedFile, Job};
use std::io;

/// Remove files from a running cache
///
/// Open and pinned files stay and are listed. Removed files are fetched again on the next request.
#[derive(Debug, clap::Args)]
pub(crate) struct EvictArgs {
    /// A file as clients request it, or a full URL such as root://CACHE//root://ORIGIN//path; or a pattern such as
    /// '/store/**.root'
    #[arg(value_name = "PATH|PATTERN")]
    what: String,
    /// Also remove open and pinned files; clients that have a file open keep reading what was cached of it
    #[arg(long)]
    force: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn run(args: &EvictArgs) -> anyhow::Result<()> {
    match Named::parse(&args.what)? {
        Named::File(name) => evict_one(args, &name),
        Named::Pattern(pattern) => evict_matching(args, &pattern),
    }
}

fn evict_one(args: &EvictArgs, name: &str) -> anyhow::Result<()> {
    let path = format!("{}?force={}", path_of(name)?, args.force);
    let answer = args.admin.run(async |server| server.delete(&path).await)?;
    args.admin.print(answer, |out, EvictedFile { name, bytes }| {
        writeln!(out, "{}: {} removed", text::printable(&name), text::bytes(bytes))
    })
}

fn evict_matching(args: &EvictArgs, pattern: &str) -> anyhow::Result<()> {
    let path = format!("/api/v1/files?pattern={}&force={}", encoded(pattern), args.force);
    let job = args.admin.run(async |server| {
        let begun: Job = understood(server.delete(&path).await?)?;
        let spinner = progress::spinner(args.quiet);
        let job = follow(server, &begun.id, |job| {
            spinner.set_message(format!("{} files, {} removed", job.files.done, text::bytes(job.bytes)));
        });
        let job = job.await;
        spinner.finish_and_clear();
        job
    })?;
    conclude(&job, &args.admin, "open and pinned files stay without --force")
}

/// Prints the result of a job that removes files.
pub(super) fn conclude(job: &Job, admin: &AdminArgs, advice: &str) -> anyhow::Result<()> {
    admin.print(serde_json::to_value(job)?, |out, job: Job| {
        writeln!(out, "{} files, {} removed", job.files.done, text::bytes(job.bytes))
    })?;
    print_failures(&mut io::stderr().lock(), job)?;
    if let Some(error) = &job.error {
        return Err(AdminError::new(AdminError::FAILED, text::printable(error).into_owned()).into());
    }
    if job.files.failed > 0 {
        return Err(AdminError::partly(job.files.done, job.files.done + job.files.failed, advice));
    }
    Ok(())
}
