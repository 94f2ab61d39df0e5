//! Runs the simulation: many seeds, or one again.

use anyhow::bail;
use forebay_telemetry::LogFormat;

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
    let report =
        forebay_sim::run_seeds(args.from..args.from.saturating_add(args.seeds), |failure| eprintln!("{failure}"));
    if !report.failures.is_empty() {
        bail!("{} of {} seeds from {} failed", report.failures.len(), args.seeds, args.from);
    }
    println!("{} seeds from {}: everything held", args.seeds, args.from);
    Ok(())
}
