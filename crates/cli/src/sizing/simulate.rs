//! `forebay simulate`: what caches of other sizes, policies and rules would have made of recorded accesses.

use super::{
    amount::Amount,
    comparison::Comparison,
    records::RecordArgs,
    simulate_report::{Report, Row, TierRow},
};
use crate::failure::UsageError;
use forebay_cache::Policy;
use forebay_config::Settings;
use forebay_sizing::{Admission, Cell, Outcome, PERIODS, Replays, Scenario, Summary, Tiers, Unit, Window};
use std::{
    cmp::Reverse,
    collections::BTreeSet,
    io::{self, BufWriter, Write as _},
    path::PathBuf,
    thread,
};

/// Simulate caches of several sizes and policies with recorded accesses
///
/// Replays the accesses through the code that manages a cache: its policies, watermarks, quotas, expiry and rules. Prints hit ratios
/// by files and by bytes for each size, what more disk would save, and what remains if only some data tiers are cached.
/// docs/sizing.md explains the tables, the formats of records and the limits of the method.
#[derive(Debug, clap::Args)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    records: RecordArgs,
    /// Sizes of caches, such as 50TB,100TB,1PB [default: parts of all bytes that were read, and those of --size and --add]
    #[arg(long, value_delimiter = ',', value_name = "SIZE", help_heading = "Caches")]
    sizes: Vec<Amount>,
    /// Policies, of lru, s3-fifo and gdsf [default: all; with --config that of the file]
    #[arg(long, value_delimiter = ',', value_name = "POLICY", value_parser = policy, help_heading = "Caches")]
    policies: Vec<Policy>,
    /// Size of the present cache: the effect of --add and the table of tiers are about it
    #[arg(long, value_name = "SIZE", help_heading = "Caches")]
    size: Option<Amount>,
    /// Disk that may be added to the present cache
    #[arg(long, value_name = "SIZE", requires = "size", help_heading = "Caches")]
    add: Option<Amount>,
    /// Price of a TB of disk, in any currency
    #[arg(long, value_name = "PRICE", requires = "add", help_heading = "Caches")]
    price_per_tb: Option<f64>,
    /// Years for which the disk is used
    #[arg(long, value_name = "YEARS", default_value_t = 5.0, help_heading = "Caches")]
    years: f64,
    /// Configuration with the watermarks, quotas, expiry and rules of the cache; its policy and size are defaults
    #[arg(short, long, value_name = "FILE", help_heading = "Caches")]
    config: Option<PathBuf>,
    /// The bytes that an access brings into the cache: `read`, as many as it read; `file`, those of the whole file; `block`, the blocks that
    /// its requests need, of which a trace has the ranges
    #[arg(long, default_value_t, value_parser = unit, help_heading = "Method")]
    unit: Unit,
    /// Cache only files of these data tiers, such as MINIAODSIM,NANOAODSIM
    #[arg(long, value_delimiter = ',', value_name = "TIER", help_heading = "Method")]
    only_tiers: Vec<String>,
    /// Days at the beginning that do not count [default: until the caches are full]
    #[arg(long, value_name = "DAYS", help_heading = "Method")]
    warm_up: Option<f64>,
    /// Simulations at a time [default: one for each core]
    #[arg(long, value_name = "N", help_heading = "Method")]
    threads: Option<usize>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// Sizes that are simulated at most.
const SIZES_MAX: usize = 100;

/// Sizes if none is named: these sixteenths of the bytes of all files as they were read.
const SIXTEENTHS: [u64; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

/// Tiers with a row of their own, those with the most bytes.
const TIERS_MAX: usize = 12;

fn policy(text: &str) -> Result<Policy, String> {
    Policy::from_name(text).ok_or_else(|| "the policies are lru, s3-fifo and gdsf".to_owned())
}

fn unit(text: &str) -> Result<Unit, String> {
    Unit::from_name(text).ok_or_else(|| "write read, file or block".to_owned())
}

pub(crate) fn run(args: &SimulateArgs) -> anyhow::Result<()> {
    args.check()?;
    let (scenario, config_size) = args.scenario()?;
    let records = match scenario.unit {
        Unit::Read | Unit::File => args.records.read()?,
        Unit::Block => args.records.read_with_requests()?,
    };
    let accesses = &records.accesses;
    let summary = Summary::of(accesses, scenario.unit);
    let all = Admission::by_rules(accesses, &scenario);
    let tiers = Tiers::new(accesses);
    let wanted: Vec<&str> = args.only_tiers.iter().map(String::as_str).collect();
    let admission = if wanted.is_empty() { all } else { all.only(accesses, scenario.unit, &tiers, &wanted) };
    let question = args.question(args.size.map(|size| size.0).or(config_size));
    let policies = args.policies_or(args.config.is_some().then_some(scenario.purge.policy));
    let sizes = args.sizes_or(summary.distinct_bytes, question.size)?;
    let cells = policies.iter().flat_map(|&policy| sizes.iter().map(move |&size| Cell { policy, size }));
    let runs: Vec<_> = cells.map(|cell| (&admission, cell)).collect();
    let replays = Replays::new(accesses, &scenario);
    let comparison = Comparison { replays: &replays, threads: args.threads_or_cores() };
    let outcomes = comparison.replay_all(&runs);
    let window = args.window(&outcomes, accesses.span_ms().unwrap_or_default());
    let rows = outcomes.iter().map(|outcome| Row::of(outcome, window)).collect();
    let mut report = Report::new(&records, summary, window, rows, question);
    if let Some((policy, size)) = policies.first().zip(question.size.or_else(|| middle(&sizes))) {
        let cell = Cell { policy: *policy, size };
        report = report.with_tiers(cell, tier_rows(&comparison, &tiers, &admission, cell, window));
    }
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        report.print(&mut out, question)?;
    }
    Ok(out.flush()?)
}

