//! Runs the simulation: many seeds, or one again.

use anyhow::bail;
use forebay_telemetry::LogFormat;
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

/// Simulates the engine with the disk, the origin and the clock of its own.
#[derive(Debug, clap::Parser)]
struct Args {
    /// Simulate this seed alone
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Log of that seed's run, as in `info,forebay_engine=debug`
    #[arg(long, requires = "seed")]
    log: Option<String>,
    /// How many seeds to simulate
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
}

fn main() -> anyhow::Result<()> {
    let args = <Args as clap::Parser>::parse();
    if let Some(seed) = args.seed {
        if let Some(filter) = &args.log {
            forebay_telemetry::init_logging(LogFormat::Text, filter)?;
        }
        let summary = forebay_sim::run(seed)?;
        println!("seed {seed}: {summary:?}");
        return Ok(());
    }
    let (next, failed, end) = (AtomicU64::new(args.from), AtomicU64::new(0), args.from.saturating_add(args.seeds));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= end {
                        return;
                    }
                    if let Err(failure) = forebay_sim::run(seed) {
                        failed.fetch_add(1, Relaxed);
                        eprintln!("{failure}");
                    }
                }
            });
        }
    });
    match failed.into_inner() {
        0 => println!("{} seeds from {}: everything held", args.seeds, args.from),
        failed => bail!("{failed} of {} seeds from {} failed", args.seeds, args.from),
    }
    Ok(())
}
