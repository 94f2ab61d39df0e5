//! Growth on disk that the index has not reported yet.

use super::Footprint;
use crate::{CacheKey, Shelf};
use std::collections::{BTreeMap, btree_map::Entry};

/// Entries that have grown since they were last reported, or were never reported.
#[derive(Debug, Default)]
pub(crate) struct Untold {
    growths: BTreeMap<CacheKey, Growth>,
    sums: BTreeMap<Shelf, Footprint>,
}

/// Bytes of an entry that are there.
#[derive(Clone, Copy, Debug)]
struct Growth {
    shelf: Shelf,
    /// As last reported; `None` for never.
    told: Option<u64>,
    now: u64,
    /// The part that the sums contain.
    counted: Footprint,
}

/// Entries remembered at most. There are so many only while the index reports nothing for long.
const GROWTHS_MAX: usize = 100_000;

impl Growth {
    /// Brings the sums up to date.
    fn count(&mut self, sums: &mut BTreeMap<Shelf, Footprint>) {
        let sum = sums.entry(self.shelf).or_default();
        *sum -= self.counted;
        self.counted = Footprint::of_entry(self.now) - self.told.map_or(Footprint::ZERO, Footprint::of_entry);
        *sum += self.counted;
    }
}

impl Untold {
    pub(crate) fn grew(&mut self, key: &CacheKey, shelf: Shelf, before: Option<u64>, now: u64) {
        let is_full = self.growths.len() >= GROWTHS_MAX;
        let growth = match self.growths.entry(key.clone()) {
            Entry::Occupied(growth) => growth.into_mut(),
            Entry::Vacant(_) if is_full => return,
            Entry::Vacant(place) => place.insert(Growth { shelf, told: before, now, counted: Footprint::ZERO }),
        };
        if before.is_none() {
            // A new entry in place of an old one.
            growth.told = None;
        }
        growth.now = now;
        growth.count(&mut self.sums);
    }

    /// The index has reported that the entry has `present_bytes`.
    pub(crate) fn told(&mut self, key: &CacheKey, present_bytes: u64) {
        let Some(growth) = self.growths.get_mut(key) else { return };
        growth.told = Some(present_bytes);
        growth.count(&mut self.sums);
        if growth.now <= present_bytes {
            self.growths.remove(key);
        }
    }

    pub(crate) fn gone(&mut self, key: &CacheKey) {
        if let Some(growth) = self.growths.remove(key) {
            *self.sums.entry(growth.shelf).or_default() -= growth.counted;
        }
    }

    pub(crate) fn sum(&self, is_wanted: impl Fn(Shelf) -> bool) -> Footprint {
        self.sums.iter().filter(|(shelf, _)| is_wanted(**shelf)).map(|(_, sum)| *sum).sum()
    }
}
