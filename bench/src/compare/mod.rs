//! The side-by-side benchmark: XCache, the plain file server and Forebay on one machine, measured in turn.

mod measure;
pub(crate) mod memory;
mod page_cache;
pub(crate) mod record;
mod row;
pub(crate) mod scene;
pub(crate) mod secured;
pub(crate) mod servers;
pub(crate) mod summary;
pub(crate) mod usage;

use crate::{interrupt, place::Place};
use anyhow::{Context as _, Result, ensure};
use forebay_types::ByteSize;
use measure::{Measure, Outcome, Sample};
use record::{Machine, SetUp};
use row::{CpuUnit, RowKind, Security};
use scene::{FileSizes, Scene};
use servers::{Programs, ServerKind, XcacheSettings};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// All columns of the table.
const SERVERS_DEFAULT: &str = "xcache,plain,forebay,floor-ping-pong,floor-copy,floor-sendfile,floor-relay";

/// The comparison's rows, servers and durations.
#[derive(Debug, clap::Args)]
pub(crate) struct CompareOptions {
    /// Names of rows, or beginnings of names; all rows by default.
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Servers to compare, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_value = SERVERS_DEFAULT)]
    servers: Vec<ServerKind>,
    /// Rounds; each measures every row on every server. [default: 5, quick: 1]
    #[arg(long)]
    rounds: Option<u32>,
    /// Seconds of each run on a warm cache. [default: 1, quick: 0.2]
    #[arg(long)]
    seconds: Option<f64>,
    /// Length of the file that is read warm. [default: 1GiB, quick: 64MiB]
    #[arg(long)]
    file_size: Option<ByteSize>,
    /// Length of the file that is read cold. [default: 512MiB, quick: 64MiB]
    #[arg(long)]
    cold_size: Option<ByteSize>,
    /// How many small files are read cold. [default: 5000, quick: 500]
    #[arg(long)]
    cold_files: Option<u32>,
    /// How many files of 1 MiB are read cold. [default: 1000, quick: 50]
    #[arg(long)]
    cold_medium_files: Option<u32>,
    /// Blocks that the server `xcache-tuned` fetches ahead.
    #[arg(long, default_value_t = 64)]
    tuned_prefetch: u32,
    /// Block size of the server `xcache-tuned`. [default: XCache's own]
    #[arg(long)]
    tuned_block_size: Option<ByteSize>,
    /// Part of all opens that the server `forebay-traced` traces.
    #[arg(long, default_value = scene::TRACED)]
    trace_sample: String,
    /// One short round on small files that is not recorded: shows that everything works, not how fast it is.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    place: Place,
}

/// Starts the servers, measures all rows, prints the tables and keeps the run.
pub(crate) fn run(options: &CompareOptions) -> Result<()> {
    let cancelled = interrupt::flag()?;
    let rows = row::select(&options.rows)?;
    ensure!(!options.servers.is_empty(), "there is no server to measure");
    let plan = Plan::new(options)?;
    let set_up = plan.set_up();
    let work_dir = options.place.work_dir()?;
    if rows.iter().any(|row| row.kind.is_from_device()) {
        page_cache::require_disk(&work_dir)?;
    }
    let tuned = XcacheSettings {
        prefetch: Some(options.tuned_prefetch),
        block_len: options.tuned_block_size.map(|size| size.0),
    };
    let mut scene = Scene::set_up(&work_dir, plan.programs.clone(), plan.sizes)?;
    scene.tuned = tuned;
    scene.traced.clone_from(&options.trace_sample);
    if rows.iter().any(|row| row.kind.security() != Security::None) {
        scene.make_grid()?;
    }
    for row in rows.iter().filter(|row| matches!(row.kind, RowKind::Warm(_))) {
        for server in options.servers.iter().filter(|server| row.asks(**server)) {
            scene.start_for_all_rounds(*server, row.kind.security(), cancelled)?;
        }
    }
    let measure = Measure { scene: &scene, time: plan.time, cancelled };
    let mut samples = Vec::new();
    let mut failures = Vec::new();
    for round in 1..=plan.rounds {
        for row in &rows {
            for server in rotated(&options.servers, round) {
                let outcome = measure.sample(row, server, round);
                match outcome.with_context(|| format!("{} on {}", row.name, server.as_str()))? {
                    Outcome::Measured(sample) => {
                        tell(&sample, row.unit, plan.rounds);
                        samples.push(sample);
                    }
                    Outcome::NoPart => {}
                    Outcome::Ended { why } => {
                        let failure = format!("{} ended in round {round} of {}: {why}", server.as_str(), row.name);
                        eprintln!("{failure}");
                        failures.push(failure);
                    }
                }
            }
        }
    }
    let tables = [
        summary::tables(&rows, &options.servers, &samples),
        summary::refaults(&rows, &samples),
        summary::failures(&failures),
    ]
    .concat();
    println!("{}\n{tables}", set_up.summary());
    let keep_in = match &options.place.out {
        None if options.quick => return Ok(()),
        None => set_up.machine.run_dir(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("runs")),
        Some(out) => out.clone(),
    };
    record::keep(&keep_in, &set_up, &samples, &tables)?;
    eprintln!("kept in {}", keep_in.display());
    Ok(())
}

