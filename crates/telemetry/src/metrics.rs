//! Every metric of the process, declared once.

use crate::{
    declare::{counter_methods, counter_series, counter_type, declare_metrics},
    exposition::{Family, Page},
    failing_servers::FailingServer,
    groups::{Group, NamedSums},
    histogram::AtomicHistogram,
    label::{
        BlockCheck, CheckResult, ChecksumComparison, ClusterAnswer, ColumnEvent, ConnectionLimit, Decided,
        DiskOperation, DropReason, FileResult, IndexPhase, Label, NotKept, NotReadAhead, PerLabel, PlacedOn,
        ReadAheadEvent, ReadAheadSource, RecordOutput, RequestKind, SentTo, StructureOutcome, TlsResult,
    },
    open_handle::OpenHandle,
    origins::{OriginCounters, OriginMetrics, OriginState, Origins},
};
use forebay_types::{OriginId, Outcome, PurgeReason, Side};
use prometheus_client::registry::Unit;
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// The process's metrics. Cheap to clone; all clones count into the same place.
#[derive(Clone, Debug, Default)]
pub struct Metrics(pub(crate) Arc<Values>);

/// One open client connection: in the gauge until it is dropped.
#[derive(Debug)]
pub struct ConnectionGuard(Metrics);

/// How full the cache is, as of its last measurement.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CacheLevel {
    pub used_bytes: u64,
    pub used_inodes: u64,
    pub files: u64,
    /// Bytes that may be added before a purge is due; the largest number if there is no limit.
    pub bytes_until_purge: u64,
    /// Inodes that may be added before a purge is due; the largest number if there is no limit.
    pub inodes_until_purge: u64,
}

