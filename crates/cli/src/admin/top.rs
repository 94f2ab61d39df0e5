//! `forebay top`: the files that clients read at the moment, and the rates of the server.

use super::{
    AdminArgs,
    connection::{Connection, understood},
    watch::Rhythm,
};
use crate::text;
use forebay_admin::model::{Activity, OpenFile, Status};
use std::{collections::HashMap, fmt::Write as _, time::Instant};

/// Show the essentials of a running server, and the files that clients read, again and again
#[derive(Debug, clap::Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    rhythm: Rhythm,
    /// Open files to show
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    files: usize,
}

/// The counters of an update, with its time.
struct Seen {
    at: Instant,
    client_bytes: u64,
    origin_bytes: u64,
    /// Bytes by open file.
    files: HashMap<String, u64>,
}

pub(crate) fn run(args: &TopArgs) -> anyhow::Result<()> {
    let mut before = None;
    args.rhythm.repeat(&args.admin, async |server| {
        let (status, activity) = ask(server).await?;
        let seen = Seen::new(&status, &activity);
        let text = draw(&status, &activity, before.as_ref(), &seen, args.files);
        before = Some(seen);
        Ok(text)
    })
}

async fn ask(server: &Connection) -> anyhow::Result<(Status, Activity)> {
    let status = understood(server.get("/api/v1/status").await?)?;
    Ok((status, understood(server.get("/api/v1/activity").await?)?))
}

impl Seen {
    fn new(status: &Status, activity: &Activity) -> Self {
        Self {
            at: forebay_net::clock::monotonic(),
            client_bytes: status.client_bytes.total(),
            origin_bytes: status.origin_bytes,
            files: activity.open.iter().map(|open| (key(open), open.bytes.total())).collect(),
        }
    }

    fn seconds_since(&self, before: &Self) -> f64 {
        self.at.saturating_duration_since(before.at).as_secs_f64()
    }
}

/// An open file, as it is recognised in the next update.
fn key(open: &OpenFile) -> String {
    format!("{}\0{}\0{}", open.name, open.user, open.host)
}

fn draw(status: &Status, activity: &Activity, before: Option<&Seen>, seen: &Seen, files: usize) -> String {
    let rate = |now: u64, then: Option<u64>| match (before, then) {
        (Some(before), Some(then)) => text::rate(now.saturating_sub(then), seen.seconds_since(before)),
        _ => "-".to_owned(),
    };
    let Status { version, state, uptime_seconds, connections, open_handles, .. } = status;
    let mut out = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{text}");
    };
    line(format_args!("forebay {version}: {}, up {}", state.as_str(), text::long_duration(*uptime_seconds)));
    line(format_args!(
        "clients {} of {connections} connections, {open_handles} open files; origins {}; {} saved",
        rate(seen.client_bytes, before.map(|before| before.client_bytes)),
        rate(seen.origin_bytes, before.map(|before| before.origin_bytes)),
        status.hit_ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.1} %", 100.0 * ratio)),
    ));
    let used = status.usage.used.bytes.map_or_else(|| "-".to_owned(), text::bytes);
    let left = status.usage.until_purge.bytes.map_or_else(|| "unlimited".to_owned(), text::bytes);
    let age = status.eviction_age_seconds.map_or_else(|| "-".to_owned(), text::long_duration);
    line(format_args!("cache {used} in {} files, {left} before a purge, eviction age {age}", status.usage.files));
    for failing in &status.failing_origins {
        line(format_args!("FAILS {}: {}", text::printable(&failing.server), text::printable(&failing.problem)));
    }
    line(format_args!(""));
    line(format_args!("{:>12} {:>12} {:>6} {:<12} {:<24} FILE", "RATE", "BYTES", "HITS", "USER", "CLIENT"));
    for open in activity.open.iter().take(files) {
        let bytes = open.bytes.total();
        let then = before.map(|before| before.files.get(&key(open)).copied().unwrap_or(0));
        #[expect(clippy::cast_precision_loss, reason = "a ratio is shown with three digits")]
        let hits = 100.0 * open.bytes.hit as f64 / bytes.max(1) as f64;
        line(format_args!(
            "{:>12} {:>12} {hits:>5.1}% {:<12} {:<24} {}",
            rate(bytes, then),
            text::bytes(bytes),
            text::printable(&open.user),
            text::printable(&open.host),
            text::printable(&open.name),
        ));
    }
    out
}
