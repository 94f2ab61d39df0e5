//! `forebay evict`: removes files from a running cache.

use super::{
    AdminArgs,
    connection::{Connection, understood},
    consent::Consent,
    files::{self, Named, encoded, path_of},
    jobs::{follow, print_failures},
};
use crate::{failure::AdminError, progress, text};
use forebay_admin::model::{CachedFile, EvictedFile, FileDetail, Job};
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
    #[command(flatten)]
    consent: Consent,
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
    let answer = args.admin.run(async |server| {
        if args.consent.needs_preview() {
            let FileDetail { file, .. } = understood(server.get(&path_of(name)?).await?)?;
            let goes = u64::from(goes(args, &file));
            if !args.consent.given_for(goes, goes * file.present_bytes)? {
                return Ok(None);
            }
        }
        server.delete(&path).await.map(Some)
    })?;
    let Some(answer) = answer else { return Ok(()) };
    args.admin.print(answer, |out, EvictedFile { name, bytes }| {
        writeln!(out, "{}: {} removed", text::printable(&name), text::bytes(bytes))
    })
}

fn evict_matching(args: &EvictArgs, pattern: &str) -> anyhow::Result<()> {
    let path = format!("/api/v1/files?pattern={}&force={}", encoded(pattern), args.force);
    let job = args.admin.run(async |server| {
        if args.consent.needs_preview() {
            let (count, bytes) = survey(args, server, pattern).await?;
            if !args.consent.given_for(count, bytes)? {
                return Ok(None);
            }
        }
        let begin = async { understood(server.delete(&path).await?) };
        let spinner = progress::spinner(args.quiet);
        let job = follow(server, begin, |job: &Job| {
            spinner.set_message(format!("{} files, {} removed", job.files.done, text::bytes(job.bytes)));
        });
        let job = job.await;
        spinner.finish_and_clear();
        job.map(Some)
    })?;
    job.map_or(Ok(()), |job| conclude(&job, &args.admin, "open and pinned files stay without --force"))
}

/// Number and bytes of the files that match `pattern` and would be removed.
async fn survey(args: &EvictArgs, server: &Connection, pattern: &str) -> anyhow::Result<(u64, u64)> {
    let (mut count, mut bytes) = (0, 0);
    files::matching(server, &format!("&pattern={}", encoded(pattern)), |file| {
        if goes(args, &file) {
            count += 1;
            bytes += file.present_bytes;
        }
        Ok(())
    })
    .await?;
    Ok((count, bytes))
}

const fn goes(args: &EvictArgs, file: &CachedFile) -> bool {
    args.force || (!file.is_open && file.pinned_until.is_none())
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