/// The exported state of one cache disk.
#[derive(Clone, Debug)]
pub struct DiskGauges {
    /// The directory: the value of the label `disk`.
    pub path: String,
    /// Every state a disk can be in, and whether it is the current one.
    pub states: Vec<(&'static str, bool)>,
    /// Size of the file system; `None` if unknown.
    pub total_bytes: Option<u64>,
    pub free_bytes: Option<u64>,
    /// Operations that failed because of the disk.
    pub failures: u64,
    /// Recent mean time of an operation.
    pub latency: Duration,
}

declare_metrics! {
    counters {
        client_bytes[outcome: Outcome] = "forebay_client" (Bytes), "File bytes sent to clients, by source"
            => pub(crate) add_client_bytes(bytes);
        files_read[result: FileResult] = "forebay_files_read", "Files closed by clients, by the place their bytes came from"
            => pub(crate) add_file_read(1);
        client_requests[kind: RequestKind] = "forebay_client_requests", "Requests received from clients"
            => pub add_client_request(1);
        client_errors[side: Side] = "forebay_client_errors", "Requests answered with an error, by the side at fault"
            => pub add_client_error(1);
        connections_accepted = "forebay_connections_accepted", "Accepted client connections";
        connections_refused[limit: ConnectionLimit] = "forebay_connections_refused",
            "Refused client connections, by the limit that was reached" => pub add_refused_connection(1);
        tls_handshakes[result: TlsResult] = "forebay_tls_handshakes", "TLS handshakes with clients, by result"
            => pub add_tls_handshake(1);

        fills_started = "forebay_fills_started", "Blocks whose fetch from the origin was started"
            => pub add_fills_started(blocks);
        fills_coalesced = "forebay_fills_coalesced", "Blocks a read found already being fetched"
            => pub add_fills_coalesced(blocks);
        disk_written_bytes = "forebay_disk_written" (Bytes), "Data bytes written to the cache disks"
            => pub add_disk_written(bytes);
        disk_syncs = "forebay_disk_syncs", "File syncs on the cache disks" => pub add_disk_sync(1);
        disk_errors[operation: DiskOperation] = "forebay_disk_errors", "Failed operations on the cache disks"
            => pub add_disk_error(1);
        not_kept[reason: NotKept] = "forebay_not_kept", "Blocks, or parts of blocks, fetched and not kept, by reason"
            => pub add_not_kept(blocks);
        block_checks[result: BlockCheck] = "forebay_block_checks", "Blocks on disk compared with their checksums, by result"
            => pub add_block_checks(blocks);
        scrubbed_bytes = "forebay_scrubbed" (Bytes), "Bytes on disk read by scrubs" => pub add_scrubbed(bytes);
        checksum_comparisons[result: ChecksumComparison] = "forebay_checksum_comparisons",
            "Checksums of complete files compared with those of their origins, by result"
            => pub add_checksum_comparison(1);
        files_dropped[reason: DropReason] = "forebay_files_dropped", "Files dropped from the cache, by reason"
            => pub add_file_dropped(1);

        decisions[action: Decided] = "forebay_decisions", "Opens of origin files, by the decision of the rules"
            => pub add_decision(1);
        manager_opens[to: SentTo] = "forebay_manager_opens", "Opens at a data manager, by redirect target"
            => pub add_manager_open(1);
        cluster_answers[answer: ClusterAnswer] = "forebay_cluster_answers", "Questions of cluster managers about files, by answer"
            => pub add_cluster_answer(1);
        cluster_opens[placed: PlacedOn] = "forebay_cluster_opens", "Opens at a member of a cluster, by the node that placement selects for the file"
            => pub add_cluster_open(1);
        checks[result: CheckResult] = "forebay_validity_checks", "Due comparisons of cached copies with their origin, by result"
            => pub add_check(1);
        negative_hits = "forebay_negative_hits", "Requests answered by a remembered \"no such file\""
            => pub add_negative_hit(1);
        direct_opens = "forebay_direct_opens", "Opens redirected to the complete file on the shared file system"
            => pub add_direct_open(1);
        direct_switches = "forebay_direct_switches", "Open files redirected to the complete file on the shared file system"
            => pub add_direct_switch(1);
        miss_redirects = "forebay_miss_redirects", "Opens of incomplete files redirected to the origin"
            => pub add_miss_redirect(1);

        index_commits = "forebay_index_commits", "Commits to the index" => pub add_index_commit(1);
        index_errors = "forebay_index_errors", "Failures of the index and lost updates" => pub add_index_error(1);

        not_read_ahead[reason: NotReadAhead] = "forebay_not_read_ahead", "Read-aheads suppressed or shortened, by reason"
            => pub add_not_read_ahead(1);
        structure_files[outcome: StructureOutcome] = "forebay_structure_files", "ROOT files whose structure was parsed, by outcome"
            => pub add_structure(1);
        structure_columns[event: ColumnEvent] = "forebay_structure_columns", "Columns of trees that were compared with the learned ones, by event"
            => pub add_columns(columns);
        completion_bytes = "forebay_completion" (Bytes), "Bytes fetched to complete files" => pub add_completion(bytes);

        purged_files[reason: PurgeReason] = "forebay_purged_files", "Files removed from the cache, by reason";
        purged_bytes[reason: PurgeReason] = "forebay_purged" (Bytes), "Disk space freed by removed files, by reason";
        purge_refused = "forebay_purge_refused", "Files selected by a purge and kept, mostly because they were in use"
            => pub add_purge_refused(entries);
        purges_unmet = "forebay_purges_unmet", "Purges that freed less space than required";

        trace_written = "forebay_trace_written", "Trace lines written" => pub(crate) add_trace_written(lines);
        trace_dropped = "forebay_trace_dropped", "Trace lines dropped: queue full or file not writable"
            => pub(crate) add_trace_dropped(lines);

        stream_datagrams_sent = "forebay_stream_datagrams_sent", "Datagrams of accounting streams sent to collectors"
            => pub(crate) add_stream_datagram_sent(datagrams);
        stream_datagrams_failed = "forebay_stream_datagrams_failed", "Datagrams of accounting streams that could not be sent"
            => pub(crate) add_stream_datagram_failed(datagrams);
        stream_events_dropped = "forebay_stream_events_dropped", "Events missing in the accounting streams: queue full"
            => pub(crate) add_stream_event_dropped(events);

        records_sent[output: RecordOutput] = "forebay_records_sent", "Records of accesses that an output has taken, by output"
            => pub add_records_sent(records);
        records_dropped[output: RecordOutput] = "forebay_records_dropped",
            "Records of accesses that are missing in an output: too slow, too long without it, or refused" => pub add_records_dropped(records);
        record_requests_failed = "forebay_record_requests_failed",
            "Requests with records of accesses that OpenSearch did not take in full" => pub add_record_request_failed(1);
    }
    gauges {
        open_handles = "forebay_open_handles", "Files held open by clients";
        connections = "forebay_connections", "Open client connections";
        cluster_managers = "forebay_cluster_managers", "Managers of the cluster that this node is logged in to";
        cluster_members = "forebay_cluster_members", "Members of the cluster that take new files, this node included";
        cluster_weight = "forebay_cluster_weight", "Weight of this node in the placement of new files, in GiB of its store";
        cluster_foreign_bytes = "forebay_cluster_foreign" (Bytes), "Bytes here of files that placement selects another member of the cluster for";
        cluster_duplicate_bytes = "forebay_cluster_duplicate" (Bytes), "Bytes here of files that a member before this one in their order of placement has, too";
        index_entries = "forebay_index_entries", "Entries in the index";
        cache_used_bytes = "forebay_cache_used" (Bytes), "Disk space used by all files of the cache";
        cache_used_inodes = "forebay_cache_used_inodes", "Inodes used by all files of the cache";
        cache_files = "forebay_cache_files", "Files in the cache";
        cache_bytes_until_purge = "forebay_cache_until_purge" (Bytes), "Disk space left before a purge is due";
        cache_inodes_until_purge = "forebay_cache_until_purge_inodes", "Inodes left before a purge is due";
    }
}

/// What is counted in another way: histograms, states, and values that are read at each scrape.
#[derive(Debug, Default)]
pub(crate) struct Others {
    pub(crate) request_seconds: PerLabel<AtomicHistogram, { Outcome::ALL.len() }>,
    pub(crate) purge_seconds: AtomicHistogram,
    pub(crate) structure_parse_seconds: AtomicHistogram,
    pub(crate) structure_tables: Watched<u64>,
    pub(crate) read_ahead: PerLabel<BytesBySource, { ReadAheadEvent::ALL.len() }>,
    pub(crate) origins: Origins,
    /// Position in [`IndexPhase::ALL`].
    pub(crate) index_phase: AtomicUsize,
    pub(crate) tasks: Watched<u64>,
    /// Limit and use of the memory budget in bytes.
    pub(crate) budget: Watched<(u64, u64)>,
    pub(crate) disks: Watched<Vec<DiskGauges>>,
    pub(crate) groups: Watched<Vec<(Group, NamedSums)>>,
    pub(crate) is_ready: Watched<bool>,
    pub(crate) certificates: Watched<Vec<CertificateEnd>>,
    /// In milliseconds; 0 before the first purge for space.
    pub(crate) eviction_age_ms: AtomicU64,
}

/// The end of a certificate or proxy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CertificateEnd {
    /// The file that holds it.
    pub file: String,
    /// Proxies live for hours, certificates for months.
    pub is_proxy: bool,
    /// Seconds until it expires, negative afterwards.
    pub seconds: i64,
}

