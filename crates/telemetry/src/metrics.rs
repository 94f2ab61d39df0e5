//! Everything that is counted.

use crate::{
    disks::{DiskGauges, Disks},
    exposition::Exposition,
    histogram::AtomicHistogram,
    label::{
        BlockCheck, CheckResult, ChecksumComparison, ConnectionLimit, Decided, DiskOperation, DropReason, IndexPhase,
        Label, NotKept, NotReadAhead, PerLabel, ReadAheadEvent, RequestKind, SentTo, TlsResult,
    },
    open_handle::OpenHandle,
    origins::{OriginMetrics, Origins},
    purge::PurgeCounters,
};
use forebay_types::{Endpoint, Outcome, Side};
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The process's counters. Cheap to clone; all clones count into the same place.
#[derive(Clone, Debug, Default)]
pub struct Metrics(pub(crate) Arc<Counters>);

/// One open client connection in the gauge, from its making to its drop.
#[derive(Debug)]
pub struct ConnectionGuard(Metrics);

/// The counters themselves; [`Exposition`] turns them into text.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) client_bytes: PerLabel<AtomicU64, { Outcome::ALL.len() }>,
    pub(crate) client_requests: PerLabel<AtomicU64, { RequestKind::ALL.len() }>,
    pub(crate) client_errors: PerLabel<AtomicU64, { <Side as Label>::ALL.len() }>,
    pub(crate) request_seconds: PerLabel<AtomicHistogram, { Outcome::ALL.len() }>,
    pub(crate) origins: Origins,
    pub(crate) open_handles: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) connections_accepted: AtomicU64,
    pub(crate) connections_refused: PerLabel<AtomicU64, { ConnectionLimit::ALL.len() }>,
    pub(crate) tls_handshakes: PerLabel<AtomicU64, { TlsResult::ALL.len() }>,
    pub(crate) budget: OnceLock<Budget>,
    pub(crate) tasks: OnceLock<Tasks>,
    pub(crate) disks: OnceLock<Disks>,
    pub(crate) fills_started: AtomicU64,
    pub(crate) fills_coalesced: AtomicU64,
    pub(crate) disk_written_bytes: AtomicU64,
    pub(crate) disk_syncs: AtomicU64,
    pub(crate) disk_errors: PerLabel<AtomicU64, { DiskOperation::ALL.len() }>,
    pub(crate) not_kept: PerLabel<AtomicU64, { NotKept::ALL.len() }>,
    pub(crate) scrubbed_bytes: AtomicU64,
    pub(crate) checksum_comparisons: PerLabel<AtomicU64, { ChecksumComparison::ALL.len() }>,
    pub(crate) block_checks: PerLabel<AtomicU64, { BlockCheck::ALL.len() }>,
    pub(crate) read_ahead: PerLabel<AtomicU64, { ReadAheadEvent::ALL.len() }>,
    pub(crate) not_read_ahead: PerLabel<AtomicU64, { NotReadAhead::ALL.len() }>,
    pub(crate) completion_bytes: AtomicU64,
    pub(crate) files_dropped: PerLabel<AtomicU64, { DropReason::ALL.len() }>,
    pub(crate) purge: PurgeCounters,
    pub(crate) checks: PerLabel<AtomicU64, { CheckResult::ALL.len() }>,
    pub(crate) manager_opens: PerLabel<AtomicU64, { SentTo::ALL.len() }>,
    pub(crate) decisions: PerLabel<AtomicU64, { Decided::ALL.len() }>,
    pub(crate) negative_hits: AtomicU64,
    pub(crate) direct_opens: AtomicU64,
    pub(crate) direct_switches: AtomicU64,
    pub(crate) miss_redirects: AtomicU64,
    pub(crate) trace_written: AtomicU64,
    pub(crate) trace_dropped: AtomicU64,
    pub(crate) index_entries: AtomicU64,
    pub(crate) index_commits: AtomicU64,
    pub(crate) index_errors: AtomicU64,
    /// Position in [`IndexPhase::ALL`].
    pub(crate) index_phase: AtomicUsize,
}

/// The byte budget as the exposition sees it.
pub(crate) struct Budget {
    pub(crate) limit_bytes: u64,
    pub(crate) used_bytes: Box<dyn Fn() -> u64 + Send + Sync>,
}

/// Tells how many tasks of the runtime have not ended.
pub(crate) struct Tasks(pub(crate) Box<dyn Fn() -> u64 + Send + Sync>);

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").finish_non_exhaustive()
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("limit_bytes", &self.limit_bytes).finish_non_exhaustive()
    }
}

impl Metrics {
    /// All counters at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts lines of the trace that are on disk.
    pub(crate) fn add_trace_written(&self, lines: u64) {
        self.0.trace_written.fetch_add(lines, Ordering::Relaxed);
    }

