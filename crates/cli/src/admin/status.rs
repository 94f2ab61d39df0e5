//! `forebay status`: the status of a running server.

use super::{AdminArgs, connection::understood, watch::Rhythm};
use crate::text;
use forebay_admin::model::{ClusterMember, FailingOrigin, Filler, MemberBytes, Status, Usage};
use std::io::{self, Write};

/// Show the status of a running server
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// Show it again and again
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    #[command(flatten)]
    rhythm: Rhythm,
}

pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<()> {
    if args.watch {
        return args.rhythm.repeat(&args.admin, async |server| {
            let status = understood(server.get("/api/v1/status").await?)?;
            let mut out = Vec::new();
            print(&mut out, &status)?;
            Ok(String::from_utf8(out)?)
        });
    }
    let answer = args.admin.run(async |server| server.get("/api/v1/status").await)?;
    args.admin.print(answer, |out, status| print(out, &status))
}

fn print(out: &mut dyn Write, status: &Status) -> io::Result<()> {
    let Status { version, state, started, uptime_seconds, connections, open_handles, .. } = status;
    let uptime = text::long_duration(*uptime_seconds);
    writeln!(out, "server     {}, version {version}, up {uptime} since {} UTC", state.as_str(), text::utc(*started))?;
    if let Some(filler) = &status.filler {
        print_filler(out, filler, *started + i64::try_from(*uptime_seconds).unwrap_or(i64::MAX))?;
    }
    writeln!(out, "clients    {connections} connections, {open_handles} open files")?;
    let bytes = &status.client_bytes;
    let ratio =
        status.hit_ratio.map_or_else(|| "no bytes yet".to_owned(), |ratio| format!("{:.1} % saved", 100.0 * ratio));
    writeln!(
        out,
        "served     {ratio}: {} hit, {} missed, {} coalesced, {} bypassed; {} from origins",
        text::bytes(bytes.hit),
        text::bytes(bytes.missed),
        text::bytes(bytes.coalesced),
        text::bytes(bytes.bypassed),
        text::bytes(status.origin_bytes)
    )?;
    print_failing_origins(out, &status.failing_origins)?;
    for member in &status.members {
        print_member(out, member)?;
    }
    if let Some(space) = &status.space {
        let (free, total) = (text::bytes(space.free_bytes), text::bytes(space.total_bytes));
        writeln!(out, "disk       {free} free of {total}")?;
    }
    for volume in &status.volumes {
        let (path, health, errors) = (text::printable(&volume.path), &volume.health, volume.errors);
        writeln!(out, "volume {:<3} {path}: {health}, {errors} errors", volume.id)?;
    }
    let memory = &status.memory;
    let (used, budget) = (text::bytes(memory.used_bytes), text::bytes(memory.budget_bytes));
    writeln!(out, "memory     {used} in use of {budget}")?;
    print_usage(out, &status.usage)?;
    let index = &status.index;
    let files = index.files.map_or_else(String::new, |files| format!(", {files} files"));
    let bytes = index.bytes.map_or_else(String::new, |bytes| format!(" of {}", text::bytes(bytes)));
    writeln!(out, "index      {}{files}{bytes}", index.state.as_str())?;
    writeln!(out, "jobs       {} running", status.jobs_running)
}

/// Failing origins shown; the JSON has all.
const FAILING_SHOWN_MAX: usize = 10;

fn print_failing_origins(out: &mut dyn Write, failing: &[FailingOrigin]) -> io::Result<()> {
    for FailingOrigin { server, since, problem } in failing.iter().take(FAILING_SHOWN_MAX) {
        let (server, since, problem) = (text::printable(server), text::utc(*since), text::printable(problem));
        writeln!(out, "origin     {server} FAILS since {since} UTC: {problem}")?;
    }
    match failing.len().saturating_sub(FAILING_SHOWN_MAX) {
        0 => Ok(()),
        more => writeln!(out, "origin     {more} more fail, see --json"),
    }
}

fn print_member(out: &mut dyn Write, member: &ClusterMember) -> io::Result<()> {
    let ClusterMember { member, is_this_server, state, share, bytes, imbalance } = member;
    let own = if *is_this_server { " (this server)" } else { "" };
    write!(out, "member     {}{own}: {state}, {:.1} % of new files", text::printable(member), 100.0 * share)?;
    if let Some(MemberBytes { held, foreign, duplicate }) = *bytes {
        let [held, foreign, duplicate] = [held, foreign, duplicate].map(text::bytes);
        write!(out, "; {held}, of which {foreign} of other members, {duplicate} duplicates")?;
    }
    if let Some(imbalance) = imbalance {
        write!(out, "; imbalance {imbalance:.2}")?;
    }
    writeln!(out)
}