impl CertificateEnd {
    pub(crate) const fn kind(&self) -> &'static str {
        if self.is_proxy { "proxy" } else { "certificate" }
    }
}

type BytesBySource = PerLabel<AtomicU64, { ReadAheadSource::ALL.len() }>;

/// A value that is read at each scrape; absent until its source is set.
pub(crate) struct Watched<T>(OnceLock<Box<dyn Fn() -> T + Send + Sync>>);

impl<T> Watched<T> {
    /// Only the first call has an effect.
    fn watch(&self, read: impl Fn() -> T + Send + Sync + 'static) {
        self.0.get_or_init(|| Box::new(read));
    }

    pub(crate) fn read(&self) -> Option<T> {
        self.0.get().map(|read| read())
    }
}

impl<T> Default for Watched<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl Metrics {
    /// All metrics at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts the time from the receipt of `count` reads, answered together, to the sending of the last byte. A read with several
    /// outcomes counts once, under the one that comes last in [`Outcome::ALL`].
    pub fn observe_requests(&self, outcome: Outcome, duration: Duration, count: u64) {
        self.0.others.request_seconds.of(outcome).observe(duration, count);
    }

    /// Reads that were answered with this outcome.
    pub(crate) fn requests_of(&self, outcome: Outcome) -> u64 {
        self.0.others.request_seconds.of(outcome).count()
    }

    /// Counts the time in which the structure of a file was parsed, without waits.
    pub fn observe_structure_parse(&self, duration: Duration) {
        self.0.others.structure_parse_seconds.observe(duration, 1);
    }

