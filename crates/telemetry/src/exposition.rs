//! The counters as OpenMetrics text.

use crate::{
    disks::DiskGauges,
    label::{
        BlockCheck, CheckResult, ChecksumComparison, ConnectionLimit, Decided, DiskOperation, DropReason, IndexPhase,
        Label, NotKept, NotReadAhead, PerLabel, ReadAheadEvent, RequestKind, SentTo, TlsResult,
    },
    metrics::{Counters, Metrics, Tasks},
    purge::PurgeCounters,
};
use forebay_types::{Outcome, PurgeReason, Side};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::{Registry, Unit},
};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// One scrape of the counters.
#[derive(Debug)]
pub(crate) struct Exposition(Arc<Counters>);

/// Name (without unit and `_total`), help and unit of a metric family.
type Family = (&'static str, &'static str, Option<&'static Unit>);

impl Exposition {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self(Arc::clone(&metrics.0))
    }

    /// The text, ending with `# EOF`.
    pub(crate) fn render(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut rendered = String::new();
        text::encode(&mut rendered, &registry)?;
        Ok(rendered)
    }
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page { encoder: &mut encoder };
        page.build()?;
        page.clients(&self.0)?;
        page.origins(&self.0)?;
        page.cache(&self.0)?;
        page.decisions(&self.0)?;
        page.index(&self.0)?;
        page.read_ahead(&self.0)?;
        page.purge(&self.0.purge)?;
        page.disks(&self.0)?;
        page.trace(&self.0)?;
        page.budget(&self.0)
    }
}

/// What is being written, family by family.
struct Page<'p, 'e> {
    encoder: &'p mut DescriptorEncoder<'e>,
}

impl Page<'_, '_> {
    fn build(&mut self) -> fmt::Result {
        self.family(("forebay_build", "Version of this program", None), MetricType::Info)?
            .encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
    }

    fn clients(&mut self, counters: &Counters) -> fmt::Result {
        self.per_label::<Outcome, _>(
            ("forebay_client", "File bytes sent to clients, by how they were obtained", Some(&Unit::Bytes)),
            "outcome",
            &counters.client_bytes,
        )?;
        self.per_label::<RequestKind, _>(
            ("forebay_client_requests", "Requests received from clients", None),
            "kind",
            &counters.client_requests,
        )?;
        self.per_label::<Side, _>(
            ("forebay_client_errors", "Requests answered with an error, by the side that can mend it", None),
            "side",
            &counters.client_errors,
        )?;
        self.latencies(
            ("forebay_request", "Time from receiving a read to sending its last byte", Some(&Unit::Seconds)),
            counters,
        )?;
        self.gauge(
            ("forebay_open_handles", "Files held open by clients", None),
            counters.open_handles.load(Ordering::Relaxed),
        )?;
        if let Some(Tasks(alive)) = counters.tasks.get() {
            self.gauge(("forebay_tasks", "Tasks of the runtime that have not ended", None), alive())?;
        }
        self.gauge(
            ("forebay_connections", "Open client connections", None),
            counters.connections.load(Ordering::Relaxed),
        )?;
        self.counter(
            ("forebay_connections_accepted", "Client connections accepted", None),
            &counters.connections_accepted,
        )?;
        self.per_label::<ConnectionLimit, _>(
            ("forebay_connections_refused", "Client connections refused, by the limit that was reached", None),
            "limit",
            &counters.connections_refused,
        )?;
        self.per_label::<TlsResult, _>(
            ("forebay_tls_handshakes", "TLS handshakes of clients, by how they ended", None),
            "result",
            &counters.tls_handshakes,
        )
    }

    fn latencies(&mut self, family: Family, counters: &Counters) -> fmt::Result {
        let mut encoder = self.family(family, MetricType::Histogram)?;
        for outcome in Outcome::ALL {
            let histogram = counters.request_seconds.of(outcome);
            histogram.encode(encoder.encode_family(&[("outcome", outcome.text())])?)?;
        }
        Ok(())
    }

