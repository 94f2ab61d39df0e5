//! What all open files share: set-up, budget, disk, counters.

use crate::{
    CheckPolicy, Options,
    budget::Budget,
    catalog::{Catalog, disk_facts, learnt},
    integrity::check::CHECKS_MAX,
    kept::Kept,
    questions::Questions,
    read_ahead::Limits,
};
use forebay_cache::{CacheKey, Cinfo, Trust, TrustMemory};
use forebay_store::{DataFile, Disk, Entry, OriginMark, StoreError};
use forebay_telemetry::{DiskOperation, Metrics};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::sync::Semaphore;

/// What all open files share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) budget: Budget,
    pub(crate) limits: Arc<Limits>,
    /// `None` when nothing is cached: only directories are exported.
    pub(crate) disk: Option<Arc<dyn Disk>>,
    /// What is known of entries; as long as there is a disk.
    pub(crate) catalog: Option<Arc<Catalog>>,
    pub(crate) metrics: Metrics,
    pub(crate) pause: Pause,
    /// Checks of blocks on disk that may begin.
    pub(crate) check_places: Semaphore,
    trust: Mutex<TrustMemory>,
    pub(crate) questions: Questions,
}

/// Bytes in which it is remembered what was checked of files that are not open: about 400 000 files.
const TRUST_MEMORY_BYTES: usize = 32 << 20;

impl Shared {
    pub(crate) fn new(options: Options, disk: Option<Arc<dyn Disk>>, metrics: Metrics) -> Self {
        let budget = Budget::new(options.budget_bytes);
        let watched = budget.clone();
        metrics.watch_budget(options.budget_bytes, move || watched.used_bytes());
        let catalog = disk.as_ref().map(|disk| {
            Catalog::new(
                Arc::clone(&options.index),
                Arc::clone(disk),
                options.workers.clone(),
                metrics.clone(),
                Arc::new(()),
            )
        });
        let limits = Arc::new(Limits::new(&options, metrics.clone()));
        Self {
            budget,
            limits,
            disk,
            catalog,
            metrics,
            pause: Pause::new(options.disk_pause),
            check_places: Semaphore::new(CHECKS_MAX),
            trust: Mutex::new(TrustMemory::new(TRUST_MEMORY_BYTES)),
            questions: Questions::default(),
            options,
        }
    }

    /// Takes over an entry that was found on disk. What this process has written or checked of it before is trusted.
    pub(crate) fn found(&self, entry: Entry) -> Kept {
        let trust = match self.options.integrity.check {
            CheckPolicy::FirstRead => Trust::Checked,
            CheckPolicy::Never => Trust::Given,
        };
        let kept = Kept::new(entry, trust);
        if kept.map.has_untrusted() {
            self.trust().recall(kept.data_file_id(), &kept.map);
        }
        kept
    }

    /// Remembers what is trusted of a file that is not open any more.
    pub(crate) fn remember_trust(&self, kept: &Kept) {
        self.trust().remember(kept.data_file_id(), &kept.map);
    }

    fn trust(&self) -> MutexGuard<'_, TrustMemory> {
        self.trust.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an entry for the index as it is on disk by now, last used at `last_use` (seconds of the Unix epoch).
    pub(crate) fn note_entry(
        &self,
        key: &CacheKey,
        data: &dyn DataFile,
        cinfo: &Cinfo,
        mark: Option<&OriginMark>,
        last_use: i64,
    ) {
        let Some(catalog) = &self.catalog else { return };
        let disk = disk_facts(data.volume(), data.identity(), cinfo, last_use);
        if let Some(mark) = mark {
            catalog.note_learnt(key, disk.generation, learnt(mark));
        }
        catalog.note_seen(key, disk);
    }

    /// Counts a failure of the store; when it is the disk that fails, and not one entry, stops writing for a while.
    pub(crate) fn note_store_failure(&self, operation: DiskOperation, error: &StoreError) {
        if error.concerns_one_entry() {
            self.metrics.add_disk_error(operation);
            tracing::warn!(operation = operation.as_str(), reason = with_cause(error), "an entry cannot be used");
        } else {
            self.note_disk_failure(operation, error);
        }
    }

    /// Counts a failure of the disk and stops writing for a while.
    pub(crate) fn note_disk_failure(&self, operation: DiskOperation, error: &dyn std::error::Error) {
        self.metrics.add_disk_error(operation);
        if self.pause.start() {
            let reason = with_cause(error);
            let seconds = self.options.disk_pause.as_secs();
            tracing::error!(
                operation = operation.as_str(),
                reason,
                seconds,
                "cache disk failed: reading without keeping"
            );
        }
    }
}

/// An error and what caused it.
pub(crate) fn with_cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// A time in which nothing is written to the disk, after it failed: reads go on without keeping, and nothing is fetched
/// again and again because it could not be written.
pub(crate) struct Pause {
    origin: Instant,
    length: Duration,
    /// End of the pause in milliseconds after `origin`.
    until_ms: AtomicU64,
}

impl Pause {
    fn new(length: Duration) -> Self {
        Self { origin: forebay_net::clock::monotonic(), length, until_ms: AtomicU64::new(0) }
    }

    /// Begins a pause, or prolongs the one that lasts; `true` when it is a new one.
    fn start(&self) -> bool {
        let now_ms = self.now_ms();
        let length_ms = u64::try_from(self.length.as_millis()).unwrap_or(u64::MAX);
        self.until_ms.swap(now_ms.saturating_add(length_ms), Relaxed) <= now_ms
    }

    pub(crate) fn is_on(&self) -> bool {
        let until_ms = self.until_ms.load(Relaxed);
        until_ms != 0 && self.now_ms() < until_ms
    }

    fn now_ms(&self) -> u64 {
        let elapsed = forebay_net::clock::monotonic().saturating_duration_since(self.origin);
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_begins_once_and_ends_by_itself() {
        let pause = Pause::new(Duration::from_secs(3600));
        assert!(!pause.is_on());
        assert!(pause.start());
        assert!(pause.is_on());
        assert!(!pause.start());
        let over = Pause::new(Duration::ZERO);
        over.start();
        assert!(!over.is_on());
    }
}
