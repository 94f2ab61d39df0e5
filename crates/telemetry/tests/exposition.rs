//! The names, units, types, labels and values of every exported metric are pinned: dashboards and alerts depend on them.

use forebay_telemetry::{
    BlockCheck, CacheLevel, CertificateEnd, CheckResult, ChecksumComparison, ClusterAnswer, ColumnEvent,
    ConnectionGuard, ConnectionLimit, Decided, DiskGauges, DiskOperation, DropReason, Fault, IndexPhase, Metrics,
    NotKept, NotReadAhead, PlacedOn, ReadAheadEvent, ReadAheadSource, RecordOutput, RequestKind, SentTo,
    StructureOutcome, TlsResult,
};
use forebay_types::{Endpoint, Outcome, PurgeReason, Side};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// The exposition of [`busy`] without help texts, in the order of the alphabet.
const EXPECTED: &str = include_str!("exposition.txt");

fn see_root_files(metrics: &Metrics) {
    metrics.add_structure(StructureOutcome::Parsed);
    metrics.observe_structure_parse(Duration::from_millis(1));
    metrics.add_columns(ColumnEvent::Learned, 12);
    metrics.watch_structure_tables(|| 13);
}

/// Sets the values that are read at each scrape.
fn watch(metrics: &Metrics) {
    metrics.watch_budget(1 << 30, || 12345);
    metrics.watch_disks(|| {
        let states = vec![("healthy", false), ("offline", true)];
        let first = DiskGauges {
            path: "/d1".to_owned(),
            states: states.clone(),
            total_bytes: Some(1 << 40),
            free_bytes: None,
            failures: 5,
            latency: Duration::from_millis(20),
        };
        vec![DiskGauges { path: "/d2".to_owned(), free_bytes: Some(7), ..first.clone() }, first]
    });
    metrics.watch_tasks(|| 42);
    metrics.watch_readiness(|| true);
    let host = CertificateEnd { file: "/etc/host.pem".to_owned(), is_proxy: false, seconds: -5 };
    metrics.watch_certificates(move || vec![host.clone()]);
}

/// A process that has seen one of everything.
#[expect(clippy::disallowed_methods, reason = "no other clock is in reach, and the value does not count")]
fn busy() -> (Metrics, ConnectionGuard) {
    let metrics = Metrics::new();
    let handle = metrics.open_handle();
    handle.account(Outcome::Hit, 4096);
    handle.account(Outcome::Bypassed, 7);
    metrics.add_tls_handshake(TlsResult::Done);
    metrics.add_client_request(RequestKind::Readv);
    metrics.add_client_error(Side::Disk);
    metrics.observe_requests(Outcome::Hit, Duration::from_micros(8), 1);
    metrics.observe_requests(Outcome::Coalesced, Duration::from_micros(8), 3);
    metrics.observe_requests(Outcome::Missed, Duration::from_secs(100), 1);
    let origin = metrics.origin(&Endpoint::new("origin.example", 1094).into());
    origin.add_bytes(65536);
    origin.add_request(RequestKind::Pgread);
    let (server, now) = (Endpoint::new("origin.example", 1094), Instant::now());
    origin.add_failure_of(&server, Fault::Down, &"refused", now);
    origin.set_link(Duration::from_millis(50), 1_000_000);
    watch(&metrics);
    metrics.set_eviction_age(Duration::from_secs(90));
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
    metrics.add_cluster_answer(ClusterAnswer::Pending);
    metrics.add_cluster_open(PlacedOn::OtherNode);
    metrics.add_cluster_manager(1);
    metrics.add_cluster_manager(1);
    metrics.add_cluster_manager(-1);
    metrics.set_cluster_members(3);
    metrics.set_cluster_weight(100);
    metrics.set_cluster_census(4096, 1024);
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
    metrics.add_read_ahead(ReadAheadEvent::Used, ReadAheadSource::History, 9);
    metrics.add_not_read_ahead(NotReadAhead::Memory);
    metrics.add_completion(11);
    metrics.add_records_sent(RecordOutput::File, 14);
    metrics.add_records_dropped(RecordOutput::OpenSearch, 15);
    metrics.add_record_request_failed();
    see_root_files(&metrics);
    metrics.add_purged(PurgeReason::Space, 8192);
    metrics.add_purge_refused(3);
    metrics.observe_purge(Duration::from_millis(1), false);
    metrics.set_cache_level(CacheLevel {
        used_bytes: 12288,
        used_inodes: 2,
        files: 1,
        bytes_until_purge: 100,
        inodes_until_purge: 50,
    });
    metrics.add_refused_connection(ConnectionLimit::Logins);
    let connection = metrics.open_connection();
    (metrics, connection)
}

#[test]
fn names_types_labels_and_values_are_the_pinned_ones() {
    let (metrics, _connection) = busy();
    let rendered = metrics.render().expect("a string takes everything");
    let version = concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"");
    let rendered = rendered.replace(version, "version=\"VERSION\"");
    let mut lines: Vec<&str> = rendered.lines().filter(|line| !line.starts_with("# HELP ")).collect();
    lines.sort_unstable();
    let expected: Vec<&str> = EXPECTED.lines().collect();
    let missing: Vec<_> = expected.iter().filter(|line| !lines.contains(line)).collect();
    let surplus: Vec<_> = lines.iter().filter(|line| !expected.contains(line)).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing: {missing:#?}\nsurplus: {surplus:#?}");
    assert_eq!(lines, expected);
}

#[test]
fn the_exposition_ends_with_its_mark() {
    assert!(busy().0.render().expect("a string takes everything").ends_with("# EOF\n"));
}

#[test]
fn each_family_and_each_series_appears_once() {
    let (metrics, _connection) = busy();
    let rendered = metrics.render().expect("a string takes everything");
    let mut seen = BTreeSet::new();
    for line in rendered.lines() {
        let key = if line.starts_with('#') { line } else { line.rsplit_once(' ').expect("a value").0 };
        assert!(seen.insert(key), "{key} appears twice");
    }
}

#[test]
fn no_budget_is_shown_before_there_is_one() {
    let rendered = Metrics::new().render().expect("a string takes everything");
    assert!(!rendered.contains("forebay_budget"));
    assert!(!rendered.contains("forebay_tasks"));
    assert!(!rendered.contains("forebay_disk_state"));
}