    fn origins(&mut self, counters: &Counters) -> fmt::Result {
        let origins = counters.origins.snapshot();
        let mut bytes = self
            .family(("forebay_origin", "File bytes received from origins", Some(&Unit::Bytes)), MetricType::Counter)?;
        for (origin, metrics) in &origins {
            encode_count(&mut bytes.encode_family(&[("origin", origin)])?, metrics.bytes())?;
        }
        let mut requests =
            self.family(("forebay_origin_requests", "Requests sent to origins", None), MetricType::Counter)?;
        for (origin, metrics) in &origins {
            for (kind, count) in metrics.requests() {
                let labels = [("origin", origin.as_str()), ("kind", kind.as_str())];
                encode_count(&mut requests.encode_family(&labels)?, count)?;
            }
        }
        let mut latencies = self.family(
            ("forebay_origin_latency", "Time to the first byte of a read, lately", Some(&Unit::Seconds)),
            MetricType::Gauge,
        )?;
        for (origin, metrics) in &origins {
            latencies.encode_family(&[("origin", origin)])?.encode_gauge(&metrics.latency().as_secs_f64())?;
        }
        let mut rates = self.family(
            ("forebay_origin_rate", "Bytes per second that the way from the origin carries, lately", None),
            MetricType::Gauge,
        )?;
        for (origin, metrics) in &origins {
            rates.encode_family(&[("origin", origin)])?.encode_gauge(&metrics.bytes_per_s())?;
        }
        let mut errors = self.family(("forebay_origin_errors", "Failures of origins", None), MetricType::Counter)?;
        for (origin, metrics) in &origins {
            encode_count(&mut errors.encode_family(&[("origin", origin)])?, metrics.errors())?;
        }
        Ok(())
    }

    fn cache(&mut self, counters: &Counters) -> fmt::Result {
        self.counter(("forebay_fills_started", "Blocks whose fill was started", None), &counters.fills_started)?;
        self.counter(
            ("forebay_fills_coalesced", "Blocks that a read found being filled already", None),
            &counters.fills_coalesced,
        )?;
        self.counter(
            ("forebay_disk_written", "Data bytes written to the cache disk", Some(&Unit::Bytes)),
            &counters.disk_written_bytes,
        )?;
        self.counter(("forebay_disk_syncs", "Files synced to the cache disk", None), &counters.disk_syncs)?;
        self.per_label::<DiskOperation, _>(
            ("forebay_disk_errors", "Failures of the cache disk", None),
            "operation",
            &counters.disk_errors,
        )?;
        self.per_label::<NotKept, _>(
            ("forebay_not_kept", "Blocks, or parts of them, that came from an origin and were not kept", None),
            "reason",
            &counters.not_kept,
        )?;
        self.per_label::<BlockCheck, _>(
            ("forebay_block_checks", "Blocks on disk that were compared with their checksums", None),
            "result",
            &counters.block_checks,
        )?;
        self.counter(
            ("forebay_scrubbed", "Bytes on disk that scrubs have read", Some(&Unit::Bytes)),
            &counters.scrubbed_bytes,
        )?;
        self.per_label::<ChecksumComparison, _>(
            (
                "forebay_checksum_comparisons",
                "Checksums of complete files that were compared with their origin's",
                None,
            ),
            "result",
            &counters.checksum_comparisons,
        )?;
        self.per_label::<DropReason, _>(
            ("forebay_files_dropped", "Files that left the cache", None),
            "reason",
            &counters.files_dropped,
        )
    }

