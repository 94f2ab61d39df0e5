//! Growth on disk that the index has not reported yet.

use super::Footprint;
use crate::{CacheKey, Partition};
use std::collections::{BTreeMap, btree_map::Entry};

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

    pub(crate) fn gone(&mut self, key: &CacheKey) {
        if let Some(growth) = self.growths.remove(key) {
            *self.sums.entry(growth.partition).or_default() -= growth.counted;
        }
    }

    pub(crate) fn sum(&self, is_wanted: impl Fn(Partition) -> bool) -> Footprint {
        self.sums.iter().filter(|(partition, _)| is_wanted(**partition)).map(|(_, sum)| *sum).sum()
    }
}
