//! S3-FIFO: a small queue for what was used once, a main queue for the rest, and a memory of what went.

use super::entries::{Entries, Facts, NewEntry, Partition, Partitions, Queue, Replacement, Slot, rank_of_time};
use crate::EntryId;
use std::collections::{BTreeMap, HashSet, VecDeque};

#[derive(Debug, Default)]
pub(crate) struct S3Fifo {
    entries: Entries,
    small: Partitions,
    main: Partitions,
    bytes: BTreeMap<Partition, Bytes>,
    ghosts: Ghosts,
    /// The latest time seen, in milliseconds: entries that are spared go after all others.
    latest_ms: i64,
}

/// Bytes in the queues of a partition.
#[derive(Debug, Default)]
struct Bytes {
    small: u64,
    main: u64,
}

/// Hashes of the keys of entries that went from a small queue, the oldest first.
#[derive(Debug, Default)]
struct Ghosts {
    order: VecDeque<u32>,
    known: HashSet<u32>,
}

/// Uses that are counted: an entry is spared as many times.
const USES_MAX: u8 = 3;

/// The small queue has this part of a partition's bytes, one tenth: what the authors of S3-FIFO recommend.
const SMALL_PART: u64 = 10;

/// Ghosts that are remembered however few entries there are.
const GHOSTS_MIN: usize = 1024;

impl Ghosts {
    fn add(&mut self, key_hash: u32, count_max: usize) {
        if self.known.insert(key_hash) {
            self.order.push_back(key_hash);
        }
        while self.order.len() > count_max.max(GHOSTS_MIN) {
            let Some(oldest) = self.order.pop_front() else { break };
            self.known.remove(&oldest);
        }
    }

    fn knows(&self, key_hash: u32) -> bool {
        self.known.contains(&key_hash)
    }
}

impl S3Fifo {
    fn link(&mut self, slot: Slot, queue: Queue, time_ms: i64) {
        let Some(record) = self.entries.get_mut(slot) else { return };
        (record.queue, record.rank) = (queue, rank_of_time(time_ms));
        let bytes = self.bytes.entry(record.facts.partition).or_default();
        let (partitions, sum) =
            if queue == Queue::Small { (&mut self.small, &mut bytes.small) } else { (&mut self.main, &mut bytes.main) };
        partitions.add(record.facts.partition, record.rank, slot);
        *sum = sum.saturating_add(record.facts.bytes);
    }

    /// Takes an entry out of its queue; which one that was.
    fn unlink(&mut self, slot: Slot) -> Queue {
        let Some(record) = self.entries.get_mut(slot) else { return Queue::Parked };
        let bytes = self.bytes.entry(record.facts.partition).or_default();
        let (partitions, sum) = match record.queue {
            Queue::Parked => return Queue::Parked,
            Queue::Small => (&mut self.small, &mut bytes.small),
            Queue::Main => (&mut self.main, &mut bytes.main),
        };
        partitions.take(record.facts.partition, record.rank, slot);
        *sum = sum.saturating_sub(record.facts.bytes);
        std::mem::replace(&mut record.queue, Queue::Parked)
    }

    /// The entry of a partition to go next; those on the way to it that were used meanwhile are moved on.
    fn next_of(&mut self, partition: Partition) -> Option<Slot> {
        loop {
            let bytes = self.bytes.get(&partition)?;
            let is_small_full = bytes.small.saturating_mul(SMALL_PART) >= bytes.small.saturating_add(bytes.main);
            let small = self.small.first(partition);
            let main = self.main.first(partition);
            let (_, slot) = if is_small_full { small.or(main) } else { main.or(small) }?;
            let record = self.entries.get_mut(slot)?;
            match record.queue {
                Queue::Small if record.uses > 1 => record.uses = 0,
                Queue::Main if record.uses > 0 => record.uses -= 1,
                Queue::Parked | Queue::Small | Queue::Main => return Some(slot),
            }
            self.unlink(slot);
            self.link(slot, Queue::Main, self.latest_ms);
        }
    }
}

impl Replacement for S3Fifo {
    fn entries(&self) -> &Entries {
        &self.entries
    }

    fn entries_mut(&mut self) -> &mut Entries {
        &mut self.entries
    }

    fn insert(&mut self, entry: NewEntry) {
        let is_known = entry.uses > 1 || self.ghosts.knows(entry.key_hash);
        let time_ms = entry.facts.last_use_ms;
        let queue = if is_known { Queue::Main } else { Queue::Small };
        self.latest_ms = self.latest_ms.max(time_ms);
        if let Some(slot) = self.entries.insert(entry, 0) {
            self.link(slot, queue, time_ms);
        }
    }

    fn used(&mut self, id: EntryId, now_ms: i64, times: u64) {
        self.latest_ms = self.latest_ms.max(now_ms);
        let Some(slot) = self.entries.slot(id) else { return };
        let Some(record) = self.entries.get_mut(slot) else { return };
        record.uses = record.uses.saturating_add(u8::try_from(times).unwrap_or(u8::MAX)).min(USES_MAX);
        record.facts.last_use_ms = record.facts.last_use_ms.max(now_ms);
    }

    fn resized(&mut self, id: EntryId, bytes: u64) {
        let Some(slot) = self.entries.slot(id) else { return };
        let Some(record) = self.entries.get_mut(slot) else { return };
        let before = std::mem::replace(&mut record.facts.bytes, bytes);
        let sums = self.bytes.entry(record.facts.partition).or_default();
        let sum = match record.queue {
            Queue::Parked => return,
            Queue::Small => &mut sums.small,
            Queue::Main => &mut sums.main,
        };
        *sum = sum.saturating_sub(before).saturating_add(bytes);
    }

    fn next(&mut self, may_go: &dyn Fn(&Facts) -> bool) -> Option<Facts> {
        let partitions: Vec<Partition> = self.bytes.keys().copied().collect();
        let mut next: Option<Facts> = None;
        for partition in partitions {
            let candidate = self.next_of(partition).and_then(|slot| self.entries.get(slot)).map(|record| record.facts);
            // Between partitions, the one whose candidate was not used for longer.
            next = match (next, candidate.filter(|facts| may_go(facts))) {
                (Some(next), Some(other)) if other.last_use_ms >= next.last_use_ms => Some(next),
                (next, None) => next,
                (_, other) => other,
            };
        }
        next
    }

    fn withdraw(&mut self, slot: Slot) {
        // Entries that leave the small queue are remembered.
        if self.unlink(slot) == Queue::Small
            && let Some(record) = self.entries.get(slot)
        {
            self.ghosts.add(record.key_hash, self.entries.len());
        }
    }

    fn readmit(&mut self, slot: Slot) {
        let Some(record) = self.entries.get(slot) else { return };
        self.link(slot, Queue::Main, record.facts.last_use_ms);
    }
}
