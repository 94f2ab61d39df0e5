//! The account of the space that entries take.
//!
//! The decisions are the cache crate's: the [`Ledger`] knows the entries and their order of removal, [`forebay_cache::plan_purge`]
//! the amount to remove. This account is updated by the index and by every write, and wakes the purge when space is short.

use crate::{accounting::disk_headroom::DiskHeadroom, base::options::PurgeOptions};
use forebay_cache::{CacheKey, Footprint, Ledger};
use forebay_store::VolumeId;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};
use tokio::sync::Notify;

/// Accounts what entries take, and purges.
pub(crate) struct PurgeLedger {
    pub(crate) options: PurgeOptions,
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) headroom: DiskHeadroom,
    /// Notified when a purge is due before the next tick.
    pub(crate) due: Notify,
    /// The disk has said that it is full, since this was last asked.
    is_disk_full: AtomicBool,
}

impl PurgeLedger {
    pub(crate) fn new(options: PurgeOptions) -> Self {
        let ledger = Mutex::new(Ledger::new(&options.rules));
        Self {
            options,
            ledger,
            headroom: DiskHeadroom::default(),
            due: Notify::new(),
            is_disk_full: AtomicBool::new(false),
        }
    }

    /// Whether nothing may be kept until there is room; a purge is under way then, or comes at once.
    pub(crate) fn is_full(&self) -> bool {
        let is_full = self.headroom.is_full();
        if is_full {
            // A reader that finds the cache full also starts the purge: the notification of the write that filled it
            // may have been consumed by a purge that freed too little.
            self.due.notify_one();
        }
        is_full
    }

    /// Accounts a new entry on `volume`.
    pub(crate) fn note_created(&self, key: &CacheKey, volume: VolumeId) {
        let is_over_quota = self.ledger.lock().grew(key, volume.0, None, 0);
        self.note_growth(Footprint::of_entry(0), is_over_quota);
    }

    /// Accounts that of an entry on `volume` `present` bytes are there now, and `before` were.
    pub(crate) fn note_grown(&self, key: &CacheKey, volume: VolumeId, before: u64, present: u64) {
        let growth = Footprint::of_entry(present) - Footprint::of_entry(before);
        let is_over_quota = self.ledger.lock().grew(key, volume.0, Some(before), present);
        // The inode was counted when the entry was created.
        self.note_growth(Footprint { inodes: 0, ..growth }, is_over_quota);
    }

    /// Accounts that the files of an entry are gone.
    pub(crate) fn note_gone(&self, key: &CacheKey) {
        self.ledger.lock().gone(key);
    }

    /// Notes that a write has found the disk full: room is made at once, whatever the marks say.
    pub(crate) fn note_disk_full(&self) {
        // Stored before the notification: the purge that wakes up has to see it.
        self.is_disk_full.store(true, std::sync::atomic::Ordering::Release);
        self.due.notify_one();
    }

    pub(crate) fn take_is_disk_full(&self) -> bool {
        self.is_disk_full.swap(false, AcqRel)
    }

    fn note_growth(&self, growth: Footprint, is_over_quota: bool) {
        if self.headroom.add(growth) || is_over_quota {
            self.due.notify_one();
        }
    }
}
