//! `forebay prefetch`: makes a server fetch files in advance.

use super::{
    AdminArgs,
    connection::{Connection, understood},
    jobs::{follow, print_failures},
    print_json,
};
use crate::{
    failure::{AdminError, UsageError},
    progress, text,
};
use anyhow::Context;
use forebay_admin::model::{Job, JobState};
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

/// Fetch files into the cache of a running server
///
/// Complete files cost nothing, so an interrupted list continues when the same command is run again. Ctrl-C cancels the
/// transfers; with --detach the server continues by itself.
#[derive(Debug, clap::Args)]
pub(crate) struct PrefetchArgs {
    /// Paths as clients request them, or full URLs such as root://CACHE//root://ORIGIN//path
    #[arg(value_name = "URL", required_unless_present = "from")]
    names: Vec<String>,
    /// Read the file names from a list, one per line; `-` is standard input. Lines that begin with # are ignored
    #[arg(long, value_name = "LIST")]
    from: Option<PathBuf>,
    /// Do not wait: print the ids of the jobs (see `forebay jobs`)
    #[arg(long)]
    detach: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Files of one job: few enough that one request holds their names.
const NAMES_PER_JOB: usize = 500;

/// Longest list in bytes.
const LIST_LEN_MAX: u64 = 1 << 30;

/// Totals of a run.
#[derive(Default)]
struct Sum {
    done: u64,
    failed: u64,
    bytes: u64,
}

pub(crate) fn run(args: &PrefetchArgs) -> anyhow::Result<()> {
    let names = names(args)?;
    let jobs = args.admin.run(async |server| {
        if args.detach { begin_all(server, &names).await } else { fetch_all(server, &names, args.quiet).await }
    })?;
    let mut out = io::stdout().lock();
    if args.admin.json {
        print_json(&mut out, &json!({ "jobs": jobs }))?;
    } else if args.detach {
        for job in &jobs {
            println!("{}", job.id);
        }
    }
    if args.detach { Ok(()) } else { conclude(&jobs, names.len(), args) }
}

fn names(args: &PrefetchArgs) -> anyhow::Result<Vec<String>> {
    let mut names = args.names.clone();
    if let Some(list) = &args.from {
        let source: Box<dyn Read> = if list == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(list).with_context(|| format!("opening {}", list.display()))?)
        };
        for line in BufReader::new(source.take(LIST_LEN_MAX)).lines() {
            let line = line.with_context(|| format!("reading {}", list.display()))?;
            let name = line.trim();
            if !name.is_empty() && !name.starts_with('#') {
                names.push(name.to_owned());
            }
        }
    }
    if names.is_empty() { Err(UsageError("the list is empty".to_owned()).into()) } else { Ok(names) }
}

/// Starts a job for each part of the list.
async fn begin_all(server: &Connection, names: &[String]) -> anyhow::Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for part in names.chunks(NAMES_PER_JOB) {
        jobs.push(begin(server, part).await?);
    }
    Ok(jobs)
}

/// Runs the parts of the list in sequence.
async fn fetch_all(server: &Connection, names: &[String], is_quiet: bool) -> anyhow::Result<Vec<Job>> {
    let bar = progress::files_bar(names.len() as u64, is_quiet);
    let (mut jobs, mut sum): (Vec<Job>, Sum) = (Vec::new(), Sum::default());
    for part in names.chunks(NAMES_PER_JOB) {
        let job = follow(server, begin(server, part), |job| {
            bar.set_position(sum.done + sum.failed + job.files.done + job.files.failed);
            bar.set_message(text::bytes(sum.bytes + job.bytes));
        });
        let job = job.await.inspect_err(|error| {
            let problem = error.downcast_ref().and_then(|error: &AdminError| error.problem.as_deref());
            if problem == Some("no-such-job") {
                eprintln!("the server has lost the job, probably by a restart; run the same command to continue");
            }
        })?;
        sum.done += job.files.done;
        sum.failed += job.files.failed;
        sum.bytes += job.bytes;
        let is_done = job.state == JobState::Done;
        jobs.push(job);
        if !is_done {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(jobs)
}

async fn begin(server: &Connection, names: &[String]) -> anyhow::Result<Job> {
    let body: Value = json!({ "names": names });
    understood(server.post("/api/v1/prefetch", Some(&body)).await?)
}

/// Prints the result.
fn conclude(jobs: &[Job], total: usize, args: &PrefetchArgs) -> anyhow::Result<()> {
    let (done, bytes) = jobs.iter().fold((0, 0), |(done, bytes), job| (done + job.files.done, bytes + job.bytes));
    let total = total as u64;
    for job in jobs {
        print_failures(&mut io::stderr().lock(), job)?;
        if job.state == JobState::Cancelled {
            eprintln!("job {} was cancelled by another request", job.id);
        }
    }
    if done < total {
        return Err(AdminError::partly(done, total, "run the same command to retry the rest"));
    }
    if !args.quiet && !args.admin.json {
        eprintln!("{done} files complete, {}", text::bytes(bytes));
    }
    Ok(())
}
