//! `forebay purge`: frees space in a running cache.

use super::{AdminArgs, connection::understood, evict::conclude, jobs::follow};
use crate::{failure::UsageError, progress};
use forebay_admin::model::Job;
use serde_json::json;

/// Remove the least valuable files from a running cache, as an automatic purge does
#[derive(Debug, clap::Args)]
pub(crate) struct PurgeArgs {
    /// Share of the budget, or of the file system, that may remain in use: 80% or 0.8
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    to: f64,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn run(args: &PurgeArgs) -> anyhow::Result<()> {
    let job = args.admin.run(async |server| {
        let begun: Job = understood(server.post("/api/v1/purge", Some(&json!({ "to": args.to }))).await?)?;
        let spinner = progress::spinner(args.quiet);
        spinner.set_message("purging");
        let job = follow(server, &begun.id, |_| ()).await;
        spinner.finish_and_clear();
        job
    })?;
    conclude(&job, &args.admin, "some files were in use")
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
