//! The entries of each shelf in the order in which they go.

use super::{Shelf, entries::Slot};
use std::collections::{BTreeMap, BTreeSet};

/// One queue for each shelf: slots by rank, the lowest first.
#[derive(Debug, Default)]
pub(crate) struct Shelves {
    queues: BTreeMap<Shelf, BTreeSet<(u64, Slot)>>,
}

impl Shelves {
    pub(crate) fn add(&mut self, shelf: Shelf, rank: u64, slot: Slot) {
        self.queues.entry(shelf).or_default().insert((rank, slot));
    }

    pub(crate) fn take(&mut self, shelf: Shelf, rank: u64, slot: Slot) {
        if let Some(queue) = self.queues.get_mut(&shelf) {
            queue.remove(&(rank, slot));
        }
    }

    pub(crate) fn first(&self, shelf: Shelf) -> Option<(u64, Slot)> {
        self.queues.get(&shelf)?.first().copied()
    }

    /// The first slot of each shelf.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = (u64, Slot)> + '_ {
        self.queues.values().filter_map(|queue| queue.first().copied())
    }
}

/// A rank that orders like the time.
pub(crate) const fn rank_of_time(time_ms: i64) -> u64 {
    time_ms.cast_unsigned() ^ (1 << 63)
}
