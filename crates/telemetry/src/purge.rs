//! What purging does, and what there is to purge.

use crate::{
    Metrics,
    histogram::AtomicHistogram,
    label::{Label, PerLabel},
};
use forebay_types::PurgeReason;
use parking_lot::Mutex;
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Counters of purging.
#[derive(Debug, Default)]
pub(crate) struct PurgeCounters {
    pub(crate) files: PerLabel<AtomicU64, { PurgeReason::ALL.len() }>,
    pub(crate) bytes: PerLabel<AtomicU64, { PurgeReason::ALL.len() }>,
    pub(crate) refused: AtomicU64,
    pub(crate) unmet: AtomicU64,
    pub(crate) seconds: AtomicHistogram,
    level: Mutex<CacheLevel>,
}

/// How full the cache is, as of its last measurement.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CacheLevel {
    /// Bytes that all entries take.
    pub used_bytes: u64,
    /// Inodes that all entries take.
    pub used_inodes: u64,
    /// Entries.
    pub files: u64,
    /// Bytes that may be added before a purge is due; the largest number when nothing limits them.
    pub bytes_until_purge: u64,
    /// Inodes that may be added before a purge is due; the largest number when nothing limits them.
    pub inodes_until_purge: u64,
}

impl PurgeCounters {
    pub(crate) fn level(&self) -> CacheLevel {
        *self.level.lock()
    }
}

impl Metrics {
    /// Counts an entry that was removed, and the bytes it took.
    pub fn add_purged(&self, reason: PurgeReason, bytes: u64) {
        self.0.purge.files.of(reason).fetch_add(1, Relaxed);
        self.0.purge.bytes.of(reason).fetch_add(bytes, Relaxed);
    }

    /// Counts entries that were to be removed and stayed, because they were in use or could not be removed.
    pub fn add_purge_refused(&self, entries: u64) {
        self.0.purge.refused.fetch_add(entries, Relaxed);
    }

    /// Counts a purge by how long it took; `is_met` tells whether it made as much room as was wanted.
    pub fn observe_purge(&self, duration: Duration, is_met: bool) {
        self.0.purge.seconds.observe(duration);
        self.0.purge.unmet.fetch_add(u64::from(!is_met), Relaxed);
    }

    /// Notes how full the cache is.
    pub fn set_cache_level(&self, level: CacheLevel) {
        *self.0.purge.level.lock() = level;
    }

    /// Entries removed so far for `reason`.
    #[must_use]
    pub fn purged_files(&self, reason: PurgeReason) -> u64 {
        self.0.purge.files.of(reason).load(Relaxed)
    }

    /// What they took, in bytes.
    #[must_use]
    pub fn purged_bytes(&self, reason: PurgeReason) -> u64 {
        self.0.purge.bytes.of(reason).load(Relaxed)
    }
}

impl Label for PurgeReason {
    const ALL: &'static [Self] = &Self::ALL;

    fn index(self) -> usize {
        self as usize
    }

    fn text(self) -> &'static str {
        self.as_str()
    }
}
