//! How much may still be kept: asked and counted on the way of every write, without a lock.

use forebay_cache::{DiskSpace, Footprint, Headroom, PurgeRules, disk_headroom};
use forebay_store::VolumeId;
use std::{
    collections::BTreeMap,
    sync::atomic::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Release},
    },
    time::{Duration, Instant},
};

/// Counts additions since the start, and the sums at which a purge is due and at which nothing more is kept: of the whole cache,
/// and of each disk.
#[derive(Debug)]
pub(crate) struct DiskHeadroom {
    all: Gauges,
    disks: BTreeMap<VolumeId, OneDisk>,
}

/// A disk, full or not whatever the others are.
#[derive(Debug)]
struct OneDisk {
    gauges: Gauges,
    total_bytes: AtomicU64,
}

#[derive(Debug)]
struct Gauges {
    bytes: Gauge,
    inodes: Gauge,
}

#[derive(Debug)]
struct Gauge {
    added: AtomicU64,
    purge_at: AtomicU64,
    full_at: AtomicU64,
}

/// The bytes and inodes that were added before a measurement began.
#[derive(Clone)]
pub(crate) struct Added {
    all: Footprint,
    disks: BTreeMap<VolumeId, Footprint>,
}

impl DiskHeadroom {
    /// Without limits, until they are measured.
    pub(crate) fn new(disks: impl IntoIterator<Item = VolumeId>) -> Self {
        let unlimited = || OneDisk { gauges: Gauges::unlimited(), total_bytes: AtomicU64::new(u64::MAX) };
        Self { all: Gauges::unlimited(), disks: disks.into_iter().map(|disk| (disk, unlimited())).collect() }
    }

    /// Counts what was added to `disk`; whether a purge is due.
    pub(crate) fn add(&self, disk: VolumeId, added: Footprint) -> bool {
        if let Some(disk) = self.disks.get(&disk) {
            disk.gauges.add(added);
        }
        self.all.add(added)
    }

    /// Whether nothing may be kept on `disk`.
    pub(crate) fn is_full(&self, disk: VolumeId) -> bool {
        self.all.is_full() || self.disks.get(&disk).is_some_and(|disk| disk.gauges.is_full())
    }

    /// Whether nothing may be kept on any disk.
    pub(crate) fn is_full_everywhere(&self) -> bool {
        self.all.is_full() || (!self.disks.is_empty() && self.disks.values().all(|disk| disk.gauges.is_full()))
    }

    /// Size of `disk` in bytes; the largest number before it was measured.
    pub(crate) fn total_bytes(&self, disk: VolumeId) -> u64 {
        self.disks.get(&disk).map_or(u64::MAX, |disk| disk.total_bytes.load(Acquire))
    }

    /// Everything added so far; read it before the measurement that [`Self::set`] gets.
    pub(crate) fn added(&self) -> Added {
        let disks = self.disks.iter().map(|(id, disk)| (*id, disk.gauges.added())).collect();
        Added { all: self.all.added(), disks }
    }

    /// There is `room` in the cache, and on each of `disks` what is left there, beginning when `added` had been added.
    pub(crate) fn set(&self, added: &Added, room: &Headroom, rules: &PurgeRules, disks: &[DiskSpace]) {
        self.all.set(added.all, room);
        for space in disks {
            let id = VolumeId(space.disk);
            let Some((disk, added)) = self.disks.get(&id).zip(added.disks.get(&id)) else { continue };
            let until_purge = Footprint { bytes: u64::MAX, inodes: u64::MAX };
            disk.gauges.set(*added, &Headroom { until_purge, until_full: disk_headroom(rules, space) });
            disk.total_bytes.store(space.bytes.total, Release);
        }
    }
}

impl Added {
    /// Bytes that were added to `disk` since `before`.
    pub(crate) fn bytes_since(&self, before: &Self, disk: VolumeId) -> u64 {
        let bytes = |added: &Self| added.disks.get(&disk).map_or(0, |added| added.bytes);
        bytes(self).saturating_sub(bytes(before))
    }
}

/// How far ahead a purge looks: about as long as it takes to remove what is written meanwhile.
const LEAD: Duration = Duration::from_secs(2);

/// Share of a disk that is expected to be filled in that time, at most.
const LEAD_SHARE: u64 = 20;

/// The rate at which disks were filled between the last two measurements.
#[derive(Default)]
pub(crate) struct FillRate {
    last: Option<(Instant, Added)>,
    /// Bytes that each disk will get in the time that a purge takes, at this rate.
    expected: BTreeMap<u16, u64>,
}

impl FillRate {
    /// Notes a measurement; the most that is expected on any disk, in bytes.
    pub(crate) fn update(&mut self, added: &Added, disks: &[DiskSpace]) -> u64 {
        let now = forebay_net::clock::monotonic();
        let Some((then, before)) = self.last.replace((now, added.clone())) else { return 0 };
        let elapsed = now.saturating_duration_since(then).max(LEAD);
        let expected = |disk: &DiskSpace| {
            let written = u128::from(added.bytes_since(&before, VolumeId(disk.disk)));
            let expected = u64::try_from(written * LEAD.as_millis() / elapsed.as_millis()).unwrap_or(u64::MAX);
            (disk.disk, expected.min(disk.bytes.total / LEAD_SHARE))
        };
        self.expected = disks.iter().map(expected).collect();
        self.expected.values().copied().max().unwrap_or(0)
    }

    /// The disks as they will be after the time that a purge takes.
    pub(crate) fn after_lead(&self, disks: &[DiskSpace]) -> Vec<DiskSpace> {
        let mut disks = disks.to_vec();
        for disk in &mut disks {
            let expected = self.expected.get(&disk.disk).copied().unwrap_or(0);
            disk.bytes.used = disk.bytes.used.saturating_add(expected).min(disk.bytes.total);
        }
        disks
    }
}