    /// Counts lines of the trace that were dropped.
    pub(crate) fn add_trace_dropped(&self, lines: u64) {
        self.0.trace_dropped.fetch_add(lines, Ordering::Relaxed);
    }

    /// Counts a client's request as it is received.
    pub fn add_client_request(&self, kind: RequestKind) {
        self.0.client_requests.of(kind).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that was answered with an error.
    pub fn add_client_error(&self, side: Side) {
        self.0.client_errors.of(side).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the time from a read's receipt to the sending of its last byte. A read of several outcomes counts once,
    /// under the one that comes last in [`Outcome::ALL`].
    pub fn observe_request(&self, outcome: Outcome, duration: Duration) {
        self.0.request_seconds.of(outcome).observe(duration);
    }

    /// Observes `count` requests that were answered together, each in `duration`.
    pub fn observe_requests(&self, outcome: Outcome, duration: Duration, count: u64) {
        self.0.request_seconds.of(outcome).observe_many(duration, count);
    }

    /// Puts a client connection into the gauge until the guard is dropped.
    #[must_use]
    pub fn open_connection(&self) -> ConnectionGuard {
        self.0.connections.fetch_add(1, Ordering::Relaxed);
        self.0.connections_accepted.fetch_add(1, Ordering::Relaxed);
        ConnectionGuard(self.clone())
    }

    /// Counts a client's connection that was refused.
    pub fn add_refused_connection(&self, limit: ConnectionLimit) {
        self.0.connections_refused.of(limit).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a client's TLS handshake.
    pub fn add_tls_handshake(&self, result: TlsResult) {
        self.0.tls_handshakes.of(result).fetch_add(1, Ordering::Relaxed);
    }

    /// TLS handshakes of clients so far, with this result.
    #[must_use]
    pub fn tls_handshakes(&self, result: TlsResult) -> u64 {
        self.0.tls_handshakes.of(result).load(Ordering::Relaxed)
    }

    /// Puts a client's file handle into the gauge until it is dropped; the handle accounts the bytes of its reads.
    #[must_use]
    pub fn open_handle(&self) -> OpenHandle {
        OpenHandle::new(self.clone())
    }

    /// The counters of one origin. Takes a lock: ask once per connection or file.
    #[must_use]
    pub fn origin(&self, endpoint: &Endpoint) -> OriginMetrics {
        self.0.origins.of(endpoint)
    }

    /// Shows the byte budget; `used_bytes` is asked at each scrape. Only the first call counts.
    pub fn watch_budget(&self, limit_bytes: u64, used_bytes: impl Fn() -> u64 + Send + Sync + 'static) {
        self.0.budget.get_or_init(|| Budget { limit_bytes, used_bytes: Box::new(used_bytes) });
    }

    /// Shows the number of tasks; `alive` is asked at each scrape. Only the first call counts.
    pub fn watch_tasks(&self, alive: impl Fn() -> u64 + Send + Sync + 'static) {
        self.0.tasks.get_or_init(|| Tasks(Box::new(alive)));
    }

    /// Shows the disks of the cache; `look` is asked at each scrape. Only the first call counts.
    pub fn watch_disks(&self, look: impl Fn() -> Vec<DiskGauges> + Send + Sync + 'static) {
        self.0.disks.get_or_init(|| Disks(Box::new(look)));
    }

    /// Counts blocks whose fill was started.
    pub fn add_fills_started(&self, blocks: u64) {
        self.0.fills_started.fetch_add(blocks, Ordering::Relaxed);
    }

    /// Counts blocks that a read found being filled already.
    pub fn add_fills_coalesced(&self, blocks: u64) {
        self.0.fills_coalesced.fetch_add(blocks, Ordering::Relaxed);
    }

    /// Counts data bytes written to the cache disk.
    pub fn add_disk_written(&self, bytes: u64) {
        self.0.disk_written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a sync of a file.
    pub fn add_disk_sync(&self) {
        self.0.disk_syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failure of the cache disk.
    pub fn add_disk_error(&self, operation: DiskOperation) {
        self.0.disk_errors.of(operation).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts blocks, or parts of them, that came from an origin and were not kept.
    pub fn add_not_kept(&self, reason: NotKept, blocks: u64) {
        self.0.not_kept.of(reason).fetch_add(blocks, Ordering::Relaxed);
    }

    /// Counts blocks on disk that were compared with their checksums.
    pub fn add_block_checks(&self, result: BlockCheck, blocks: u64) {
        self.0.block_checks.of(result).fetch_add(blocks, Ordering::Relaxed);
    }

    /// Counts bytes that a scrub has read.
    pub fn add_scrubbed(&self, bytes: u64) {
        self.0.scrubbed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a comparison of a complete file's checksum with its origin's.
    pub fn add_checksum_comparison(&self, result: ChecksumComparison) {
        self.0.checksum_comparisons.of(result).fetch_add(1, Ordering::Relaxed);
    }

    /// Comparisons of checksums with those of origins so far, with this result.
    #[must_use]
    pub fn checksum_comparisons(&self, result: ChecksumComparison) -> u64 {
        self.0.checksum_comparisons.of(result).load(Ordering::Relaxed)
    }

    /// Blocks on disk that were compared with their checksums so far, with this result.
    #[must_use]
    pub fn block_checks(&self, result: BlockCheck) -> u64 {
        self.0.block_checks.of(result).load(Ordering::Relaxed)
    }

    /// Counts bytes that were fetched ahead of a reader, by what became of them.
    pub fn add_read_ahead(&self, event: ReadAheadEvent, bytes: u64) {
        self.0.read_ahead.of(event).fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a time that a reader was not read ahead of, or not as far as it should be.
    pub fn add_not_read_ahead(&self, reason: NotReadAhead) {
        self.0.not_read_ahead.of(reason).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts bytes that were asked for to complete a file.
    pub fn add_completion(&self, bytes: u64) {
        self.0.completion_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a file that left the cache.
    pub fn add_file_dropped(&self, reason: DropReason) {
        self.0.files_dropped.of(reason).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a copy whose check was due.
    pub fn add_check(&self, result: CheckResult) {
        self.0.checks.of(result).fetch_add(1, Ordering::Relaxed);
    }

    /// Checks so far with this result.
    #[must_use]
    pub fn checks(&self, result: CheckResult) -> u64 {
        self.0.checks.of(result).load(Ordering::Relaxed)
    }

    /// Counts an open that the rules decided about.
    pub fn add_decision(&self, decided: Decided) {
        self.0.decisions.of(decided).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an open of a manager.
    pub fn add_manager_open(&self, to: SentTo) {
        self.0.manager_opens.of(to).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an open that left the file to the client, which reads it by itself.
    pub fn add_direct_open(&self) {
        self.0.direct_opens.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an open file that was left to the client amid its reads.
    pub fn add_direct_switch(&self) {
        self.0.direct_switches.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an open of a file that was not complete, whose client was sent to the origin.
    pub fn add_miss_redirect(&self) {
        self.0.miss_redirects.fetch_add(1, Ordering::Relaxed);
    }

    /// Opens of files that were not complete, whose clients were sent to the origin.
    #[must_use]
    pub fn miss_redirects(&self) -> u64 {
        self.0.miss_redirects.load(Ordering::Relaxed)
    }

    /// Counts a question that a remembered "no such file" answered.
    pub fn add_negative_hit(&self) {
        self.0.negative_hits.fetch_add(1, Ordering::Relaxed);
    }

    /// Shows how many entries the index has.
    pub fn set_index_entries(&self, entries: u64) {
        self.0.index_entries.store(entries, Ordering::Relaxed);
    }

    /// Shows how the index is.
    pub fn set_index_phase(&self, phase: IndexPhase) {
        self.0.index_phase.store(phase.index(), Ordering::Relaxed);
    }

    /// Counts a commit to the index.
    pub fn add_index_commit(&self) {
        self.0.index_commits.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failure of the index, or a note for it that was lost.
    pub fn add_index_error(&self) {
        self.0.index_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes fetched ahead of readers so far, by what became of them.
    #[must_use]
    pub fn read_ahead_bytes(&self, event: ReadAheadEvent) -> u64 {
        self.0.read_ahead.of(event).load(Ordering::Relaxed)
    }

    /// Client bytes sent so far under `outcome`.
    #[must_use]
    pub fn client_bytes(&self, outcome: Outcome) -> u64 {
        self.0.client_bytes.of(outcome).load(Ordering::Relaxed)
    }

    /// Client connections now.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.0.connections.load(Ordering::Relaxed)
    }

    /// File handles that clients have open now.
    #[must_use]
    pub fn open_handles(&self) -> u64 {
        self.0.open_handles.load(Ordering::Relaxed)
    }

    /// The byte budget and how much of it is in use; zeros before [`Metrics::watch_budget`].
    #[must_use]
    pub fn budget(&self) -> (u64, u64) {
        self.0.budget.get().map_or((0, 0), |budget| (budget.limit_bytes, (budget.used_bytes)()))
    }

    /// All counters in the OpenMetrics text format 1.0.0, ending with `# EOF`.
    ///
    /// # Errors
    /// Never in practice: writing to a string does not fail.
    pub fn render(&self) -> Result<String, fmt::Error> {
        Exposition::new(self).render()
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
