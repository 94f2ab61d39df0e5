//! The report of a simulation, as values for JSON and as tables.

use super::{
    amount::{Amount, decimal},
    records::Records,
    simulate::Question,
    table,
};
use crate::text;
use forebay_sizing::{Cell, Outcome, Ratio, Ratios, Summary, TierSums, Window, measured};
use serde::Serialize;
use std::io::{self, Write};

/// Everything that a simulation has found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    records: Summary,
    bad_records: u64,
    of_survivors: bool,
    warm_up_days: f64,
    measured_days: f64,
    /// The ratios that the records themselves have.
    measured: Option<MeasuredRow>,
    caches: Vec<Row>,
    effects: Vec<Effect>,
    tiers_of: Option<TiersOf>,
    tiers: Vec<TierRow>,
}

#[derive(Debug, Serialize)]
struct Percent {
    percent: f64,
    /// Half of the 95 % interval.
    plus_minus: Option<f64>,
}

#[derive(Debug, Serialize)]
struct MeasuredRow {
    hits_by_files: Percent,
    hits_by_bytes: Percent,
    saved_bytes_per_month: f64,
    origin_bytes_per_month: f64,
}

/// One cache of the comparison.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    policy: &'static str,
    size: u64,
    /// Whether it was full throughout the time that counts; its ratios are lower bounds otherwise.
    is_warm: bool,
    hits_by_files: Percent,
    hits_by_bytes: Percent,
    saved_bytes_per_month: f64,
    origin_bytes_per_month: f64,
    /// Sums over the days that count: what clients got from the cache, and from origins to be kept or past it; what origins sent.
    hit_bytes: u64,
    missed_bytes: u64,
    bypassed_bytes: u64,
    origin_bytes: u64,
    /// Sums over all days.
    purged_files: u64,
    purged_bytes: u64,
    eviction_age_days: Option<f64>,
}

/// The effect of more disk.
#[derive(Debug, Serialize)]
struct Effect {
    policy: &'static str,
    from: u64,
    to: u64,
    points_by_bytes: f64,
    less_origin_bytes_per_month: f64,
    less_origin_bytes_per_month_and_tb: f64,
    price: Option<f64>,
    price_per_tb_saved: Option<f64>,
}

#[derive(Debug, Serialize)]
struct TiersOf {
    policy: &'static str,
    size: u64,
}

/// A cache that keeps only one data tier.
#[derive(Debug, Serialize)]
pub(super) struct TierRow {
    tier: String,
    accesses: u64,
    read_bytes: u64,
    /// Of the bytes of all tiers.
    hits_by_bytes: Percent,
    saved_bytes_per_month: f64,
}

const TB: f64 = 1e12;

impl Percent {
    fn of(ratio: Ratio) -> Self {
        Self { percent: 100.0 * ratio.value, plus_minus: ratio.error.map(|error| 100.0 * error) }
    }

    fn text(&self) -> String {
        let error = self.plus_minus.map_or_else(String::new, |error| format!(" ± {error:.1}"));
        format!("{:.1}{error} %", self.percent)
    }
}

impl Row {
    pub(super) fn of(outcome: &Outcome, window: Window) -> Self {
        let ratios = Ratios::of(&outcome.periods, window);
        Self {
            policy: outcome.policy.as_str(),
            size: outcome.size,
            is_warm: window.is_warm(outcome),
            hits_by_files: Percent::of(ratios.by_files),
            hits_by_bytes: Percent::of(ratios.by_bytes),
            saved_bytes_per_month: ratios.saved_per_month,
            origin_bytes_per_month: ratios.origin_per_month,
            hit_bytes: ratios.sums.saved,
            missed_bytes: ratios.sums.read - ratios.sums.saved - ratios.sums.bypassed,
            bypassed_bytes: ratios.sums.bypassed,
            origin_bytes: ratios.sums.origin,
            purged_files: outcome.purged_files,
            purged_bytes: outcome.purged_bytes,
            eviction_age_days: outcome.eviction_age_ms.map(|age_ms| age_ms as f64 / 86_400_000.0),
        }
    }

