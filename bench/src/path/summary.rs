//! The tables of a run.

use super::measure::Sample;
use super::row::{Task, Unit, Way};
use crate::compare::summary::{MIB, NOTHING, median, number, push_line};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The tables of all `samples`, in Markdown.
pub(crate) fn tables(samples: &[Sample], ways: &[Way]) -> String {
    let table = Table { samples, ways };
    format!("### Results\n\n{}\n### Read from the origin\n\n{}", table.results(), table.origin_bytes())
}

struct Table<'a> {
    samples: &'a [Sample],
    ways: &'a [Way],
}

/// A line of a table.
type Line = (u64, Task);

impl Table<'_> {
    fn results(&self) -> String {
        let mut text = self.header(&["Forebay : direct", "Forebay : best XCache"]);
        for line in self.lines() {
            let value = |way| self.median(line, way, Sample::value);
            let of_xcache = self.ways.iter().filter(|way| matches!(way, Way::Xcache(_))).filter_map(|way| value(*way));
            let best = match line.1.unit() {
                Unit::MibPerSecond => of_xcache.max_by(f64::total_cmp),
                Unit::Milliseconds => of_xcache.min_by(f64::total_cmp),
            };
            let forebay = value(Way::Forebay);
            let ratio = |other: Option<f64>| Some(format!("{:.2}", forebay? / other?));
            let cells = self.ways.iter().map(|way| value(*way).map(number));
            let cells = cells.chain([ratio(value(Way::Direct)), ratio(best)]);
            push(&mut text, line, line.1.unit().as_str(), cells);
        }
        text
    }

    #[expect(clippy::cast_precision_loss, reason = "bytes of one run are far below 2^52")]
    fn origin_bytes(&self) -> String {
        let mut text = self.header(&[]);
        for line in self.lines() {
            let bytes = |way: &Way| self.median(line, *way, |sample| sample.origin_bytes as f64 / MIB);
            push(&mut text, line, "MiB", self.ways.iter().map(|way| bytes(way).map(number)));
        }
        text
    }

    fn lines(&self) -> BTreeSet<Line> {
        self.samples.iter().map(|sample| (sample.rtt_ms, sample.task)).collect()
    }

    fn median(&self, (rtt_ms, task): Line, way: Way, value: impl Fn(&Sample) -> f64) -> Option<f64> {
        let is_meant = |it: &&Sample| it.rtt_ms == rtt_ms && it.task == task && it.way == way;
        median(self.samples.iter().filter(is_meant).map(value).collect())
    }

    fn header(&self, more: &[&str]) -> String {
        let names = self.ways.iter().map(|way| way.name().into_owned());
        let header: Vec<String> = names.chain(more.iter().map(|name| (*name).to_owned())).collect();
        let mut text = String::new();
        push_line(&mut text, "round trip, task", "unit", &header);
        push_line(&mut text, "---", "---", &vec!["---:".to_owned(); header.len()]);
        text
    }
}

fn push(text: &mut String, (rtt_ms, task): Line, unit: &str, cells: impl Iterator<Item = Option<String>>) {
    let cells: Vec<_> = cells.map(|cell| cell.unwrap_or_else(|| NOTHING.to_owned())).collect();
    push_line(text, &format!("{rtt_ms} ms, {}", task.title()), unit, &cells);
}

/// One line for each sample.
pub(crate) fn raw(samples: &[Sample]) -> String {
    let mut text = String::from("rtt_ms,task,way,round,operations,bytes,wall_s,p50_us,p99_us,max_us,origin_bytes\n");
    for Sample { rtt_ms, task, way, round, report, origin_bytes } in samples {
        // Writing to a string cannot fail.
        writeln!(
            text,
            "{rtt_ms},{},\"{}\",{round},{},{},{:.6},{:.1},{:.1},{:.1},{origin_bytes}",
            task.name(),
            way.name(),
            report.operations,
            report.bytes,
            report.wall_s,
            report.p50_us,
            report.p99_us,
            report.max_us,
        )
        .ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::LoadReport;

    #[test]
    fn the_best_xcache_is_the_one_to_beat() {
        let ways = ["direct", "forebay", "xcache", "xcache-256k"].map(|way| way.parse::<Way>().unwrap());
        let sample = |task, way, wall_s| Sample {
            rtt_ms: 50,
            task,
            way,
            round: 1,
            report: LoadReport { operations: 10, bytes: 1 << 20, wall_s, p50_us: 1.0, p99_us: 1.0, max_us: 1.0 },
            origin_bytes: 3 << 20,
        };
        let samples = |task| ways.iter().zip([0.5, 0.25, 2.0, 1.0]).map(move |(way, wall)| sample(task, *way, wall));
        let samples: Vec<_> = samples(Task::Copy).chain(samples(Task::Read4k)).collect();
        let text = tables(&samples, &ways);
        assert!(text.contains("| 50 ms, xrdcp | MiB/s | 2.00 | 4.00 | 0.500 | 1.00 | 2.00 | 4.00 |\n"));
        assert!(text.contains("| 50 ms, random read 4 KiB | ms | 50.0 | 25.0 | 200 | 100 | 0.50 | 0.25 |\n"));
        assert!(text.contains("| 50 ms, xrdcp | MiB | 3.00 | 3.00 | 3.00 | 3.00 |\n"));
    }
}