/// Options with everything filled in.
struct Plan {
    programs: Programs,
    rounds: u32,
    time: Duration,
    sizes: FileSizes,
}

impl Plan {
    fn new(options: &CompareOptions) -> Result<Self> {
        let or = |given: Option<ByteSize>, quick: u64, full: u64| {
            given.map_or(if options.quick { quick } else { full }, |size| size.0)
        };
        let default_seconds = if options.quick { 0.2 } else { 1.0 };
        let seconds = options.seconds.unwrap_or(default_seconds);
        Ok(Self {
            programs: options.place.programs(options.servers.iter().any(|server| server.is_forebay()))?,
            rounds: options.rounds.unwrap_or(if options.quick { 1 } else { 5 }),
            time: Duration::try_from_secs_f64(seconds).context("the duration makes no sense")?,
            sizes: FileSizes {
                large_len: or(options.file_size, 64 << 20, 1 << 30),
                cold_len: or(options.cold_size, 64 << 20, 512 << 20),
                cold_small_files: options.cold_files.unwrap_or(if options.quick { 500 } else { 5_000 }),
                cold_medium_files: options.cold_medium_files.unwrap_or(if options.quick { 50 } else { 1_000 }),
            },
        })
    }

    fn set_up(&self) -> SetUp {
        SetUp {
            machine: Machine::find(&self.programs),
            rounds: self.rounds,
            seconds_per_run: self.time.as_secs_f64(),
            large_file_bytes: self.sizes.large_len,
            cold_file_bytes: self.sizes.cold_len,
            cold_small_files: self.sizes.cold_small_files,
        }
    }
}

/// The absolute form of a path to something that is there.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    path.canonicalize().with_context(|| format!("cannot find {}", path.display()))
}

/// The servers in another order each round, so that none is always measured after the same other.
fn rotated(servers: &[ServerKind], round: u32) -> impl Iterator<Item = ServerKind> {
    let first = usize::try_from(round).unwrap_or(0) % servers.len().max(1);
    servers.iter().copied().cycle().skip(first).take(servers.len())
}

fn tell(sample: &Sample, unit: CpuUnit, rounds: u32) {
    let Sample { row, server, round, .. } = sample;
    let (cpu, rate) = (sample.cpu_per_unit(unit), sample.rate(unit));
    eprintln!("{round}/{rounds} {row:16} {:16} {cpu:9.3} {} {rate:12.0} /s", server.as_str(), unit.as_str());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_comes_first_once() {
        let servers = [ServerKind::Xcache, ServerKind::Plain, ServerKind::Forebay];
        let firsts: std::collections::BTreeSet<_> =
            (1..=3).map(|round| rotated(&servers, round).next().unwrap()).collect();
        assert_eq!(firsts.len(), 3);
        assert!((1..=3).all(|round| rotated(&servers, round).count() == 3));
    }
}
