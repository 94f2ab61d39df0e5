//! `forebay scrub`: makes a running cache verify its disks.

use super::{
    AdminArgs,
    connection::{Connection, understood},
    error::AdminError,
    print_json,
};
use crate::{progress, text};
use forebay_admin::model::Scrub;
use serde_json::Value;
use std::{
    io::{self, Write},
    time::Duration,
};
use tokio::time::sleep;

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

const PATH: &str = "/api/v1/scrub";

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) fn run(args: &ScrubArgs) -> anyhow::Result<()> {
    let answer = args.admin.run(async |server| {
        if args.show {
            return server.get(PATH).await;
        }
        let before: Scrub = understood(server.get(PATH).await?)?;
        let begun = server.post(PATH, None).await?;
        if args.wait { wait(server, before.finished, args.quiet).await } else { Ok(begun) }
    })?;
    let mut out = io::stdout().lock();
    let scrub: Scrub = understood(answer.clone())?;
    if args.admin.json {
        print_json(&mut out, &answer)?;
    } else {
        writeln!(out, "{}", line(&scrub))?;
    }
    if args.wait && scrub.bad_blocks > 0 {
        let reason = format!("{} blocks were damaged; see the server's log for their files", scrub.bad_blocks);
        return Err(AdminError::Job { reason }.into());
    }
    Ok(())
}

/// Waits until a scrub has ended later than `before`.
async fn wait(server: &Connection, before: Option<i64>, is_quiet: bool) -> anyhow::Result<Value> {
    let spinner = progress::spinner(is_quiet);
    let mut has_run = false;
    loop {
        let answer = server.get(PATH).await?;
        let scrub: Scrub = understood(answer.clone())?;
        has_run |= scrub.is_running;
        // A short scrub may have started and ended between two polls.
        if !scrub.is_running && (has_run || scrub.finished > before) {
            spinner.finish_and_clear();
            return Ok(answer);
        }
        spinner.set_message(line(&scrub));
        tokio::select! {
            biased;
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                let advice = "the scrub continues; `forebay scrub --show` shows its progress";
                return Err(AdminError::Interrupted { advice }.into());
            }
            () = sleep(POLL_INTERVAL) => {}
        }
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
