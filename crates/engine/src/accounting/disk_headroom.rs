//! How much may still be kept: asked and counted on the way of every write, without a lock.

use forebay_cache::{Footprint, Headroom};
use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Release},
};

/// Counts additions since the start, and the sums at which a purge is due and at which nothing more is kept.
#[derive(Debug)]
pub(crate) struct DiskHeadroom {
    bytes: Gauge,
    inodes: Gauge,
}

#[derive(Debug)]
struct Gauge {
    added: AtomicU64,
    purge_at: AtomicU64,
    full_at: AtomicU64,
}

impl Default for DiskHeadroom {
    /// Without limits, until they are measured.
    fn default() -> Self {
        Self { bytes: Gauge::unlimited(), inodes: Gauge::unlimited() }
    }
}

impl DiskHeadroom {
    /// Counts what was added; whether a purge is due.
    pub(crate) fn add(&self, added: Footprint) -> bool {
        let bytes = self.bytes.add(added.bytes);
        let inodes = self.inodes.add(added.inodes);
        bytes || inodes
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.is_full() || self.inodes.is_full()
    }

    /// Everything added so far; read it before the measurement that [`Self::set`] gets.
    pub(crate) fn added(&self) -> Footprint {
        Footprint { bytes: self.bytes.added.load(Acquire), inodes: self.inodes.added.load(Acquire) }
    }

    /// There is this much room, beginning when `added` had been added.
    pub(crate) fn set(&self, added: Footprint, headroom: &Headroom) {
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

    const fn of(bytes: u64, inodes: u64) -> Footprint {
        Footprint { bytes, inodes }
    }

    #[test]
    fn a_purge_is_due_above_its_mark_and_nothing_is_kept_at_the_limit() {
        let room = DiskHeadroom::default();
        assert!(!room.add(of(1 << 40, 1 << 40)) && !room.is_full());
        room.set(room.added(), &Headroom { until_purge: of(100, 10), until_full: of(150, 20) });
        assert!(!room.add(of(100, 0)));
        assert!(room.add(of(1, 0)) && !room.is_full());
        assert!(room.add(of(49, 0)) && room.is_full());
        room.set(room.added(), &Headroom { until_purge: of(u64::MAX, 10), until_full: of(u64::MAX, 20) });
        assert!(!room.add(of(1000, 10)) && !room.is_full());
        assert!(room.add(of(0, 1)));
        assert!(room.add(of(0, 9)) && room.is_full());
    }

    #[test]
    fn what_was_added_during_a_measurement_counts() {
        let room = DiskHeadroom::default();
        let before = room.added();
        room.add(of(60, 2));
        room.set(before, &Headroom { until_purge: of(50, 10), until_full: of(100, 20) });
        assert!(room.add(of(1, 0)));
    }
}
