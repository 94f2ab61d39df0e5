//! Medians, ratios, and the tables that show them.

use super::measure::Sample;
use super::row::{ColdClient, CpuUnit, Row, RowKind};
use super::servers::ServerKind;
use std::fmt::Write as _;

const GIB: f64 = (1_u64 << 30) as f64;
pub(crate) const MIB: f64 = (1_u64 << 20) as f64;

/// The text of a cell without a measurement.
pub(crate) const NOTHING: &str = "–";

impl Sample {
    /// Processor time of the server in the unit of the row.
    #[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
    pub(crate) fn cpu_per_unit(&self, unit: CpuUnit) -> f64 {
        match unit {
            CpuUnit::PerOperation => self.cpu.as_secs_f64() * 1e6 / self.report.operations as f64,
            CpuUnit::PerGib => self.cpu.as_secs_f64() * GIB / self.report.bytes as f64,
        }
    }

    /// Operations per second, or MiB per second for rows whose unit is GiB.
    #[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
    pub(crate) fn rate(&self, unit: CpuUnit) -> f64 {
        match unit {
            CpuUnit::PerOperation => self.report.operations as f64 / self.report.wall_s,
            CpuUnit::PerGib => self.report.bytes as f64 / MIB / self.report.wall_s,
        }
    }
}

/// A column that sets Forebay against others: its name, and the servers of which the one with the least counts.
type Against = (&'static str, &'static [ServerKind]);

const AGAINST_SERVERS: [Against; 3] = [
    ("Forebay : XCache", &[ServerKind::Xcache, ServerKind::XcacheTuned]),
    ("Forebay : plain xrootd", &[ServerKind::Plain]),
    ("Forebay : traced Forebay", &[ServerKind::ForebayTraced]),
];
const AGAINST_FLOOR: [Against; 3] = [
    ("Forebay : ping-pong", &[ServerKind::FloorPingPong]),
    ("Forebay : floor", &[ServerKind::FloorCopy, ServerKind::FloorSendfile]),
    ("Forebay : relay", &[ServerKind::FloorRelay]),
];

/// The tables of all `samples`, in Markdown.
pub(crate) fn tables(rows: &[Row], servers: &[ServerKind], samples: &[Sample]) -> String {
    let cells = Cells { servers, samples };
    let [xcache, plain, traced] = AGAINST_SERVERS;
    let [ping_pong, floor, relay] = AGAINST_FLOOR;
    let cpu = cells.table(
        rows,
        &[xcache, plain, traced, ping_pong, floor, relay],
        |row, sample| sample.cpu_per_unit(row.unit),
        |row| row.unit.as_str(),
    );
    let rate = cells.table(
        rows,
        &AGAINST_SERVERS,
        |row, sample| sample.rate(row.unit),
        |row| match row.unit {
            CpuUnit::PerOperation => "op/s",
            CpuUnit::PerGib => "MiB/s",
        },
    );
    let warm: Vec<Row> = rows.iter().filter(|row| matches!(row.kind, RowKind::Warm(_))).cloned().collect();
    let latency = cells.table(&warm, &[], |_, sample| sample.report.p99_us, |_| "µs");
    let tells_misses = |row: &&Row| matches!(row.kind, RowKind::Cold(ColdClient::OneByOne | ColdClient::FirstByte));
    let misses: Vec<Row> = rows.iter().filter(tells_misses).cloned().collect();
    let miss_latency = cells.table(&misses, &[], |_, sample| sample.report.p50_us, |_| "µs");
    format!(
        "### Processor time of the server\n\n{cpu}\n### Throughput\n\n{rate}\n### Latency, 99th percentile\n\n{latency}\n\
         ### Latency of a miss, median\n\n{miss_latency}"
    )
}

/// A paragraph on memory rows in which pages came from the disk after all; empty when there was none.
pub(crate) fn refaults(rows: &[Row], samples: &[Sample]) -> String {
    let is_memory = |name: &str| rows.iter().any(|row| row.name == name && is_memory_row(row.kind));
    let lines: String = samples
        .iter()
        .filter(|sample| sample.page_cache.refaults > REFAULTS_MAX && is_memory(&sample.row))
        .map(|Sample { row, server, round, page_cache, .. }| {
            format!("- {row}, {}, round {round}: {} pages\n", server.as_str(), page_cache.refaults)
        })
        .collect();
    let hint = "The system evicted pages of the files that are read. Keep them in memory (`--work-dir /dev/shm`).";
    if lines.is_empty() { lines } else { format!("\n### Not from memory\n\n{hint}\n\n{lines}") }
}

const fn is_memory_row(kind: RowKind) -> bool {
    matches!(kind, RowKind::Warm(_)) && !kind.is_from_device()
}

/// Pages of other programs that may come back from the disk during a sample.
const REFAULTS_MAX: u64 = 256;

