//! The plan of a purge, as a value.

use super::{Expiry, Footprint, Ledger};
use crate::{CacheKey, Policy};
use forebay_types::{Lfn, PurgeReason, Share};
use std::time::Duration;

/// How the cache is kept within bounds.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PurgeRules {
    pub policy: Policy,
    pub bytes: Budget,
    pub inodes: Budget,
    /// Bytes of each file system that must stay free.
    pub free_min: Option<Mark>,
    /// Entries that were not used for longer than this go, however much room there is, unless a rule on expiry is for them.
    pub age_max: Option<Duration>,
    /// Rules on expiry, at most [`EXPIRIES_MAX`](super::EXPIRIES_MAX) of them; the first one that matches counts.
    pub expiries: Vec<Expiry>,
    /// Parts of the name space with bounds of their own; no two have one path.
    pub quotas: Vec<Quota>,
}

/// How many bytes or inodes may be used.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Budget {
    /// Limit for all entries together. `None`: the marks apply to each file system, with everything else on it.
    pub total: Option<u64>,
    /// When a purge begins, and where it ends.
    pub marks: Marks,
}

/// Use above which a purge begins, and below which it does not go. The low one is not above the high one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Marks {
    pub high: Mark,
    pub low: Mark,
}

/// An amount of bytes or inodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mark {
    Share(Share),
    Amount(u64),
}

impl Mark {
    /// The amount, of `total`.
    pub fn of(self, total: u64) -> u64 {
        match self {
            Self::Share(share) => share.of(total),
            Self::Amount(amount) => amount.min(total),
        }
    }
}

impl Default for Marks {
    fn default() -> Self {
        Self { high: Mark::Share(Share::of_percent(95)), low: Mark::Share(Share::of_percent(90)) }
    }
}

/// Limit and guarantee for the entries at and below a path. The longest path that covers an entry is the one
/// it counts for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Quota {
    /// The entries at and below this path.
    pub path: Lfn,
    /// Bytes that other entries' need for room does not take from these; 0 guarantees nothing.
    pub min_bytes: u64,
    /// Bytes that they may take; `None` for as much as there is.
    pub max_bytes: Option<u64>,
}

/// The file system of one disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DiskSpace {
    pub disk: u16,
    pub bytes: Extent,
    /// Its inodes; `None` when the file system makes them as needed.
    pub inodes: Option<Extent>,
}

/// How much there is of something, and how much of it is used, by the cache or others.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Extent {
    pub total: u64,
    pub used: u64,
}

/// An amount that a purge has to free.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Goal {
    pub scope: Scope,
    pub reason: PurgeReason,
    /// Both amounts must be freed.
    pub to_free: Footprint,
}

/// A part of the cache in which victims are sought.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    All,
    Disk(u16),
    /// In the quota of this number, down to nothing if need be. In the other scopes no quota falls below its guarantee.
    Quota(u16),
}

/// How much may be added to the cache.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Headroom {
    pub until_purge: Footprint,
    /// Before nothing may be kept: all of the budget is used, or no more is free on a file system than must be.
    pub until_full: Footprint,
}

impl Default for Headroom {
    fn default() -> Self {
        let unlimited = Footprint { bytes: u64::MAX, inodes: u64::MAX };
        Self { until_purge: unlimited, until_full: unlimited }
    }
}

/// The part of all entries that goes when a disk is unexpectedly full.
const FULL_DISK_PART: u64 = 50;

/// Share of a disk that entries never take, so that records, the index and temporary files can be written for a purge.
const MARGIN_SHARE: u64 = 100;

/// Size of that share in bytes, at most.
const MARGIN_BYTES_MAX: u64 = 256 << 20;

/// Inodes of that share, at most.
const MARGIN_INODES_MAX: u64 = 4096;

/// Computes what has to go now: nothing if the list is empty.
pub fn plan_purge(rules: &PurgeRules, disks: &[DiskSpace], ledger: &Ledger) -> Vec<Goal> {
    let used = ledger.usage();
    let bytes = |scope, reason, bytes| Goal { scope, reason, to_free: Footprint { bytes, inodes: 0 } };
    let inodes = |scope, inodes| Goal { scope, reason: PurgeReason::Inodes, to_free: Footprint { bytes: 0, inodes } };
    let mut goals = Vec::new();
    for (number, quota) in (0..).zip(&rules.quotas) {
        let used = ledger.quota_usage(number).bytes;
        let over = quota.max_bytes.filter(|&max| used > max).map(|max| used - Quota::low_bytes(max));
        goals.extend(over.map(|over| bytes(Scope::Quota(number), PurgeReason::Quota, over)));
    }
    for disk in disks {
        let scope = Scope::Disk(disk.disk);
        let short =
            rules.free_min.map_or(0, |free_min| free_min.of(disk.bytes.total).saturating_sub(disk.bytes.free()));
        goals.push(bytes(scope, PurgeReason::FreeMin, short));
        // The margin counts whatever the marks and the budget: nothing more is kept at it, so no other goal would end that.
        let excess = |extent: Extent, budget: &Budget, margin_max| {
            let over_marks = if budget.total.is_none() { extent.excess(budget.marks) } else { 0 };
            over_marks.max(extent.short_of_margin(margin_max))
        };
        goals.push(bytes(scope, PurgeReason::Space, excess(disk.bytes, &rules.bytes, MARGIN_BYTES_MAX)));
        if let Some(extent) = disk.inodes {
            goals.push(inodes(scope, excess(extent, &rules.inodes, MARGIN_INODES_MAX)));
        }
    }
    if let Some(total) = rules.bytes.total {
        let extent = Extent { total, used: used.bytes };
        goals.push(bytes(Scope::All, PurgeReason::Space, extent.excess(rules.bytes.marks)));
    }
    if let Some(total) = rules.inodes.total {
        goals.push(inodes(Scope::All, Extent { total, used: used.inodes }.excess(rules.inodes.marks)));
    }
    goals.retain(|goal| !goal.to_free.is_zero());
    goals
}