    fn cells(&self, size: Option<u64>) -> Vec<String> {
        let present = if size == Some(self.size) { " (present)" } else { "" };
        let cold = if self.is_warm { "" } else { " *" };
        vec![
            self.policy.to_owned(),
            format!("{}{present}{cold}", Amount(self.size)),
            self.hits_by_files.text(),
            self.hits_by_bytes.text(),
            decimal(self.saved_bytes_per_month),
            decimal(self.origin_bytes_per_month),
            self.eviction_age_days.map_or_else(|| "-".to_owned(), |days| format!("{days:.1} d")),
        ]
    }
}

impl TierRow {
    pub(super) fn of(tier: &TierSums<'_>, outcome: &Outcome, window: Window) -> Self {
        let ratios = Ratios::of(&outcome.periods, window);
        Self {
            tier: tier.name.to_owned(),
            accesses: tier.accesses,
            read_bytes: tier.read,
            hits_by_bytes: Percent::of(ratios.by_bytes),
            saved_bytes_per_month: ratios.saved_per_month,
        }
    }

    fn cells(&self) -> Vec<String> {
        vec![
            text::printable(&self.tier).into_owned(),
            self.accesses.to_string(),
            decimal(self.read_bytes as f64),
            self.hits_by_bytes.text(),
            decimal(self.saved_bytes_per_month),
        ]
    }
}

impl Effect {
    /// The effect for each policy that was simulated with both sizes.
    fn all(rows: &[Row], question: Question) -> Vec<Self> {
        let Some((size, add)) = question.size.zip(question.add) else { return Vec::new() };
        let to = size.saturating_add(add);
        let before = rows.iter().filter(|row| row.size == size);
        let pairs = before.filter_map(|before| {
            Some((before, rows.iter().find(|row| row.size == to && row.policy == before.policy)?))
        });
        pairs.map(|(before, after)| Self::of(before, after, question)).collect()
    }

    fn of(before: &Row, after: &Row, question: Question) -> Self {
        let tb = (after.size - before.size) as f64 / TB;
        let less = before.origin_bytes_per_month - after.origin_bytes_per_month;
        let price = question.price_per_tb.map(|price| price * tb);
        let saved_tb = less / TB * 12.0 * question.years;
        Self {
            policy: before.policy,
            from: before.size,
            to: after.size,
            points_by_bytes: after.hits_by_bytes.percent - before.hits_by_bytes.percent,
            less_origin_bytes_per_month: less,
            less_origin_bytes_per_month_and_tb: less / tb,
            price,
            price_per_tb_saved: if saved_tb > 0.0 { price.map(|price| price / saved_tb) } else { None },
        }
    }

    fn print(&self, out: &mut dyn Write, question: Question) -> io::Result<()> {
        let Self { policy, from, to, points_by_bytes, .. } = self;
        let add = decimal((to - from) as f64);
        write!(
            out,
            "  {policy}: {add} more saves {} a month, {} for each TB of disk ({points_by_bytes:+.1} points by bytes)",
            decimal(self.less_origin_bytes_per_month),
            decimal(self.less_origin_bytes_per_month_and_tb),
        )?;
        if let Some(price) = self.price {
            let years = question.years;
            let per_tb = self
                .price_per_tb_saved
                .map_or_else(|| "nothing saved".to_owned(), |price| format!("{price:.2} per TB saved"));
            write!(out, "; price {price:.0}, in {years} years {per_tb}")?;
        }
        writeln!(out)
    }
}