/// A paragraph on the servers that ended while they were measured; empty when none did.
pub(crate) fn failures(failures: &[String]) -> String {
    let lines: String = failures.iter().map(|failure| format!("- {failure}\n")).collect();
    if lines.is_empty() { lines } else { format!("\n### Not measured\n\n{lines}") }
}

struct Cells<'a> {
    servers: &'a [ServerKind],
    samples: &'a [Sample],
}

impl Cells<'_> {
    fn table(
        &self,
        rows: &[Row],
        against: &[Against],
        value: impl Fn(&Row, &Sample) -> f64,
        unit: impl Fn(&Row) -> &'static str,
    ) -> String {
        let is_measured = |servers: &[ServerKind]| servers.iter().any(|server| self.servers.contains(server));
        let has_forebay = is_measured(&[ServerKind::Forebay]);
        let against: Vec<&Against> = against.iter().filter(|(_, others)| has_forebay && is_measured(others)).collect();
        let names = self.servers.iter().map(|server| server.as_str().to_owned());
        let header: Vec<String> = names.chain(against.iter().map(|(name, _)| (*name).to_owned())).collect();
        let mut text = String::new();
        push_line(&mut text, "row", "unit", &header);
        push_line(&mut text, "---", "---", &vec!["---:".to_owned(); header.len()]);
        for row in rows {
            let median_of = |server: ServerKind| {
                let of_row = self.samples.iter().filter(|sample| sample.row == row.name && sample.server == server);
                median(of_row.map(|sample| value(row, sample)).collect())
            };
            let ratio = |others: &[ServerKind]| {
                let least = others.iter().filter_map(|other| median_of(*other)).min_by(f64::total_cmp)?;
                Some(median_of(ServerKind::Forebay)? / least)
            };
            let values = self.servers.iter().map(|server| median_of(*server).map_or_else(nothing, number));
            let ratios =
                against.iter().map(|(_, others)| ratio(others).map_or_else(nothing, |ratio| format!("{ratio:.2}")));
            push_line(&mut text, &row.title, unit(row), &values.chain(ratios).collect::<Vec<_>>());
        }
        text
    }
}

pub(crate) fn push_line(text: &mut String, first: &str, second: &str, rest: &[String]) {
    // Writing to a string cannot fail.
    writeln!(text, "| {first} | {second} | {} |", rest.join(" | ")).ok();
}

fn nothing() -> String {
    NOTHING.to_owned()
}

/// Three significant digits, whole above a hundred.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value {
        value if value < 1.0 => 3,
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// The middle of `values`: of an even number of them, the mean of both in the middle. None without values.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::page_cache::PageCache;
    use crate::load::LoadReport;
    use std::time::Duration;

    #[test]
    fn medians_are_taken_from_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn numbers_show_three_digits() {
        let shown: Vec<_> = [0.123_4, 1.234, 12.34, 1_234.5].map(number).into();
        assert_eq!(shown, ["0.123", "1.23", "12.3", "1234"]);
    }

    #[test]
    fn refaults_of_memory_rows_are_reported() {
        let rows = super::super::row::select(&["read-4k-c8".to_owned(), "device-4k-c8".to_owned()]).unwrap();
        let sample = |row: &str, refaults| Sample {
            row: row.to_owned(),
            server: ServerKind::Plain,
            round: 1,
            report: LoadReport { operations: 1, bytes: 1, wall_s: 1.0, p50_us: 1.0, p99_us: 2.0, max_us: 3.0 },
            cpu: Duration::ZERO,
            origin_bytes: 0,
            page_cache: PageCache { disk_bytes: 0, refaults },
        };
        let quiet = [sample("device-4k-c8", 9_000), sample("read-4k-c8", REFAULTS_MAX)];
        assert_eq!(refaults(&rows, &quiet), "");
        assert!(
            refaults(&rows, &[sample("read-4k-c8", 9_000)]).contains("- read-4k-c8, plain xrootd, round 1: 9000 pages")
        );
    }

    #[test]
    fn the_table_shows_medians_ratios_and_gaps() {
        let rows = super::super::row::select(&["open".to_owned(), "readv".to_owned()]).unwrap();
        let sample = |server, cpu_ms| Sample {
            row: "open-stat-close".to_owned(),
            server,
            round: 1,
            report: LoadReport { operations: 1_000, bytes: 0, wall_s: 1.0, p50_us: 1.0, p99_us: 2.0, max_us: 3.0 },
            cpu: Duration::from_millis(cpu_ms),
            origin_bytes: 0,
            page_cache: PageCache::default(),
        };
        let samples = [sample(ServerKind::Xcache, 100), sample(ServerKind::Forebay, 25)];
        let text = tables(&rows, &[ServerKind::Xcache, ServerKind::Forebay], &samples);
        assert!(text.contains("| row | unit | XCache | Forebay | Forebay : XCache |\n"));
        assert!(text.contains("| open + stat + close, 8 connections | µs/op | 100 | 25.0 | 0.25 |\n"));
        assert!(text.contains("| readv 64 × 16 KiB, 8 connections | µs/op | – | – | – |\n"));
    }
}