    fn decisions(&mut self, counters: &Counters) -> fmt::Result {
        self.per_label::<Decided, _>(
            ("forebay_decisions", "Opens of files of origins, by what the rules decided", None),
            "action",
            &counters.decisions,
        )?;
        self.per_label::<SentTo, _>(
            ("forebay_manager_opens", "Opens of a data manager, by where it sent the client", None),
            "to",
            &counters.manager_opens,
        )?;
        self.per_label::<CheckResult, _>(
            ("forebay_validity_checks", "Copies that were to be compared with their origin, by result", None),
            "result",
            &counters.checks,
        )?;
        self.counter(
            ("forebay_negative_hits", "Questions answered by a remembered \"no such file\"", None),
            &counters.negative_hits,
        )?;
        self.counter(
            ("forebay_direct_opens", "Opens that left the file to the client, which reads it by itself", None),
            &counters.direct_opens,
        )?;
        self.counter(
            ("forebay_direct_switches", "Open files that were left to the client amid its reads, once complete", None),
            &counters.direct_switches,
        )?;
        self.counter(
            ("forebay_miss_redirects", "Opens of files that were not complete, sent to the origin meanwhile", None),
            &counters.miss_redirects,
        )
    }

    fn index(&mut self, counters: &Counters) -> fmt::Result {
        self.gauge(
            ("forebay_index_entries", "Entries in the index", None),
            counters.index_entries.load(Ordering::Relaxed),
        )?;
        self.counter(("forebay_index_commits", "Commits to the index", None), &counters.index_commits)?;
        self.counter(
            ("forebay_index_errors", "Failures of the index, and notes for it that were lost", None),
            &counters.index_errors,
        )?;
        let now = counters.index_phase.load(Ordering::Relaxed);
        let mut states = self.family(("forebay_index_state", "1 for how the index is", None), MetricType::Gauge)?;
        for &phase in IndexPhase::ALL {
            states.encode_family(&[("state", phase.as_str())])?.encode_gauge(&u64::from(phase.index() == now))?;
        }
        Ok(())
    }

    fn read_ahead(&mut self, counters: &Counters) -> fmt::Result {
        self.per_label::<ReadAheadEvent, _>(
            ("forebay_read_ahead", "Bytes fetched ahead of readers, by what became of them", Some(&Unit::Bytes)),
            "event",
            &counters.read_ahead,
        )?;
        self.per_label::<NotReadAhead, _>(
            ("forebay_not_read_ahead", "Times that a reader was not read ahead of as far as it should be", None),
            "reason",
            &counters.not_read_ahead,
        )?;
        self.counter(
            ("forebay_completion", "Bytes fetched to complete files", Some(&Unit::Bytes)),
            &counters.completion_bytes,
        )
    }

    fn trace(&mut self, counters: &Counters) -> fmt::Result {
        self.counter(("forebay_trace_written", "Lines of the trace that were written", None), &counters.trace_written)?;
        self.counter(
            ("forebay_trace_dropped", "Lines of the trace that were dropped: too many, or not writable", None),
            &counters.trace_dropped,
        )
    }

    fn purge(&mut self, counters: &PurgeCounters) -> fmt::Result {
        self.per_label::<PurgeReason, _>(
            ("forebay_purged_files", "Files removed from the cache", None),
            "reason",
            &counters.files,
        )?;
        self.per_label::<PurgeReason, _>(
            ("forebay_purged", "Room that removed files took", Some(&Unit::Bytes)),
            "reason",
            &counters.bytes,
        )?;
        self.counter(
            (
                "forebay_purge_refused",
                "Files that were to be removed and stayed, mostly because they were in use",
                None,
            ),
            &counters.refused,
        )?;
        self.counter(("forebay_purges_unmet", "Purges that made less room than was wanted", None), &counters.unmet)?;
        let family = ("forebay_purge", "Duration of purges", Some(&Unit::Seconds));
        counters.seconds.encode(self.family(family, MetricType::Histogram)?)?;
        let level = counters.level();
        self.gauge(
            ("forebay_cache_used", "Room that all files of the cache take", Some(&Unit::Bytes)),
            level.used_bytes,
        )?;
        self.gauge(("forebay_cache_used_inodes", "Inodes that all files of the cache take", None), level.used_inodes)?;
        self.gauge(("forebay_cache_files", "Files in the cache", None), level.files)?;
        self.gauge(
            ("forebay_cache_until_purge", "Room that may be taken before a purge is due", Some(&Unit::Bytes)),
            level.bytes_until_purge,
        )?;
        self.gauge(
            ("forebay_cache_until_purge_inodes", "Inodes that may be taken before a purge is due", None),
            level.inodes_until_purge,
        )
    }

