//! `forebay rucio announce`: messages about replicas on a volatile storage element.

use super::{
    super::AdminArgs,
    broker::{Broker, BrokerArgs},
    replicas::{Did, NameRule, Replica, replicas},
};
use crate::failure::AdminError;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::{Instant, sleep_until};

/// Send messages about new and removed complete files to Rucio's cache consumer
///
/// The storage element must be volatile (`rucio-admin rse add --volatile`). Rucio does not acknowledge messages: all files are sent again
/// once per --full-every.
#[derive(Debug, clap::Args)]
pub(crate) struct AnnounceArgs {
    /// Name of the storage element
    #[arg(long)]
    rse: String,
    /// Destination of the messages at the broker
    #[arg(long, value_name = "DESTINATION", default_value = "/topic/rucio.cache")]
    destination: String,
    /// Virtual organization of a Rucio with several
    #[arg(long, default_value = "def")]
    vo: String,
    /// Hours after which Rucio may forget a replica that is not sent again
    #[arg(long, value_name = "HOURS", default_value_t = 48)]
    lifetime: u32,
    /// File that remembers what was sent; without it all files are sent
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Hours after which all files are sent again
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    full_every: u32,
    /// Do it again after this many seconds, until interrupted; default: once
    #[arg(long, value_name = "SECONDS", requires = "state", value_parser = clap::value_parser!(u32).range(1..))]
    interval: Option<u32>,
    #[command(flatten)]
    rule: NameRule,
    #[command(flatten)]
    broker: BrokerArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Most files of one message: some 200 KiB of JSON.
const FILES_PER_MESSAGE_MAX: usize = 1000;

/// The messages that were sent to Rucio.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Sent {
    /// The last time at which all files were sent, in seconds of the Unix epoch.
    full_at: i64,
    files: BTreeSet<(String, String)>,
}

/// Numbers of one round.
#[derive(Debug, Deserialize, Serialize)]
struct Round {
    added: usize,
    removed: usize,
    files: usize,
}

pub(super) fn run(args: &AnnounceArgs) -> anyhow::Result<()> {
    crate::client::block_on(async {
        let Some(seconds) = args.interval else { return report(args, &announce(args).await?) };
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                Err(AdminError::interrupted("the state file has what was sent"))
            }
            ended = repeat(args, Duration::from_secs(seconds.into())) => ended,
        }
    })
}

async fn repeat(args: &AnnounceArgs, interval: Duration) -> anyhow::Result<()> {
    loop {
        let next = Instant::now() + interval;
        match announce(args).await {
            Ok(round) => report(args, &round)?,
            // Nothing is lost: the next round sends what this one has not.
            Err(error) => eprintln!("forebay: {error:#}"),
        }
        sleep_until(next).await;
    }
}

fn report(args: &AnnounceArgs, round: &Round) -> anyhow::Result<()> {
    args.admin.print(serde_json::to_value(round)?, |out, Round { added, removed, files }| {
        writeln!(out, "{added} added, {removed} removed, {files} complete files")
    })
}

async fn announce(args: &AnnounceArgs) -> anyhow::Result<Round> {
    let connection = args.admin.connection()?;
    let found = replicas(&connection, &args.rule).await?;
    let now = forebay_net::clock::now_unix();
    let sent = args.state.as_deref().map_or_else(|| Ok(Sent::default()), read_state)?;
    let is_full = now.saturating_sub(sent.full_at) >= 3600 * i64::from(args.full_every);
    let key = |did: &Did| (did.scope.clone(), did.name.clone());
    let added: Vec<(&Did, &Replica)> =
        found.iter().filter(|(did, _)| is_full || !sent.files.contains(&key(did))).collect();
    let files: BTreeSet<(String, String)> = found.keys().map(key).collect();
    let removed: Vec<&(String, String)> = sent.files.difference(&files).collect();
    let round = Round { added: added.len(), removed: removed.len(), files: files.len() };
    if round.added + round.removed > 0 {
        let mut broker = Broker::connect(&args.broker).await?;
        for part in removed.chunks(FILES_PER_MESSAGE_MAX) {
            let files: Vec<Value> = part.iter().map(|(scope, name)| json!({ "scope": scope, "name": name })).collect();
            broker.send(&args.destination, message(args, "delete_replicas", &files)?).await?;
        }
        for part in added.chunks(FILES_PER_MESSAGE_MAX) {
            let files: Vec<Value> = part.iter().map(|(did, replica)| replica.described(did)).collect();
            broker.send(&args.destination, message(args, "add_replicas", &files)?).await?;
        }
        broker.close().await?;
    }
    if let Some(path) = &args.state {
        write_state(path, &Sent { full_at: if is_full { now } else { sent.full_at }, files })?;
    }
    Ok(round)
}

fn message(args: &AnnounceArgs, operation: &str, files: &[Value]) -> anyhow::Result<Vec<u8>> {
    let mut message = json!({ "operation": operation, "rse": args.rse, "vo": args.vo, "files": files });
    if let (Some(fields), "add_replicas") = (message.as_object_mut(), operation) {
        fields.insert("lifetime".to_owned(), json!(u64::from(args.lifetime) * 3600));
    }
    Ok(serde_json::to_vec(&message)?)
}

fn read_state(path: &Path) -> anyhow::Result<Sent> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
            format!("{} is not a state of this command: remove it, and all files are sent", path.display())
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Sent::default()),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// Replaces the file at once: half a state would make Rucio keep replicas that are gone.
fn write_state(path: &Path, sent: &Sent) -> anyhow::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let written = fs::write(&new, serde_json::to_vec(sent)?).and_then(|()| fs::rename(&new, path));
    written.with_context(|| format!("writing {}", path.display()))
}