impl Gauges {
    const fn unlimited() -> Self {
        Self { bytes: Gauge::unlimited(), inodes: Gauge::unlimited() }
    }

    fn add(&self, added: Footprint) -> bool {
        let bytes = self.bytes.add(added.bytes);
        let inodes = self.inodes.add(added.inodes);
        bytes || inodes
    }

    fn is_full(&self) -> bool {
        self.bytes.is_full() || self.inodes.is_full()
    }

    fn added(&self) -> Footprint {
        Footprint { bytes: self.bytes.added.load(Acquire), inodes: self.inodes.added.load(Acquire) }
    }

    fn set(&self, added: Footprint, headroom: &Headroom) {
        self.bytes.set(added.bytes, headroom.until_purge.bytes, headroom.until_full.bytes);
        self.inodes.set(added.inodes, headroom.until_purge.inodes, headroom.until_full.inodes);
    }
}

impl Gauge {
    const fn unlimited() -> Self {
        Self { added: AtomicU64::new(0), purge_at: AtomicU64::new(u64::MAX), full_at: AtomicU64::new(u64::MAX) }
    }

    fn add(&self, amount: u64) -> bool {
        // Add first, compare after: two writers at once cannot both pass below the mark.
        let added = self.added.fetch_add(amount, AcqRel).saturating_add(amount);
        added > self.purge_at.load(Acquire)
    }

    fn is_full(&self) -> bool {
        // Without a limit the sum must not count as full even if it saturates.
        let full_at = self.full_at.load(Acquire);
        full_at != u64::MAX && self.added.load(Acquire) >= full_at
    }

    fn set(&self, added: u64, until_purge: u64, until_full: u64) {
        // `added` was read before the measurement: writes during it count twice, as measured and as added, so the
        // limits come too early rather than too late.
        self.purge_at.store(added.saturating_add(until_purge), Release);
        self.full_at.store(added.saturating_add(until_full), Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_cache::Extent;

    const FIRST: VolumeId = VolumeId(0);
    const SECOND: VolumeId = VolumeId(1);

    const fn of(bytes: u64, inodes: u64) -> Footprint {
        Footprint { bytes, inodes }
    }

    fn set(room: &DiskHeadroom, until_purge: Footprint, until_full: Footprint, disks: &[DiskSpace]) {
        room.set(&room.added(), &Headroom { until_purge, until_full }, &PurgeRules::default(), disks);
    }

    #[test]
    fn a_purge_is_due_above_its_mark_and_nothing_is_kept_at_the_limit() {
        let room = DiskHeadroom::new([FIRST]);
        let is_full = || room.is_full(FIRST);
        assert!(!room.add(FIRST, of(1 << 40, 1 << 40)) && !is_full());
        set(&room, of(100, 10), of(150, 20), &[]);
        assert!(!room.add(FIRST, of(100, 0)));
        assert!(room.add(FIRST, of(1, 0)) && !is_full());
        assert!(room.add(FIRST, of(49, 0)) && is_full() && room.is_full_everywhere());
        set(&room, of(u64::MAX, 10), of(u64::MAX, 20), &[]);
        assert!(!room.add(FIRST, of(1000, 10)) && !is_full());
        assert!(room.add(FIRST, of(0, 1)));
        assert!(room.add(FIRST, of(0, 9)) && is_full());
    }

    #[test]
    fn what_was_added_during_a_measurement_counts() {
        let room = DiskHeadroom::new([FIRST]);
        let before = room.added();
        room.add(FIRST, of(60, 2));
        assert_eq!(room.added().bytes_since(&before, FIRST), 60);
        let headroom = Headroom { until_purge: of(50, 10), until_full: of(100, 20) };
        room.set(&before, &headroom, &PurgeRules::default(), &[]);
        assert!(room.add(FIRST, of(1, 0)));
    }

    #[test]
    fn a_disk_is_full_for_itself_before_its_last_space_is_used() {
        let room = DiskHeadroom::new([FIRST, SECOND]);
        let any = of(u64::MAX, u64::MAX);
        let disk = |disk, used| DiskSpace { disk, bytes: Extent { total: 10_000, used }, inodes: None };
        set(&room, any, any, &[disk(0, 9_000), disk(1, 0)]);
        assert_eq!((room.total_bytes(FIRST), room.total_bytes(VolumeId(9))), (10_000, u64::MAX));
        room.add(FIRST, of(899, 1));
        assert!(!room.is_full(FIRST));
        room.add(FIRST, of(1, 0));
        assert!(room.is_full(FIRST) && !room.is_full(SECOND) && !room.is_full_everywhere());
        room.add(SECOND, of(9_900, 0));
        assert!(room.is_full_everywhere());
    }

    #[test]
    fn a_disk_that_is_filled_fast_is_purged_before_the_mark() {
        let room = DiskHeadroom::new([FIRST]);
        let disks = [DiskSpace { disk: 0, bytes: Extent { total: 1_000_000, used: 900_000 }, inodes: None }];
        let mut rate = FillRate::default();
        assert_eq!(rate.update(&room.added(), &disks), 0, "nothing is known of the time before");
        room.add(FIRST, of(30_000, 0));
        assert_eq!(rate.update(&room.added(), &disks), 30_000);
        assert_eq!(rate.after_lead(&disks).first().unwrap().bytes.used, 930_000);
        room.add(FIRST, of(1 << 40, 0));
        assert_eq!(rate.update(&room.added(), &disks), 50_000, "a twentieth of the disk at most");
        assert_eq!(rate.update(&room.added(), &disks), 0);
    }
}