    fn budget(&mut self, counters: &Counters) -> fmt::Result {
        let Some(budget) = counters.budget.get() else {
            return Ok(());
        };
        self.gauge(("forebay_budget", "Memory that buffers may use", Some(&Unit::Bytes)), budget.limit_bytes)?;
        let used_bytes = (budget.used_bytes)();
        self.gauge(("forebay_budget_used", "Memory that buffers do use", Some(&Unit::Bytes)), used_bytes)
    }

    fn disks(&mut self, counters: &Counters) -> fmt::Result {
        let Some(disks) = counters.disks.get().map(|disks| (disks.0)()) else {
            return Ok(());
        };
        let mut states =
            self.family(("forebay_disk_state", "State of each disk: 1 for the one it is in", None), MetricType::Gauge)?;
        for disk in &disks {
            for &(state, is_it) in &disk.states {
                let labels = [("disk", disk.path.as_str()), ("state", state)];
                states.encode_family(&labels)?.encode_gauge(&u64::from(is_it))?;
            }
        }
        self.per_disk(("forebay_disk", "Size of each disk", Some(&Unit::Bytes)), &disks, |disk| disk.total_bytes)?;
        self.per_disk(("forebay_disk_free", "Room on each disk", Some(&Unit::Bytes)), &disks, |disk| disk.free_bytes)?;
        let mut latencies = self.family(
            ("forebay_disk_latency", "Mean time of operations lately", Some(&Unit::Seconds)),
            MetricType::Gauge,
        )?;
        for disk in &disks {
            latencies.encode_family(&[("disk", disk.path.as_str())])?.encode_gauge(&disk.latency.as_secs_f64())?;
        }
        let mut failures =
            self.family(("forebay_disk_failures", "Operations that a disk failed", None), MetricType::Counter)?;
        for disk in &disks {
            encode_count(&mut failures.encode_family(&[("disk", disk.path.as_str())])?, disk.failures)?;
        }
        Ok(())
    }

    fn per_disk(
        &mut self,
        family: Family,
        disks: &[DiskGauges],
        value: impl Fn(&DiskGauges) -> Option<u64>,
    ) -> fmt::Result {
        let mut encoder = self.family(family, MetricType::Gauge)?;
        for (disk, value) in disks.iter().filter_map(|disk| Some((disk, value(disk)?))) {
            encoder.encode_family(&[("disk", disk.path.as_str())])?.encode_gauge(&value)?;
        }
        Ok(())
    }

    fn per_label<L: Label, const N: usize>(
        &mut self,
        family: Family,
        label: &str,
        counts: &PerLabel<AtomicU64, N>,
    ) -> fmt::Result {
        let mut encoder = self.family(family, MetricType::Counter)?;
        for &value in L::ALL {
            let count = counts.of(value).load(Ordering::Relaxed);
            encode_count(&mut encoder.encode_family(&[(label, value.text())])?, count)?;
        }
        Ok(())
    }

    fn counter(&mut self, family: Family, count: &AtomicU64) -> fmt::Result {
        encode_count(&mut self.family(family, MetricType::Counter)?, count.load(Ordering::Relaxed))
    }

