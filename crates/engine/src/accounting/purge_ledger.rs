//! The account of the space that entries take.
//!
//! The decisions are the cache crate's: the [`Ledger`] knows the entries and their order of removal, [`forebay_cache::plan_purge`]
//! the amount to remove. This account is updated by the index and by every write, and wakes the purge when space is short.

use crate::{
    accounting::{disk_headroom::DiskHeadroom, surplus_account::SurplusAccount},
    base::options::PurgeOptions,
    catalog::IndexObserver,
};
use forebay_cache::{CacheKey, Footprint, Headroom, Ledger};
use forebay_index::{Applied, Record};
use forebay_store::VolumeId;
use parking_lot::Mutex;
use std::{collections::BTreeSet, time::Duration};
use tokio::sync::Notify;

/// Accounts what entries take, and purges.
pub(crate) struct PurgeLedger {
    pub(crate) options: PurgeOptions,
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) headroom: DiskHeadroom,
    pub(crate) surplus: SurplusAccount,
    /// Notified when a purge is due before the next tick.
    pub(crate) due: Notify,
    /// Disks that have said that they are full, since this was last asked; none for one that is not known.
    full_disks: Mutex<BTreeSet<Option<VolumeId>>>,
}

impl PurgeLedger {
    /// The account of a cache on the disks `volumes`.
    pub(crate) fn new(options: PurgeOptions, volumes: impl IntoIterator<Item = VolumeId>) -> Self {
        let ledger = Mutex::new(Ledger::new(&options.rules));
        Self {
            options,
            ledger,
            headroom: DiskHeadroom::new(volumes),
            surplus: SurplusAccount::default(),
            due: Notify::new(),
            full_disks: Mutex::default(),
        }
    }

    /// Whether nothing may be kept on `volume`, or on any for none, until there is room; a purge is under way then, or comes at once.
    pub(crate) fn is_full(&self, volume: Option<VolumeId>) -> bool {
        let is_full = match volume {
            Some(volume) => self.headroom.is_full(volume),
            None => self.headroom.is_full_everywhere(),
        };
        if is_full {
            // A reader that finds the cache full also starts the purge: the notification of the write that filled it
            // may have been consumed by a purge that freed too little.
            self.due.notify_one();
        }
        is_full
    }

    /// Whether a file of `size` bytes has its share of `volume` with the `present` ones. A file that the disk cannot hold in addition
    /// to others is kept in part: as a whole it would evict all others first, and itself at the end.
    pub(crate) fn has_its_share(&self, volume: VolumeId, size: u64, present: u64) -> bool {
        let total = self.headroom.total_bytes(volume).min(self.options.rules.bytes.total.unwrap_or(u64::MAX));
        size > total / 5 * 4 && present >= total / 2
    }

    pub(crate) fn note_created(&self, key: &CacheKey, volume: VolumeId) {
        let is_over_quota = self.ledger.lock().grew(key, volume.0, None, 0);
        self.note_growth(volume, Footprint::of_entry(0), is_over_quota);
    }

    /// Accounts that of an entry on `volume` `present` bytes are there now, and `before` were.
    pub(crate) fn note_grown(&self, key: &CacheKey, volume: VolumeId, before: u64, present: u64) {
        let growth = Footprint::of_entry(present) - Footprint::of_entry(before);
        let is_over_quota = self.ledger.lock().grew(key, volume.0, Some(before), present);
        // The inode was counted when the entry was created.
        self.note_growth(volume, Footprint { inodes: 0, ..growth }, is_over_quota);
    }

    pub(crate) fn note_gone(&self, key: &CacheKey) {
        self.ledger.lock().gone(key);
    }

    pub(crate) fn note_gone_unreported(&self, key: &CacheKey, volume: VolumeId, footprint: Footprint) {
        self.ledger.lock().gone_unreported(key, volume.0, footprint);
    }

    /// Notes that a write has found a disk full: room is made there at once, whatever the marks say.
    pub(crate) fn note_disk_full(&self, volume: Option<VolumeId>) {
        // Stored before the notification: the purge that wakes up has to see it.
        self.full_disks.lock().insert(volume);
        self.due.notify_one();
    }

