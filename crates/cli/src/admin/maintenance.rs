//! `forebay drain`, `forebay purge` and `forebay scrub`.

use super::{
    AdminArgs,
    connection::{Connection, understood},
    consent::Consent,
    evict::conclude,
    jobs::follow,
};
use crate::{
    failure::{AdminError, UsageError},
    progress, text,
};
use forebay_admin::model::{Drain, Job, Scrub};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Make a running server refuse new opens; connections are accepted, and open files are served until they are closed
#[derive(Debug, clap::Args)]
pub(crate) struct DrainArgs {
    /// Accept new work again
    #[arg(long, conflicts_with = "wait")]
    undo: bool,
    /// Wait until no file is open
    #[arg(long)]
    wait: bool,
    /// Wait for at most this long; if files are open then, the exit status is 1
    #[arg(long, value_name = "SECONDS", requires = "wait")]
    at_most: Option<u32>,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Remove the least valuable files from a running cache, as an automatic purge does
#[derive(Debug, clap::Args)]
pub(crate) struct PurgeArgs {
    /// Share of the space used by the cached files now that may remain in use: 80% or 0.8
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    to: f64,
    #[command(flatten)]
    consent: Consent,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Make a running cache read and verify all data on its disks in the background
#[derive(Debug, clap::Args)]
pub(crate) struct ScrubArgs {
    /// Wait for the end, and fail if damage was found
    #[arg(long, conflicts_with = "show")]
    wait: bool,
    /// Start nothing: show the state of the last scrub
    #[arg(long)]
    show: bool,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

const DRAIN: &str = "/api/v1/drain";
const SCRUB: &str = "/api/v1/scrub";

/// Waits for the next poll; Ctrl-C is an error.
async fn pause(advice: &str) -> anyhow::Result<()> {
    tokio::select! {
        biased;
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Err(AdminError::interrupted(advice))
        }
        () = sleep(POLL_INTERVAL) => Ok(()),
    }
}

pub(crate) fn drain(args: &DrainArgs) -> anyhow::Result<()> {
    let answer = args.admin.run(async |server| {
        if args.undo {
            return server.delete(DRAIN).await;
        }
        let mut answer = server.post(DRAIN, None).await?;
        let ends = args.at_most.map(|seconds| Instant::now() + Duration::from_secs(seconds.into()));
        while args.wait && understood::<Drain>(answer.clone())?.open_handles > 0 {
            if ends.is_some_and(|ends| ends <= Instant::now()) {
                let open = understood::<Drain>(answer)?.open_handles;
                let text = format!("{open} files are still open; the server continues to drain");
                return Err(AdminError::new(AdminError::FAILED, text).into());
            }
            pause("the server continues to drain; `forebay drain --undo` ends that").await?;
            answer = server.post(DRAIN, None).await?;
        }
        Ok(answer)
    })?;
    args.admin.print(answer, |out, Drain { is_draining, open_handles, connections }| {
        let state = if is_draining { "draining" } else { "accepting new work" };
        writeln!(out, "{state}: {open_handles} files open, {connections} connections")
    })
}

pub(crate) fn purge(args: &PurgeArgs) -> anyhow::Result<()> {
    let job = args.admin.run(async |server| {
        if args.consent.needs_preview() {
            let Job { files, bytes, .. } = purge_job(args, server, true).await?;
            if !args.consent.given_for(files.done, bytes)? {
                return Ok(None);
            }
        }
        purge_job(args, server, false).await.map(Some)
    })?;
    job.map_or(Ok(()), |job| conclude(&job, &args.admin, "some files were in use"))
}

async fn purge_job(args: &PurgeArgs, server: &Connection, dry_run: bool) -> anyhow::Result<Job> {
    let request = json!({ "to": args.to, "dry_run": dry_run });
    let begin = async { understood(server.post("/api/v1/purge", Some(&request)).await?) };
    let spinner = progress::spinner(args.quiet);
    spinner.set_message(if dry_run { "looking for files to remove" } else { "purging" });
    let job = follow(server, begin, |_| ()).await;
    spinner.finish_and_clear();
    job
}

/// Parses `80%` or `0.8`.
fn parse_share(text: &str) -> Result<f64, UsageError> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.trim().parse(),
    };
    let in_range = share.ok().filter(|share| (0.0..=1.0).contains(share));
    in_range.ok_or_else(|| UsageError(format!("invalid share `{text}`: the range is 0% to 100%, or 0 to 1")))
}

pub(crate) fn scrub(args: &ScrubArgs) -> anyhow::Result<()> {
    let answer = args.admin.run(async |server| {
        if args.show {
            return server.get(SCRUB).await;
        }
        let before: Scrub = understood(server.get(SCRUB).await?)?;
        let begun = server.post(SCRUB, None).await?;
        if args.wait { wait(server, before.finished, args.quiet).await } else { Ok(begun) }
    })?;
    let scrub: Scrub = understood(answer.clone())?;
    args.admin.print(answer, |out, scrub| writeln!(out, "{}", line(&scrub)))?;
    if args.wait && scrub.bad_blocks > 0 {
        let reason = format!("{} blocks were damaged; see the server's log for their files", scrub.bad_blocks);
        return Err(AdminError::new(AdminError::FAILED, reason).into());
    }
    Ok(())
}

/// Waits until a scrub has ended later than `before`.
async fn wait(server: &Connection, before: Option<i64>, is_quiet: bool) -> anyhow::Result<Value> {
    let spinner = progress::spinner(is_quiet);
    let mut has_run = false;
    loop {
        let answer = server.get(SCRUB).await?;
        let scrub: Scrub = understood(answer.clone())?;
        has_run |= scrub.is_running;
        // A short scrub may have started and ended between two polls.
        if !scrub.is_running && (has_run || scrub.finished > before) {
            spinner.finish_and_clear();
            return Ok(answer);
        }
        spinner.set_message(line(&scrub));
        pause("the scrub continues; `forebay scrub --show` shows its progress").await?;
    }
}

fn line(scrub: &Scrub) -> String {
    let state = match (scrub.is_running, scrub.finished) {
        (true, _) => "running".to_owned(),
        (false, Some(finished)) => format!("ended {} UTC", text::utc(finished)),
        (false, None) => "has never run".to_owned(),
    };
    let Scrub { files, bytes, bad_blocks, .. } = scrub;
    format!("scrub {state}: {files} files, {} read, {bad_blocks} blocks damaged", text::bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percents_or_fractions() {
        for (text, share) in [("80%", 0.8), ("0.8", 0.8), ("0%", 0.0), ("100%", 1.0), ("1", 1.0), ("12.5 %", 0.125)] {
            let parsed = parse_share(text).unwrap();
            assert!((parsed - share).abs() < 1e-9, "{text}: {parsed}");
        }
        for text in ["80", "101%", "-1%", "", "%", "NaN", "x"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }
}