/// The size and the addition that are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) size: Option<u64>,
    pub(super) add: Option<u64>,
    pub(super) price_per_tb: Option<f64>,
    pub(super) years: f64,
}

impl SimulateArgs {
    fn check(&self) -> Result<(), UsageError> {
        let is_positive = |number: f64| number.is_finite() && number > 0.0;
        if !is_positive(self.years)
            || !self.price_per_tb.is_none_or(is_positive)
            || !self.warm_up.is_none_or(|days| days >= 0.0)
        {
            return Err(UsageError("--years and --price-per-tb are positive, --warm-up is not negative".to_owned()));
        }
        if self.threads == Some(0) {
            return Err(UsageError("--threads: at least one".to_owned()));
        }
        Ok(())
    }

    /// The scenario, and the size of the cache of the configuration if it has one.
    fn scenario(&self) -> anyhow::Result<(Scenario, Option<u64>)> {
        let Some(path) = &self.config else {
            return Ok((Scenario { unit: self.unit, ..Scenario::default() }, None));
        };
        let config = Settings::read(path)?.config;
        let (purge, block_size) = (config.engine.purge.rules, config.engine.block_size);
        let size = purge.bytes.total;
        Ok((Scenario { purge, decisions: config.decisions.rules, unit: self.unit, block_size }, size))
    }

    fn policies_or(&self, configured: Option<Policy>) -> Vec<Policy> {
        match configured {
            _ if !self.policies.is_empty() => self.policies.clone(),
            Some(policy) => vec![policy],
            None => Policy::ALL.to_vec(),
        }
    }

    /// The sizes to simulate, in ascending order.
    fn sizes_or(&self, distinct: u64, size: Option<u64>) -> Result<Vec<u64>, UsageError> {
        let mut sizes: BTreeSet<u64> = self.sizes.iter().map(|size| size.0).collect();
        if sizes.is_empty() {
            sizes.extend(SIXTEENTHS.map(|part| distinct / 16 * part).iter().filter(|size| **size > 0));
        }
        sizes.extend(size);
        sizes.extend(size.zip(self.add).map(|(size, add)| size.saturating_add(add.0)));
        if sizes.is_empty() {
            return Err(UsageError("no record has bytes: name --sizes".to_owned()));
        }
        if sizes.len() > SIZES_MAX {
            return Err(UsageError(format!("--sizes: {SIZES_MAX} at most")));
        }
        Ok(sizes.into_iter().collect())
    }

    fn window(&self, outcomes: &[Outcome], span_ms: (i64, i64)) -> Window {
        let Some(days) = self.warm_up else { return Window::after_filling(outcomes, span_ms) };
        let span_days = span_ms.1.saturating_sub(span_ms.0).max(1) as f64 / 86_400_000.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of periods, bounded")]
        let periods = (days / span_days * PERIODS as f64).ceil().min(PERIODS as f64) as usize;
        Window::after(periods, span_ms)
    }

    fn threads_or_cores(&self) -> usize {
        self.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
    }

    fn question(&self, size: Option<u64>) -> Question {
        Question { size, add: self.add.map(|add| add.0), price_per_tb: self.price_per_tb, years: self.years }
    }
}

fn middle(sizes: &[u64]) -> Option<u64> {
    sizes.get(sizes.len() / 2).copied()
}

/// For each of the tiers with the most bytes, what a cache saves that keeps only it.
fn tier_rows(
    comparison: &Comparison<'_>,
    tiers: &Tiers<'_>,
    admission: &Admission,
    cell: Cell,
    window: Window,
) -> Vec<TierRow> {
    let (accesses, unit) = (comparison.replays.accesses(), comparison.replays.unit());
    let mut largest = tiers.sums(accesses);
    largest.sort_by_key(|tier| (Reverse(tier.read), tier.name));
    largest.truncate(TIERS_MAX);
    let admissions: Vec<_> = largest.iter().map(|tier| admission.only(accesses, unit, tiers, &[tier.name])).collect();
    let runs: Vec<_> = admissions.iter().map(|admission| (admission, cell)).collect();
    let outcomes = comparison.replay_all(&runs);
    largest.iter().zip(&outcomes).map(|(tier, outcome)| TierRow::of(tier, outcome, window)).collect()
}