    pub(crate) fn take_full_disks(&self) -> BTreeSet<Option<VolumeId>> {
        std::mem::take(&mut self.full_disks.lock())
    }

    fn note_growth(&self, volume: VolumeId, growth: Footprint, is_over_quota: bool) {
        if self.headroom.add(volume, growth) || is_over_quota {
            self.due.notify_one();
        }
    }
}

/// Result of a purge.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PurgeReport {
    pub files: u64,
    pub freed: Footprint,
    /// Victims that stayed: in use, or not removable.
    pub refused: u64,
    /// Space that the goals required and that could not be freed.
    pub unmet: Footprint,
    pub duration: Duration,
}

/// Result of a request to remove an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Evicted {
    Removed {
        /// Bytes of the entry that were on disk.
        bytes: u64,
    },
    NotCached,
    /// It stays: a client has it open, or opens it.
    Open,
    Pinned,
}

/// Space that the cache uses, and its limits.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Usage {
    pub used: Footprint,
    pub files: u64,
    pub pinned: u64,
    /// Space left before a purge is due and before nothing is kept; the largest numbers if nothing limits them.
    pub headroom: Headroom,
    pub disks: Vec<DiskUse>,
    /// By quota, in the order of the configuration.
    pub quotas: Vec<QuotaUse>,
}

/// Space used by the entries of one disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DiskUse {
    pub volume: VolumeId,
    pub used: Footprint,
}

/// Space used by the entries of one quota.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QuotaUse {
    pub path: String,
    pub used: Footprint,
    /// Guaranteed to the entries of the quota.
    pub min_bytes: u64,
    /// Limit of the quota, if it has one.
    pub max_bytes: Option<u64>,
}

impl IndexObserver for PurgeLedger {
    fn begin(&self) {
        *self.ledger.lock() = Ledger::new(&self.options.rules);
    }

    fn found(&self, key: &CacheKey, record: &Record) {
        insert(&mut self.ledger.lock(), key, record);
    }

    fn changed(&self, applied: &Applied) {
        let mut ledger = self.ledger.lock();
        let before = applied.before.as_ref();
        // Another id under the same key is another entry: the old one leaves the ledger before the new one enters it.
        if let Some(before) = before.filter(|before| applied.after.as_ref().is_none_or(|after| after.id != before.id)) {
            ledger.removed(before.id);
        }
        let Some(after) = &applied.after else { return };
        match before.filter(|before| before.id == after.id) {
            Some(before) => {
                ledger.resized(after.id, &applied.key, after.disk.present_bytes);
                // A record counts at least one use, its creation, which the ledger has noted with the insertion.
                let uses = after.disk.uses.saturating_sub(before.disk.uses.max(1));
                if uses > 0 || after.disk.last_use > before.disk.last_use {
                    ledger.used(after.id, milliseconds(after.disk.last_use), uses);
                }
                if before.owner != after.owner {
                    ledger.owned(after.id, &applied.key, after.owner.as_deref());
                }
                if before.pinned_until != after.pinned_until {
                    pin(&mut ledger, after);
                }
            }
            None => insert(&mut ledger, &applied.key, after),
        }
    }
}

fn insert(ledger: &mut Ledger, key: &CacheKey, record: &Record) {
    let disk = &record.disk;
    ledger.insert(record.id, key, disk.volume, disk.present_bytes, milliseconds(disk.last_use), disk.uses);
    if record.owner.is_some() {
        ledger.owned(record.id, key, record.owner.as_deref());
    }
    pin(ledger, record);
}

fn pin(ledger: &mut Ledger, record: &Record) {
    match record.pinned_until {
        // An old pin ends when the next purge begins.
        Some(until) => ledger.pin(record.id, until),
        None => ledger.unpin(record.id),
    }
}

/// Saturates: a damaged record may hold any time.
pub(crate) const fn milliseconds(seconds: i64) -> i64 {
    seconds.saturating_mul(1000)
}
