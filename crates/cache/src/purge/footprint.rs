//! The room that entries take on disk, also that which the index has not reported yet.

use crate::{CacheKey, replacement::Partition};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::{Add, AddAssign, Sub, SubAssign},
};

/// Room on a disk: bytes and inodes. Sums and differences end at the largest number and at 0.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Footprint {
    pub bytes: u64,
    pub inodes: u64,
}

/// Unit in which file systems give room, in bytes.
const UNIT: u64 = 4096;

/// Bytes that the record of an entry takes.
const CINFO_BYTES: u64 = UNIT;

const ENTRY_INODES: u64 = 2;

impl Footprint {
    pub const ZERO: Self = Self { bytes: 0, inodes: 0 };

    /// The room of an entry with `present_bytes` on disk: computed from its record, so that it is the same after a restart.
    pub const fn of_entry(present_bytes: u64) -> Self {
        let data = match present_bytes.checked_next_multiple_of(UNIT) {
            Some(bytes) => bytes,
            None => u64::MAX,
        };
        Self { bytes: data.saturating_add(CINFO_BYTES), inodes: ENTRY_INODES }
    }

    /// The room of an entry whose bytes, computed as above, are `bytes`.
    pub(crate) const fn of_facts(bytes: u64) -> Self {
        Self { bytes, inodes: ENTRY_INODES }
    }

    pub const fn is_zero(self) -> bool {
        self.bytes == 0 && self.inodes == 0
    }
}

impl Add for Footprint {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), inodes: self.inodes.saturating_add(other.inodes) }
    }
}

impl Sub for Footprint {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_sub(other.bytes), inodes: self.inodes.saturating_sub(other.inodes) }
    }
}

impl AddAssign for Footprint {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Footprint {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl std::iter::Sum for Footprint {
    fn sum<I: Iterator<Item = Self>>(footprints: I) -> Self {
        footprints.fold(Self::ZERO, Add::add)
    }
}

/// Entries that have grown since they were last reported, or were never reported.
#[derive(Debug, Default)]
pub(crate) struct Unaccounted {
    growths: BTreeMap<CacheKey, Growth>,
    sums: BTreeMap<Partition, Footprint>,
}

/// Bytes of an entry that are there.
#[derive(Clone, Copy, Debug)]
struct Growth {
    partition: Partition,
    /// As last reported; `None` for never.
    reported: Option<u64>,
    now: u64,
    counted: Footprint,
}

/// Entries remembered at most. There are so many only while the index reports nothing for long.
const GROWTHS_MAX: usize = 100_000;

impl Growth {
    fn count(&mut self, sums: &mut BTreeMap<Partition, Footprint>) {
        let sum = sums.entry(self.partition).or_default();
        *sum -= self.counted;
        self.counted = Footprint::of_entry(self.now) - self.reported.map_or(Footprint::ZERO, Footprint::of_entry);
        *sum += self.counted;
    }
}

impl Unaccounted {
    pub(crate) fn grew(&mut self, key: &CacheKey, partition: Partition, before: Option<u64>, now: u64) {
        let is_full = self.growths.len() >= GROWTHS_MAX;
        let growth = match self.growths.entry(key.clone()) {
            Entry::Occupied(growth) => growth.into_mut(),
            Entry::Vacant(_) if is_full => return,
            Entry::Vacant(place) => place.insert(Growth { partition, reported: before, now, counted: Footprint::ZERO }),
        };
        if before.is_none() {
            // A new entry in place of an old one.
            growth.reported = None;
        }
        growth.now = now;
        growth.count(&mut self.sums);
    }

    /// The index has reported that the entry has `present_bytes`.
    pub(crate) fn note_reported(&mut self, key: &CacheKey, present_bytes: u64) {
        let Some(growth) = self.growths.get_mut(key) else { return };
        growth.reported = Some(present_bytes);
        growth.count(&mut self.sums);
        if growth.now <= present_bytes {
            self.growths.remove(key);
        }
    }

    /// The entry is gone; returns the room that was counted for it here.
    pub(crate) fn gone(&mut self, key: &CacheKey) -> Footprint {
        let Some(growth) = self.growths.remove(key) else { return Footprint::ZERO };
        *self.sums.entry(growth.partition).or_default() -= growth.counted;
        growth.counted
    }

    /// Nothing of what was noted for a disk will be reported any more.
    pub(crate) fn forget_disk(&mut self, disk: u16) {
        self.growths.retain(|_, growth| growth.partition.disk != disk);
        self.sums.retain(|partition, _| partition.disk != disk);
    }

    pub(crate) fn sum(&self, is_wanted: impl Fn(Partition) -> bool) -> Footprint {
        self.sums.iter().filter(|(partition, _)| is_wanted(**partition)).map(|(_, sum)| *sum).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_take_whole_units_and_a_record() {
        for (present_bytes, bytes) in [(0, 4096), (1, 8192), (4096, 8192), (4097, 12288), (u64::MAX, u64::MAX)] {
            assert_eq!(Footprint::of_entry(present_bytes), Footprint { bytes, inodes: 2 }, "{present_bytes}");
        }
    }
}