/// Plans a purge that leaves `share` of the space that all entries use now. Other data on the disks does not count.
pub fn plan_purge_to(share: Share, ledger: &Ledger) -> Vec<Goal> {
    let used = ledger.usage().bytes;
    let to_free = Footprint { bytes: used.saturating_sub(share.of(used)), inodes: 0 };
    if to_free.is_zero() {
        return Vec::new();
    }
    vec![Goal { scope: Scope::All, reason: PurgeReason::Requested, to_free }]
}

/// Computes what has to go when a disk reports that it is full although no mark is passed: a fiftieth of its entries, or of all if it is not
/// known which disk it is.
pub fn plan_purge_of_full_disk(ledger: &Ledger, disk: Option<u16>) -> Option<Goal> {
    let (scope, used) = match disk {
        Some(disk) => (Scope::Disk(disk), ledger.disk_usage(disk)),
        None => (Scope::All, ledger.usage()),
    };
    let to_free = Footprint { bytes: used.bytes / FULL_DISK_PART, inodes: 0 };
    (to_free.bytes > 0).then_some(Goal { scope, reason: PurgeReason::Space, to_free })
}

/// How much may be added before a purge is due, and before nothing may be kept.
pub fn headroom(rules: &PurgeRules, disks: &[DiskSpace], ledger: &Ledger) -> Headroom {
    const ANY: Footprint = Footprint { bytes: u64::MAX, inodes: u64::MAX };
    let used = ledger.usage();
    let mut room = Headroom { until_purge: ANY, until_full: ANY };
    let until = |room: &mut u64, left: u64| *room = left.min(*room);
    for disk in disks {
        if rules.bytes.total.is_none() {
            until(&mut room.until_purge.bytes, disk.bytes.left_to(rules.bytes.marks.high));
        }
        if let Some(free_min) = rules.free_min {
            let left = disk.bytes.free().saturating_sub(free_min.of(disk.bytes.total));
            until(&mut room.until_purge.bytes, left);
        }
        if let (None, Some(extent)) = (rules.inodes.total, disk.inodes) {
            until(&mut room.until_purge.inodes, extent.left_to(rules.inodes.marks.high));
        }
    }
    if !disks.is_empty() {
        // The cache is full when each of its disks is.
        room.until_full = disks.iter().fold(Footprint::ZERO, |sum, disk| sum + disk_headroom(rules, disk));
    }
    if let Some(total) = rules.bytes.total {
        let extent = Extent { total, used: used.bytes };
        until(&mut room.until_purge.bytes, extent.left_to(rules.bytes.marks.high));
        until(&mut room.until_full.bytes, extent.free());
    }
    if let Some(total) = rules.inodes.total {
        let extent = Extent { total, used: used.inodes };
        until(&mut room.until_purge.inodes, extent.left_to(rules.inodes.marks.high));
        until(&mut room.until_full.inodes, extent.free());
    }
    room
}

/// How much may be added to one disk before nothing more may be kept there.
pub fn disk_headroom(rules: &PurgeRules, disk: &DiskSpace) -> Footprint {
    let free_min = rules.free_min.map_or(0, |free_min| free_min.of(disk.bytes.total));
    let left = |extent: Extent, kept_free: u64| extent.free().saturating_sub(kept_free);
    Footprint {
        bytes: left(disk.bytes, disk.bytes.margin(MARGIN_BYTES_MAX).max(free_min)),
        inodes: disk.inodes.map_or(u64::MAX, |extent| left(extent, extent.margin(MARGIN_INODES_MAX))),
    }
}

impl Extent {
    pub const fn free(self) -> u64 {
        self.total.saturating_sub(self.used)
    }

    /// The amount that entries leave free.
    fn margin(self, max: u64) -> u64 {
        (self.total / MARGIN_SHARE).min(max)
    }

    /// The amount that has to go where entries have reached the margin, so that twice the margin is free.
    fn short_of_margin(self, max: u64) -> u64 {
        let margin = self.margin(max);
        if self.free() <= margin { (2 * margin).saturating_sub(self.free()) } else { 0 }
    }

    /// The amount above the low mark, if the high one is passed.
    fn excess(self, marks: Marks) -> u64 {
        let low = marks.low.of(self.total);
        if self.used > marks.high.of(self.total) { self.used.saturating_sub(low) } else { 0 }
    }

    fn left_to(self, mark: Mark) -> u64 {
        mark.of(self.total).saturating_sub(self.used)
    }
}

impl Quota {
    /// The part of its maximum down to which an exceeded quota is brought: nineteen twentieths, so that one purge gives room
    /// for many files.
    pub(crate) const fn low_bytes(max_bytes: u64) -> u64 {
        max_bytes - max_bytes / 20
    }

    fn covers(&self, key: &CacheKey) -> bool {
        let path = self.path.as_str();
        path == "/" || key.as_str().strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// The number of the quota that `key` counts for.
pub(crate) fn quota_of(quotas: &[Quota], key: &CacheKey) -> Option<u16> {
    let covering = quotas.iter().enumerate().filter(|(_, quota)| quota.covers(key));
    let (index, _) = covering.max_by_key(|(_, quota)| quota.path.as_str().len())?;
    u16::try_from(index).ok()
}
