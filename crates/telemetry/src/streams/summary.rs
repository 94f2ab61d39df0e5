//! Summary reports: the metrics of the server, under the names of XRootD.

use super::{StreamOptions, intervals::is_due, socket::Socket};
use crate::{DiskGauges, FileResult, Metrics, RequestKind};
use forebay_monitoring::{SummaryHeader, SummaryReport};
use forebay_types::{Outcome, PurgeReason, Side};
use std::io;

/// Sends a report at each interval.
pub(super) struct Summaries {
    options: StreamOptions,
    socket: Socket,
    metrics: Metrics,
    start: i64,
    sent: i64,
}

impl Summaries {
    pub(super) fn new(options: StreamOptions, now: i64, metrics: Metrics) -> io::Result<Self> {
        let socket = Socket::new(options.summary_collectors.clone(), metrics.clone())?;
        Ok(Self { options, socket, metrics, start: now, sent: now })
    }

    /// Sends a report if one is due.
    pub(super) fn handle_time(&mut self, now: i64) {
        let interval = self.options.summary.as_secs().cast_signed();
        if self.options.summary_collectors.is_empty() || !is_due(self.sent, interval, now) {
            return;
        }
        self.sent = now;
        let start = u32::try_from(self.start).unwrap_or_default();
        self.socket.send(&report(&self.options, start, now, &self.metrics), now);
    }
}

/// Program in the reports: receivers look for it.
const PROGRAM: &str = "xrootd";

/// Requests that have no element of their own.
const MISCELLANEOUS: [RequestKind; 6] = [
    RequestKind::Stat,
    RequestKind::Dirlist,
    RequestKind::Locate,
    RequestKind::Query,
    RequestKind::Close,
    RequestKind::Other,
];

/// The report of a server that was started at `start`. It has the elements for which the server has a counter with the same meaning.
fn report(options: &StreamOptions, start: u32, now: i64, metrics: &Metrics) -> Vec<u8> {
    let header = SummaryHeader {
        now,
        start,
        version: env!("CARGO_PKG_VERSION"),
        host: &options.host,
        port: options.port,
        program: PROGRAM,
        instance: &options.instance,
        pid: std::process::id(),
        site: &options.site,
    };
    let report = SummaryReport::new(&header).block("info", "", |block| {
        block.value("host", &options.host).value("port", options.port).value("name", &options.instance)
    });
    let report = requests(connections(report, metrics), metrics);
    let disks = metrics.disks();
    let report = space(report, &disks);
    let report = cache(report, &disks, metrics);
    report.block("sgen", "", |block| block.value("as", 0).value("et", 0).value("toe", now)).finish()
}

fn connections(report: SummaryReport, metrics: &Metrics) -> SummaryReport {
    let sent: u64 = Outcome::ALL.into_iter().map(|outcome| metrics.client_bytes(outcome)).sum();
    report
        .block("link", "", |block| {
            let (now, all) = (metrics.connections(), metrics.connections_accepted());
            block.value("num", now).value("tot", all).value("out", sent)
        })
        .block("sched", "", |block| block.value("threads", metrics.tasks().unwrap_or(0)))
}

fn requests(report: SummaryReport, metrics: &Metrics) -> SummaryReport {
    let count = |kind: RequestKind| metrics.client_requests(kind);
    let errors: u64 = Side::ALL.into_iter().map(|side| metrics.client_errors(side)).sum();
    let redirects = metrics.direct_opens() + metrics.direct_switches() + metrics.miss_redirects();
    report
        .block("xrootd", "", |block| {
            let block = block.value("num", metrics.connections_accepted()).element("ops", |operations| {
                operations
                    .value("open", count(RequestKind::Open))
                    .value("rd", count(RequestKind::Read) + count(RequestKind::Pgread))
                    .value("rv", count(RequestKind::Readv))
                    .value("wr", count(RequestKind::Write))
                    .value("misc", MISCELLANEOUS.into_iter().map(count).sum::<u64>())
            });
            block.value("err", errors).value("rdr", redirects)
        })
        .block("ofs", "", |block| block.value("role", "server").value("opr", metrics.open_handles()))
}

/// The disks of the store, in KiB.
fn space(report: SummaryReport, disks: &[DiskGauges]) -> SummaryReport {
    report.block("oss", "v=\"2\"", |block| {
        block.element("paths", |paths| {
            let paths = paths.text(disks.len());
            disks.iter().enumerate().fold(paths, |paths, (number, disk)| {
                let kib = |bytes: Option<u64>| bytes.unwrap_or(0) >> 10;
                // XRootD writes paths with quotes.
                let path = format!("\"{}\"", disk.path);
                paths.block(&number.to_string(), "", |entry| {
                    let entry = entry.value("lp", &path).value("rp", &path).value("tot", kib(disk.total_bytes));
                    entry.value("free", kib(disk.free_bytes)).value("maxf", kib(disk.free_bytes)).value("fsn", 1)
                })
            })
        })
    })
}