impl Report {
    pub(super) fn new(
        records: &Records,
        summary: Summary,
        window: Window,
        caches: Vec<Row>,
        question: Question,
    ) -> Self {
        let measured = measured(&records.accesses, window).map(|periods| {
            let ratios = Ratios::of(&periods, window);
            MeasuredRow {
                hits_by_files: Percent::of(ratios.by_files),
                hits_by_bytes: Percent::of(ratios.by_bytes),
                saved_bytes_per_month: ratios.saved_per_month,
                origin_bytes_per_month: ratios.origin_per_month,
            }
        });
        let span_days = (summary.last - summary.first) as f64 / 86_400.0;
        let measured_days = window.seconds / 86_400.0;
        Self {
            records: summary,
            bad_records: records.bad,
            of_survivors: records.of_survivors,
            warm_up_days: (span_days - measured_days).max(0.0),
            measured_days,
            measured,
            effects: Effect::all(&caches, question),
            caches,
            tiers_of: None,
            tiers: Vec::new(),
        }
    }

    /// Adds the table of caches that keep only one data tier.
    #[must_use]
    pub(super) fn with_tiers(mut self, cell: Cell, tiers: Vec<TierRow>) -> Self {
        self.tiers_of = Some(TiersOf { policy: cell.policy.as_str(), size: cell.size });
        self.tiers = tiers;
        self
    }

    pub(super) fn print(&self, out: &mut dyn Write, question: Question) -> io::Result<()> {
        self.print_records(out)?;
        let mut rows = Vec::new();
        if let Some(MeasuredRow { hits_by_files, hits_by_bytes, saved_bytes_per_month, origin_bytes_per_month }) =
            &self.measured
        {
            let (saved, origin) = (decimal(*saved_bytes_per_month), decimal(*origin_bytes_per_month));
            rows.push(vec![
                "measured".to_owned(),
                "-".to_owned(),
                hits_by_files.text(),
                hits_by_bytes.text(),
                saved,
                origin,
                "-".to_owned(),
            ]);
        }
        rows.extend(self.caches.iter().map(|row| row.cells(question.size)));
        let headings =
            ["policy", "size", "hits by files", "hits by bytes", "saved a month", "origin a month", "evicted after"];
        table::print(out, 2, &headings, &rows)?;
        if self.caches.iter().any(|row| !row.is_warm) {
            writeln!(
                out,
                "* not full throughout these days: first reads of files count against it, and its ratios are lower bounds\n"
            )?;
        }
        if !self.effects.is_empty() {
            writeln!(out, "Effect of more disk")?;
            self.effects.iter().try_for_each(|effect| effect.print(out, question))?;
            writeln!(out)?;
        }
        if let Some(TiersOf { policy, size }) = &self.tiers_of {
            writeln!(out, "Only one data tier cached, {policy}, {}; hits are those of all bytes read", Amount(*size))?;
            let rows: Vec<_> = self.tiers.iter().map(TierRow::cells).collect();
            table::print(out, 1, &["tier", "accesses", "read", "hits by bytes", "saved a month"], &rows)?;
        }
        Ok(())
    }

    fn print_records(&self, out: &mut dyn Write) -> io::Result<()> {
        let Summary { accesses, files, users, first, last, read_bytes, distinct_bytes, once_files, once_bytes } =
            self.records;
        let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        writeln!(
            out,
            "Records    {accesses} accesses to {files} files by {users} users, {} to {} UTC",
            text::utc(first),
            text::utc(last)
        )?;
        writeln!(
            out,
            "           {} read, {} of them distinct; {:.0} % of files with {:.0} % of the distinct bytes used once",
            decimal(read_bytes as f64),
            decimal(distinct_bytes as f64),
            share(once_files, files),
            share(once_bytes, distinct_bytes),
        )?;
        if self.bad_records > 0 {
            writeln!(out, "           {} records could not be read and were left out", self.bad_records)?;
        }
        if self.of_survivors {
            writeln!(
                out,
                "           Records in a cache are those of files that it still has: hit ratios come out too high"
            )?;
        }
        writeln!(
            out,
            "Counted    the last {:.1} days, after {:.1} days of warm-up; ± is half of the 95 % interval, from the spread over this time",
            self.measured_days, self.warm_up_days
        )?;
        if self.measured.is_none() {
            writeln!(
                out,
                "           The records do not have all outcomes: there is no measured ratio to compare with"
            )?;
        }
        writeln!(out)
    }
}
