//! The entries of each partition in the order in which they go.

use super::{Partition, entries::Slot};
use std::collections::{BTreeMap, BTreeSet};

/// One queue for each partition: slots by rank, the lowest first.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    queues: BTreeMap<Partition, BTreeSet<(u64, Slot)>>,
}

impl Partitions {
    pub(crate) fn add(&mut self, partition: Partition, rank: u64, slot: Slot) {
        self.queues.entry(partition).or_default().insert((rank, slot));
    }

    pub(crate) fn take(&mut self, partition: Partition, rank: u64, slot: Slot) {
        if let Some(queue) = self.queues.get_mut(&partition) {
            queue.remove(&(rank, slot));
        }
    }

    pub(crate) fn first(&self, partition: Partition) -> Option<(u64, Slot)> {
        self.queues.get(&partition)?.first().copied()
    }

    pub(crate) fn firsts(&self) -> impl Iterator<Item = (u64, Slot)> + '_ {
        self.queues.values().filter_map(|queue| queue.first().copied())
    }
}

pub(crate) const fn rank_of_time(time_ms: i64) -> u64 {
    time_ms.cast_unsigned() ^ (1 << 63)
}
