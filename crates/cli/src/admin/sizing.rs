//! `forebay sizing`: what a running cache is used for, and what caches of other sizes would save.

use super::AdminArgs;
use crate::{
    sizing::{RecordArgs, decimal, print_table},
    text,
};
use forebay_admin::model::{CurvePoint, ReadGroup, ReuseInterval, Sizing};
use forebay_sizing::{ReuseCurve, Use};
use std::{
    io::{self, Write},
    path::PathBuf,
};

/// Show the LRU curve of a running cache, or of records: hit ratios by size, working sets, datasets
///
/// The server follows all reads from its start on. For each size, the table shows which hit ratio an LRU cache would have had in the last 30
/// days. With the records of several nodes, it is that of one cache with the reads of all of them. `forebay simulate` compares policies and
/// rules, too, and works on records of any length; see docs/sizing.md.
#[derive(Debug, clap::Args)]
pub(crate) struct SizingArgs {
    /// Access records to look at instead of a server, as for `forebay simulate`: files, directories, or - for standard input
    #[arg(value_name = "RECORDS", conflicts_with_all = ["admin", "token_file", "config"])]
    records: Vec<PathBuf>,
    /// Leave out records that cannot be read, and report how many
    #[arg(long, requires = "records")]
    skip_bad: bool,
    /// Lines of each table
    #[arg(long, value_name = "N", default_value_t = 20)]
    lines: usize,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(crate) fn run(args: &SizingArgs) -> anyhow::Result<()> {
    let answer = if args.records.is_empty() {
        args.admin.run(async |server| server.get("/api/v1/sizing").await)?
    } else {
        serde_json::to_value(of_records(&RecordArgs::new(args.records.clone(), args.skip_bad))?)?
    };
    args.admin.print(answer, |out, sizing| print(out, &sizing, args.lines))
}

/// The curve that a server would have that had followed these accesses.
fn of_records(records: &RecordArgs) -> anyhow::Result<Sizing> {
    let accesses = records.read()?.accesses;
    let (first_ms, last_ms) = accesses.span_ms().unwrap_or_default();
    let mut curve = ReuseCurve::new(accesses.files().len(), first_ms.div_euclid(1000));
    for access in accesses.list().iter().filter(|access| access.read > 0) {
        if let Some(file) = accesses.files().get(access.file as usize) {
            let at = access.at_ms.div_euclid(1000);
            curve.add(&Use { path: file.key.as_str(), size: file.size, read: access.read, at });
        }
    }
    Ok(Sizing::new(curve.report(last_ms.div_euclid(1000)), 0))
}

fn print(out: &mut dyn Write, sizing: &Sizing, lines: usize) -> io::Result<()> {
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let bytes = |bytes: u64| decimal(bytes as f64);
    let Sizing { days, accesses, read_bytes, first_bytes, files, once_files, .. } = *sizing;
    writeln!(out, "followed   since {} UTC; counted: {days} days", text::utc(sizing.since))?;
    writeln!(
        out,
        "accesses   {accesses}, {} read, {:.1} % of it for the first time",
        bytes(read_bytes),
        percent(first_bytes, read_bytes)
    )?;
    writeln!(
        out,
        "files      {files}, {}; used once: {:.1} % of the files with {:.1} % of the bytes",
        bytes(sizing.bytes),
        percent(once_files, files),
        percent(sizing.once_bytes, sizing.bytes)
    )?;
    for set in &sizing.working_sets {
        let days = if set.days == 1 { "1 day".to_owned() } else { format!("{} days", set.days) };
        writeln!(out, "used in    {days}: {} in {} files", bytes(set.bytes), set.files)?;
    }
    if sizing.lost_accesses > 0 {
        writeln!(out, "not counted: {} accesses that came faster than they are counted", sizing.lost_accesses)?;
    }
    if let Some(size_max) = sizing.size_max {
        writeln!(out, "the curve holds up to {}: least recently used files were forgotten", bytes(size_max))?;
    }
    writeln!(out, "\nLRU caches; first reads are misses at any size")?;
    let point = |point: &CurvePoint| {
        let age = point.eviction_age_seconds.map_or_else(|| "not full".to_owned(), text::long_duration);
        let ratio = |ratio: f64| format!("{:.1} %", 100.0 * ratio);
        vec![bytes(point.size), ratio(point.hits_by_files), ratio(point.hits_by_bytes), age]
    };
    let skipped = sizing.curve.len().saturating_sub(lines);
    let rows: Vec<_> = sizing.curve.iter().skip(skipped).map(point).collect();
    print_table(out, 0, &["size", "hits by files", "hits by bytes", "evicted after"], &rows)?;
    writeln!(out, "Time since the last access to the same file")?;
    let interval = |interval: &ReuseInterval| {
        let time = interval.seconds.map_or_else(|| "longer".to_owned(), text::long_duration);
        let share = format!("{:.1} %", percent(interval.bytes, read_bytes));
        vec![time, interval.accesses.to_string(), bytes(interval.bytes), share]
    };
    let rows: Vec<_> = sizing.intervals.iter().map(interval).collect();
    print_table(out, 1, &["up to", "accesses", "read", "of all"], &rows)?;
    print_groups(out, "data tier", &sizing.tiers, lines)?;
    print_groups(out, "dataset", &sizing.datasets, lines)
}

fn print_groups(out: &mut dyn Write, kind: &str, groups: &[ReadGroup], lines: usize) -> io::Result<()> {
    let row = |group: &ReadGroup| {
        let reread = 100.0 * group.reread_bytes as f64 / group.read_bytes.max(1) as f64;
        vec![
            text::printable(&group.name).into_owned(),
            group.accesses.to_string(),
            decimal(group.read_bytes as f64),
            format!("{reread:.1} %"),
        ]
    };
    let rows: Vec<_> = groups.iter().take(lines).map(row).collect();
    print_table(out, 1, &[kind, "accesses", "read", "read again"], &rows)
}