    fn gauge(&mut self, family: Family, value: u64) -> fmt::Result {
        self.family(family, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn family(&mut self, (name, help, unit): Family, kind: MetricType) -> Result<MetricEncoder<'_>, fmt::Error> {
        self.encoder.encode_descriptor(name, help, unit, kind)
    }
}

fn encode_count(encoder: &mut MetricEncoder<'_>, count: u64) -> fmt::Result {
    encoder.encode_counter::<NoLabelSet, u64, u64>(&count, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{metrics::ConnectionGuard, purge::CacheLevel};
    use forebay_types::Endpoint;
    use std::{collections::BTreeSet, time::Duration};

    /// A process that has seen one of everything.
    fn busy() -> (Metrics, ConnectionGuard) {
        let metrics = Metrics::new();
        let handle = metrics.open_handle();
        handle.account(Outcome::Hit, 4096);
        handle.account(Outcome::Bypassed, 7);
        metrics.add_tls_handshake(TlsResult::Done);
        metrics.add_client_request(RequestKind::Readv);
        metrics.add_client_error(Side::Disk);
        metrics.observe_request(Outcome::Hit, Duration::from_micros(8));
        metrics.observe_request(Outcome::Missed, Duration::from_secs(100));
        let origin = metrics.origin(&Endpoint::new("origin.example", 1094));
        origin.add_bytes(65536);
        origin.add_request(RequestKind::Pgread);
        origin.add_error();
        metrics.watch_budget(1 << 30, || 12345);
        metrics.watch_disks(|| {
            let states = vec![("healthy", false), ("offline", true)];
            let (total_bytes, latency) = (Some(1 << 40), Duration::from_millis(20));
            vec![DiskGauges { path: "/d1".to_owned(), states, total_bytes, free_bytes: None, failures: 5, latency }]
        });
        metrics.watch_tasks(|| 42);
        metrics.add_fills_started(3);
        metrics.add_fills_coalesced(2);
        metrics.add_disk_written(65536);
        metrics.add_disk_sync();
        metrics.add_disk_error(DiskOperation::Write);
        metrics.add_not_kept(NotKept::DiskFull, 5);
        metrics.add_block_checks(BlockCheck::Damaged, 1);
        metrics.add_scrubbed(123);
        metrics.add_checksum_comparison(ChecksumComparison::Different);
        metrics.add_file_dropped(DropReason::Changed);
        metrics.add_check(CheckResult::FailedServedStale);
        metrics.add_decision(Decided::Bypass);
        metrics.add_negative_hit();
        metrics.add_direct_open();
        metrics.add_direct_switch();
        metrics.add_miss_redirect();
        metrics.add_manager_open(SentTo::Filler);
        metrics.set_index_entries(11);
        metrics.set_index_phase(IndexPhase::Ready);
        metrics.add_index_commit();
        metrics.add_index_error();
        metrics.add_read_ahead(ReadAheadEvent::Used, 9);
        metrics.add_not_read_ahead(NotReadAhead::Memory);
        metrics.add_completion(11);
        origin.set_link(Duration::from_millis(50), 1_000_000);
        metrics.add_purged(PurgeReason::Space, 8192);
        metrics.add_purge_refused(3);
        metrics.observe_purge(Duration::from_millis(1), false);
        metrics.set_cache_level(CacheLevel { used_bytes: 12288, used_inodes: 2, files: 1, ..CacheLevel::default() });
        let connection = metrics.open_connection();
        (metrics, connection)
    }

    /// What [`busy`] shows.
    const LINES: &[&str] = &[
        concat!("forebay_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        "forebay_client_bytes_total{outcome=\"hit\"} 4096",
        "forebay_client_bytes_total{outcome=\"missed\"} 0",
        "forebay_client_bytes_total{outcome=\"bypassed\"} 7",
        "forebay_client_requests_total{kind=\"readv\"} 1",
        "forebay_client_errors_total{side=\"disk\"} 1",
        "forebay_request_seconds_count{outcome=\"hit\"} 1",
        "forebay_request_seconds_bucket{le=\"0.000004\",outcome=\"hit\"} 0",
        "forebay_request_seconds_bucket{le=\"0.000008\",outcome=\"hit\"} 1",
        "forebay_request_seconds_bucket{le=\"+Inf\",outcome=\"missed\"} 1",
        "forebay_request_seconds_sum{outcome=\"missed\"} 100.0",
        "forebay_origin_bytes_total{origin=\"origin.example:1094\"} 65536",
        "forebay_origin_requests_total{origin=\"origin.example:1094\",kind=\"pgread\"} 1",
        "forebay_origin_errors_total{origin=\"origin.example:1094\"} 1",
        "forebay_origin_errors_total{origin=\"other\"} 0",
        "forebay_open_handles 0",
        "forebay_tasks 42",
        "forebay_connections 1",
        "forebay_connections_accepted_total 1",
        "forebay_tls_handshakes_total{result=\"done\"} 1",
        "forebay_budget_bytes 1073741824",
        "forebay_budget_used_bytes 12345",
        "forebay_disk_state{disk=\"/d1\",state=\"healthy\"} 0",
        "forebay_disk_state{disk=\"/d1\",state=\"offline\"} 1",
        "forebay_disk_bytes{disk=\"/d1\"} 1099511627776",
        "forebay_disk_latency_seconds{disk=\"/d1\"} 0.02",
        "forebay_disk_failures_total{disk=\"/d1\"} 5",
        "forebay_fills_started_total 3",
        "forebay_fills_coalesced_total 2",
        "forebay_disk_written_bytes_total 65536",
        "forebay_disk_syncs_total 1",
        "forebay_disk_errors_total{operation=\"write\"} 1",
        "forebay_not_kept_total{reason=\"disk_full\"} 5",
        "forebay_block_checks_total{result=\"damaged\"} 1",
        "forebay_scrubbed_bytes_total 123",
        "forebay_checksum_comparisons_total{result=\"different\"} 1",
        "forebay_files_dropped_total{reason=\"changed\"} 1",
        "forebay_validity_checks_total{result=\"failed_served_stale\"} 1",
        "forebay_decisions_total{action=\"bypass\"} 1",
        "forebay_negative_hits_total 1",
        "forebay_direct_opens_total 1",
        "forebay_direct_switches_total 1",
        "forebay_miss_redirects_total 1",
        "forebay_manager_opens_total{to=\"filler\"} 1",
        "forebay_index_entries 11",
        "forebay_index_commits_total 1",
        "forebay_index_errors_total 1",
        "forebay_index_state{state=\"off\"} 0",
        "forebay_index_state{state=\"ready\"} 1",
        "forebay_read_ahead_bytes_total{event=\"used\"} 9",
        "forebay_not_read_ahead_total{reason=\"memory\"} 1",
        "forebay_completion_bytes_total 11",
        "forebay_origin_latency_seconds{origin=\"origin.example:1094\"} 0.05",
        "forebay_origin_rate{origin=\"origin.example:1094\"} 1000000",
        "forebay_purged_files_total{reason=\"space\"} 1",
        "forebay_purged_bytes_total{reason=\"space\"} 8192",
        "forebay_purged_bytes_total{reason=\"evicted\"} 0",
        "forebay_purge_refused_total 3",
        "forebay_purges_unmet_total 1",
        "forebay_purge_seconds_count 1",
        "forebay_cache_used_bytes 12288",
        "forebay_cache_used_inodes 2",
        "forebay_cache_files 1",
        "forebay_cache_until_purge_bytes 0",
    ];

    #[test]
    fn every_counter_shows_under_its_name() {
        let (metrics, _connection) = busy();
        let rendered = metrics.render().unwrap();
        for line in LINES {
            assert!(rendered.lines().any(|rendered_line| rendered_line == *line), "{line}\nnot in\n{rendered}");
        }
        assert!(rendered.ends_with("# EOF\n"));
    }

    #[test]
    fn each_family_and_each_series_appears_once() {
        let (metrics, _connection) = busy();
        let rendered = metrics.render().unwrap();
        let mut seen = BTreeSet::new();
        for line in rendered.lines() {
            let key = if line.starts_with('#') { line } else { line.rsplit_once(' ').unwrap().0 };
            assert!(seen.insert(key), "{key} appears twice");
        }
    }

    #[test]
    fn no_budget_is_shown_before_there_is_one() {
        assert!(!Metrics::new().render().unwrap().contains("forebay_budget"));
    }
}