    /// Counts bytes that were fetched ahead, and their fate.
    pub fn add_read_ahead(&self, event: ReadAheadEvent, source: ReadAheadSource, bytes: u64) {
        self.0.others.read_ahead.of(event).of(source).fetch_add(bytes, Relaxed);
    }

    /// Bytes fetched ahead, by event.
    pub fn read_ahead_bytes(&self, event: ReadAheadEvent) -> u64 {
        ReadAheadSource::ALL.iter().map(|source| self.0.others.read_ahead.of(event).of(*source).load(Relaxed)).sum()
    }

    /// Has the bytes of the tables of ROOT files read at each scrape.
    pub fn watch_structure_tables(&self, bytes: impl Fn() -> u64 + Send + Sync + 'static) {
        self.0.others.structure_tables.watch(bytes);
    }

    /// Counts a client connection as open until the guard is dropped.
    #[must_use]
    pub fn open_connection(&self) -> ConnectionGuard {
        self.0.connections.fetch_add(1, Relaxed);
        self.0.connections_accepted.fetch_add(1, Relaxed);
        ConnectionGuard(self.clone())
    }

    /// Counts a client's file handle as open until it is dropped; the handle accounts the bytes of its reads.
    #[must_use]
    pub fn open_handle(&self) -> OpenHandle {
        self.0.open_handles.fetch_add(1, Relaxed);
        OpenHandle::new(self.clone())
    }

    pub(crate) fn close_handle(&self) {
        self.0.open_handles.fetch_sub(1, Relaxed);
    }

    /// The counters of one origin. Takes a lock: call it once per connection or file.
    pub fn origin(&self, origin: &OriginId) -> OriginMetrics {
        self.0.others.origins.of(origin)
    }

    /// File bytes received from all origins.
    pub fn origin_bytes(&self) -> u64 {
        self.0.others.origins.bytes()
    }

    /// The origins with requests so far; those beyond [`ORIGIN_LABELS_MAX`](crate::ORIGIN_LABELS_MAX) together.
    pub fn origins(&self) -> Vec<OriginState> {
        let state = |(name, counters): (String, Arc<OriginCounters>)| OriginState {
            name,
            bytes: counters.bytes.load(Relaxed),
            requests: RequestKind::ALL.into_iter().map(|kind| counters.requests.of(kind).load(Relaxed)).sum(),
            errors: counters.errors.load(Relaxed),
            latency: Duration::from_micros(counters.latency_us.load(Relaxed)),
            bytes_per_s: counters.bytes_per_s.load(Relaxed),
        };
        let states = self.0.others.origins.snapshot().into_iter().map(state);
        states.filter(|state| state.requests > 0 || state.bytes > 0).collect()
    }

    /// Forgets the servers whose last failure was long before `now`.
    pub fn expire_failing_servers(&self, now: Instant) {
        self.0.others.origins.failing.expire(now);
    }

    /// The servers of origins that fail, at `now` by both clocks; the one that failed last first.
    pub fn failing_servers(&self, now: (Instant, i64)) -> Vec<FailingServer> {
        self.0.others.origins.failing.list(now)
    }

    /// Exports the memory budget; `used_bytes` is called at each scrape. Only the first call has an effect.
    pub fn watch_budget(&self, limit_bytes: u64, used_bytes: impl Fn() -> u64 + Send + Sync + 'static) {
        self.0.others.budget.watch(move || (limit_bytes, used_bytes()));
    }

    /// Exports the number of tasks; `alive` is called at each scrape. Only the first call has an effect.
    pub fn watch_tasks(&self, alive: impl Fn() -> u64 + Send + Sync + 'static) {
        self.0.others.tasks.watch(alive);
    }

    /// Exports the disks of the cache; `read` is called at each scrape. Only the first call has an effect.
    pub fn watch_disks(&self, read: impl Fn() -> Vec<DiskGauges> + Send + Sync + 'static) {
        self.0.others.disks.watch(read);
    }

    /// The disks of the cache; empty before [`Metrics::watch_disks`].
    pub(crate) fn disks(&self) -> Vec<DiskGauges> {
        self.0.others.disks.read().unwrap_or_default()
    }

    /// Running tasks; `None` before [`Metrics::watch_tasks`].
    pub(crate) fn tasks(&self) -> Option<u64> {
        self.0.others.tasks.read()
    }