/// The filler of a manager.
fn print_filler(out: &mut dyn Write, filler: &Filler, now: i64) -> io::Result<()> {
    let Filler { address, is_alive, node, renewed } = filler;
    let address = address.as_deref().map_or_else(|| "unknown".into(), text::printable);
    let state = if *is_alive { "answers" } else { "does not answer" };
    let node = node.as_deref().map_or_else(String::new, |node| format!(", on {}", text::printable(node)));
    let renewed = renewed.map_or_else(String::new, |renewed| {
        let age = text::long_duration(u64::try_from(now.saturating_sub(renewed)).unwrap_or(0));
        format!(", renewed {age} ago")
    });
    writeln!(out, "manager    filler {address} {state}{node}{renewed}")
}

fn print_usage(out: &mut dyn Write, usage: &Usage) -> io::Result<()> {
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "unlimited".to_owned(), text::bytes);
    let (used, room) = (bytes(usage.used.bytes), bytes(usage.until_purge.bytes));
    writeln!(out, "cache      {} files, {} pinned, {used}; {room} left before a purge", usage.files, usage.pinned)?;
    for quota in &usage.quotas {
        let most = quota.max_bytes.map_or_else(|| "unlimited".to_owned(), text::bytes);
        let (path, used) = (text::printable(&quota.path), bytes(quota.used.bytes));
        writeln!(out, "quota      {path}: {used}, guaranteed {}, at most {most}", text::bytes(quota.min_bytes))?;
    }
    for purged in usage.purged.iter().filter(|purged| purged.files > 0) {
        writeln!(out, "purged     {}: {} files, {}", purged.reason, purged.files, text::bytes(purged.bytes))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_has_a_line_for_each_subject() {
        let status = json!({
            "version": "1.0", "started": 0, "uptime_seconds": 90_061, "state": "ready", "role": "manager",
            "filler": { "address": "filler:1094", "is_alive": true, "node": "node-7", "renewed": 90_059 },
            "connections": 3, "open_handles": 2,
            "client_bytes": { "hit": 1536, "missed": 512, "coalesced": 0, "bypassed": 0 }, "origin_bytes": 512,
            "hit_ratio": 0.75,
            "failing_origins": [{ "server": "origin:1094", "since": 60, "problem": "no answer" }],
            "members": [
                { "member": "a:1094", "is_this_server": true, "state": "active", "share": 0.75,
                  "bytes": { "held": 2048, "foreign": 512, "duplicate": 0 }, "imbalance": 1.25 },
                { "member": "b:1094", "is_this_server": false, "state": "silent", "share": 0.25 },
            ],
            "memory": { "budget_bytes": 1 << 30, "used_bytes": 0 },
            "volumes": [],
            "space": { "total_bytes": 1_u64 << 40, "free_bytes": 1_u64 << 39 },
            "usage": {
                "used": { "bytes": 1536 }, "files": 3, "pinned": 1, "until_purge": {}, "until_full": {},
                "quotas": [{ "path": "/store", "used": { "bytes": 512 }, "min_bytes": 0, "max_bytes": 1024 }],
                "purged": [{ "reason": "age", "files": 0, "bytes": 0 }, { "reason": "expired", "files": 2, "bytes": 2048 }],
            },
            "scrub": { "is_running": false, "files": 0, "bytes": 0, "bad_blocks": 0, "learned_blocks": 0 },
            "index": { "state": "ready", "files": 3, "bytes": 1536 },
            "jobs_running": 1,
        });
        let status: Status = serde_json::from_value(status).unwrap();
        let mut out = Vec::new();
        print(&mut out, &status).unwrap();
        let text = String::from_utf8(out).unwrap();
        for line in [
            "server     ready, version 1.0, up 1d 1h 1min since 1970-01-01 00:00:00 UTC",
            "manager    filler filler:1094 answers, on node-7, renewed 2s ago",
            "served     75.0 % saved: 1.5 KiB hit, 512 B missed, 0 B coalesced, 0 B bypassed; 512 B from origins",
            "origin     origin:1094 FAILS since 1970-01-01 00:01:00 UTC: no answer",
            "member     a:1094 (this server): active, 75.0 % of new files; 2.0 KiB, of which 512 B of other members, 0 B duplicates; imbalance 1.25",
            "member     b:1094: silent, 25.0 % of new files",
            "cache      3 files, 1 pinned, 1.5 KiB; unlimited left before a purge",
            "quota      /store: 512 B, guaranteed 0 B, at most 1.0 KiB",
            "purged     expired: 2 files, 2.0 KiB",
            "index      ready, 3 files of 1.5 KiB",
            "disk       512.0 GiB free of 1.0 TiB",
        ] {
            assert!(text.lines().any(|printed| printed == line), "{line} not in {text}");
        }
        assert!(!text.contains("age:"), "nothing was removed for that reason: {text}");
    }
}