fn cache(report: SummaryReport, disks: &[DiskGauges], metrics: &Metrics) -> SummaryReport {
    let bytes = |outcome: Outcome| metrics.client_bytes(outcome);
    let bypassed = bytes(Outcome::Bypassed);
    let delivered = bytes(Outcome::Hit) + bytes(Outcome::Missed) + bytes(Outcome::Coalesced);
    let purged_bytes: u64 = PurgeReason::ALL.into_iter().map(|reason| metrics.purged_bytes(reason)).sum();
    let purged_files: u64 = PurgeReason::ALL.into_iter().map(|reason| metrics.purged_files(reason)).sum();
    let closed: u64 = FileResult::ALL.iter().map(|result| metrics.files_read(*result)).sum();
    let used = metrics.cache_used_bytes();
    let size: u64 = disks.iter().filter_map(|disk| disk.total_bytes).sum();
    let (budget, budget_used) = metrics.budget();
    report.block("cache", "type=\"pfc\"", |block| {
        let hits = metrics.requests_of(Outcome::Hit);
        let missed: u64 = Outcome::ALL.into_iter().map(|outcome| metrics.requests_of(outcome)).sum::<u64>() - hits;
        block
            .element("rd", |read| {
                let read = read.value("in", metrics.origin_bytes()).value("out", delivered);
                read.value("hits", hits).value("miss", missed)
            })
            .element("pass", |pass| pass.text(bypassed))
            .value("saved", metrics.disk_written_bytes())
            .value("purge", purged_bytes)
            .element("files", |files| {
                let files = files.value("opened", closed + metrics.open_handles()).value("closed", closed);
                files.value("del", purged_files).value("now", metrics.cache_files())
            })
            .element("store", |store| {
                let until_purge = metrics.cache_bytes_until_purge();
                let max = used.checked_add(until_purge).unwrap_or(size);
                store.value("size", size).value("used", used).value("max", max)
            })
            .element("mem", |memory| memory.value("size", budget).value("used", budget_used))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CacheLevel;

    #[test]
    fn a_report_has_the_numbers_of_the_metrics() {
        let metrics = Metrics::new();
        let handle = metrics.open_handle();
        for (outcome, amount) in Outcome::ALL.into_iter().zip([10, 200, 3000, 40_000]) {
            handle.account(outcome, amount);
            metrics.observe_requests(outcome, std::time::Duration::from_millis(1), 2);
        }
        metrics.add_client_request(RequestKind::Pgread);
        metrics.add_client_request(RequestKind::Read);
        metrics.add_client_request(RequestKind::Stat);
        metrics.set_cache_level(CacheLevel {
            used_bytes: 5000,
            files: 3,
            bytes_until_purge: 100,
            ..Default::default()
        });
        let disk = DiskGauges {
            path: "/d".to_owned(),
            states: Vec::new(),
            total_bytes: Some(1 << 20),
            free_bytes: Some(1 << 19),
            failures: 0,
            latency: std::time::Duration::ZERO,
        };
        metrics.watch_disks(move || vec![disk.clone()]);
        let options = StreamOptions { host: "h".to_owned(), site: "S".to_owned(), ..StreamOptions::default() };
        let text = String::from_utf8(report(&options, 7, 9, &metrics)).unwrap();
        for part in [
            "<statistics tod=\"9\" ver=",
            "src=\"h:1094\" tos=\"7\" pgm=\"xrootd\" ins=\"forebay\"",
            "<out>43210</out>",
            "<ops><open>0</open><rd>2</rd><rv>0</rv><wr>0</wr><misc>1</misc></ops>",
            "<paths>1<stats id=\"0\"><lp>&quot;/d&quot;</lp><rp>&quot;/d&quot;</rp><tot>1024</tot><free>512</free>",
            "<stats id=\"cache\" type=\"pfc\"><rd><in>0</in><out>3210</out><hits>2</hits><miss>6</miss></rd><pass>40000</pass>",
            "<files><opened>1</opened><closed>0</closed><del>0</del><now>3</now></files>",
            "<store><size>1048576</size><used>5000</used><max>5100</max></store>",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn a_cache_without_a_limit_may_use_its_disks() {
        let metrics = Metrics::new();
        metrics.set_cache_level(CacheLevel { used_bytes: 5, bytes_until_purge: u64::MAX, ..Default::default() });
        let text = String::from_utf8(report(&StreamOptions::default(), 7, 9, &metrics)).unwrap();
        assert!(text.contains("<store><size>0</size><used>5</used><max>0</max></store>"), "{text}");
    }
}