    /// Exports sums of accesses by group; `read` is called at each scrape. Only the first call has an effect.
    pub(crate) fn watch_groups(&self, read: impl Fn() -> Vec<(Group, NamedSums)> + Send + Sync + 'static) {
        self.0.others.groups.watch(read);
    }

    /// Exports whether the server accepts work; `is_ready` is called at each scrape. Only the first call has an effect.
    pub fn watch_readiness(&self, is_ready: impl Fn() -> bool + Send + Sync + 'static) {
        self.0.others.is_ready.watch(is_ready);
    }

    /// Exports the seconds until certificates and proxies expire, by file; `read` is called at each scrape and blocks it.
    /// Only the first call has an effect.
    pub fn watch_certificates(&self, read: impl Fn() -> Vec<CertificateEnd> + Send + Sync + 'static) {
        self.0.others.certificates.watch(read);
    }

    /// The ends of certificates and proxies; empty before [`Metrics::watch_certificates`].
    pub fn certificates(&self) -> Vec<CertificateEnd> {
        self.0.others.certificates.read().unwrap_or_default()
    }

    /// Sets how long the files removed last for lack of space had not been used.
    pub fn set_eviction_age(&self, age: Duration) {
        self.0.others.eviction_age_ms.store(u64::try_from(age.as_millis()).unwrap_or(u64::MAX).max(1), Relaxed);
    }

    /// How long the files removed last for lack of space had not been used; `None` before the first one.
    pub fn eviction_age(&self) -> Option<Duration> {
        let age_ms = self.0.others.eviction_age_ms.load(Relaxed);
        (age_ms > 0).then(|| Duration::from_millis(age_ms))
    }

    /// The memory budget and how much of it is in use; zeros before [`Metrics::watch_budget`].
    pub fn budget(&self) -> (u64, u64) {
        self.0.others.budget.read().unwrap_or_default()
    }

    /// Counts a login to a manager of the cluster (1), or its end (-1).
    pub fn add_cluster_manager(&self, change: i64) {
        // Two's complement: adding -1 subtracts.
        self.0.cluster_managers.fetch_add(change.cast_unsigned(), Relaxed);
    }

    /// Sets the number of live members of the cluster.
    pub fn set_cluster_members(&self, members: u64) {
        self.0.cluster_members.store(members, Relaxed);
    }

    /// Sets the weight of this node among the members of the cluster.
    pub fn set_cluster_weight(&self, weight: u32) {
        self.0.cluster_weight.store(weight.into(), Relaxed);
    }

    /// Sets the bytes of files that placement selects another member for, and those of files that such a member has, too.
    pub fn set_cluster_census(&self, foreign_bytes: u64, duplicate_bytes: u64) {
        self.0.cluster_foreign_bytes.store(foreign_bytes, Relaxed);
        self.0.cluster_duplicate_bytes.store(duplicate_bytes, Relaxed);
    }

    /// Sets the number of entries in the index.
    pub fn set_index_entries(&self, entries: u64) {
        self.0.index_entries.store(entries, Relaxed);
    }

    /// Sets the state of the index.
    pub fn set_index_phase(&self, phase: IndexPhase) {
        self.0.others.index_phase.store(phase.index(), Relaxed);
    }

    /// Counts an entry that was removed, and its size on disk.
    pub fn add_purged(&self, reason: PurgeReason, bytes: u64) {
        self.0.purged_files.of(reason).fetch_add(1, Relaxed);
        self.0.purged_bytes.of(reason).fetch_add(bytes, Relaxed);
    }

    /// Counts a purge and its duration; `is_met` means that it freed as much as was required.
    pub fn observe_purge(&self, duration: Duration, is_met: bool) {
        self.0.others.purge_seconds.observe(duration, 1);
        self.0.purges_unmet.fetch_add(u64::from(!is_met), Relaxed);
    }

    /// Sets how full the cache is.
    pub fn set_cache_level(&self, level: CacheLevel) {
        self.0.cache_used_bytes.store(level.used_bytes, Relaxed);
        self.0.cache_used_inodes.store(level.used_inodes, Relaxed);
        self.0.cache_files.store(level.files, Relaxed);
        self.0.cache_bytes_until_purge.store(level.bytes_until_purge, Relaxed);
        self.0.cache_inodes_until_purge.store(level.inodes_until_purge, Relaxed);
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.0.connections.fetch_sub(1, Relaxed);
    }
}
