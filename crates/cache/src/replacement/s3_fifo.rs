//! S3-FIFO: a small queue for what was used once, a main queue for the rest, and a memory of what went.

use super::{
    entries::{Entries, Facts, NewEntry, NumberHash, Partition, Queue, Record, Replacement, Slot, Upkeep},
    line::Line,
};
use crate::EntryId;
use std::collections::{BTreeMap, HashSet, VecDeque};

#[derive(Debug)]
pub(crate) struct S3Fifo {
    entries: Entries,
    queues: BTreeMap<Partition, Queues>,
    ghosts: Ghosts,
    /// The rank of the latest time seen, or of the entry that was spared last: those that are spared go after all others, in their order.
    last_rank: u64,
}

/// The queues of a partition, and the bytes in them.
#[derive(Debug)]
struct Queues {
    small: Line,
    small_bytes: u64,
    main: Line,
    main_bytes: u64,
}

/// Hashes of the keys of entries that went from a small queue, the oldest first.
#[derive(Debug, Default)]
struct Ghosts {
    order: VecDeque<u32>,
    known: HashSet<u32, NumberHash>,
}

/// Uses that are counted: an entry is spared as many times.
const USES_MAX: u8 = 3;

/// The small queue has this part of a partition's bytes, one tenth: what the authors of S3-FIFO recommend.
const SMALL_PART: u64 = 10;

/// Ranks of one millisecond: entries that are spared within it have one each. A call that spares more uses those of the next ones.
const RANKS_PER_MS: i64 = 1 << 20;

/// Times beyond this one, of the year 2109, rank alike; so do those as long before the epoch.
const TIME_MAX_MS: i64 = 1 << 42;

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

impl Queues {
    const fn new(partition: Partition, upkeep: Upkeep) -> Self {
        let small = Line::new(partition, Queue::Small, upkeep);
        Self { small, small_bytes: 0, main: Line::new(partition, Queue::Main, upkeep), main_bytes: 0 }
    }

    fn link(&mut self, slot: Slot, queue: Queue, rank: u64, entries: &mut Entries) {
        let Some(record) = entries.get_mut(slot) else { return };
        (record.queue, record.rank, record.queued) = (queue, rank, rank);
        let (line, bytes) = match queue {
            Queue::Small => (&mut self.small, &mut self.small_bytes),
            Queue::Main | Queue::Parked => (&mut self.main, &mut self.main_bytes),
        };
        line.add(rank, slot);
        *bytes = bytes.saturating_add(record.facts.bytes);
    }

    /// Takes an entry out of its queue; which one that was.
    fn unlink(&mut self, slot: Slot, entries: &mut Entries) -> Queue {
        let Some(record) = entries.get_mut(slot) else { return Queue::Parked };
        let (line, bytes) = match record.queue {
            Queue::Parked => return Queue::Parked,
            Queue::Small => (&mut self.small, &mut self.small_bytes),
            Queue::Main => (&mut self.main, &mut self.main_bytes),
        };
        *bytes = bytes.saturating_sub(record.facts.bytes);
        let (queue, queued) = (std::mem::replace(&mut record.queue, Queue::Parked), record.queued);
        line.take(queued, slot, entries);
        queue
    }

    /// The entry to go next; those on the way to it that were used meanwhile are moved to the end, each after `last_rank`.
    fn next(&mut self, last_rank: &mut u64, entries: &mut Entries) -> Option<(Slot, Facts)> {
        loop {
            let is_small_full =
                self.small_bytes.saturating_mul(SMALL_PART) >= self.small_bytes.saturating_add(self.main_bytes);
            let (preferred, other) =
                if is_small_full { (&mut self.small, &mut self.main) } else { (&mut self.main, &mut self.small) };
            let (_, slot) = match preferred.first(entries) {
                Some(first) => first,
                None => other.first(entries)?,
            };
            let record = entries.get_mut(slot)?;
            match record.queue {
                Queue::Small if record.uses > 1 => record.uses = 0,
                Queue::Main if record.uses > 0 => record.uses -= 1,
                Queue::Parked | Queue::Small | Queue::Main => return Some((slot, record.facts)),
            }
            self.unlink(slot, entries);
            *last_rank = last_rank.saturating_add(1);
            self.link(slot, Queue::Main, *last_rank, entries);
        }
    }
}

impl S3Fifo {
    pub(crate) fn new(entries: Entries) -> Self {
        Self { entries, queues: BTreeMap::new(), ghosts: Ghosts::default(), last_rank: 0 }
    }

    fn link(&mut self, slot: Slot, queue: Queue, time_ms: i64) {
        let Some(record) = self.entries.get(slot) else { return };
        let partition = record.facts.partition;
        let upkeep = self.entries.upkeep();
        let queues = self.queues.entry(partition).or_insert_with(|| Queues::new(partition, upkeep));
        queues.link(slot, queue, rank_of(time_ms), &mut self.entries);
    }
}

impl Replacement for S3Fifo {
    fn entries(&self) -> &Entries {
        &self.entries
    }

    fn entries_mut(&mut self) -> &mut Entries {
        &mut self.entries
    }

    fn insert(&mut self, entry: NewEntry) -> bool {
        let is_known = entry.uses > 1 || self.ghosts.knows(entry.key_hash);
        let time_ms = entry.facts.last_use_ms;
        let queue = if is_known { Queue::Main } else { Queue::Small };
        self.last_rank = self.last_rank.max(rank_of(time_ms));
        let slot = self.entries.insert(entry, 0);
        if let Some(slot) = slot {
            self.link(slot, queue, time_ms);
        }
        slot.is_some()
    }

    fn used(&mut self, id: EntryId, now_ms: i64, times: u64) {
        self.last_rank = self.last_rank.max(rank_of(now_ms));
        let Some(slot) = self.entries.slot(id) else { return };
        let Some(record) = self.entries.get_mut(slot) else { return };
        record.uses = record.uses.saturating_add(u8::try_from(times).unwrap_or(u8::MAX)).min(USES_MAX);
        record.facts.last_use_ms = record.facts.last_use_ms.max(now_ms);
    }

    fn resized(&mut self, id: EntryId, bytes: u64) -> Option<Record> {
        let slot = self.entries.slot(id)?;
        let record = self.entries.get_mut(slot)?;
        let before = *record;
        record.facts.bytes = bytes;
        let queues = self.queues.get_mut(&before.facts.partition);
        let sum = match (before.queue, queues) {
            (Queue::Small, Some(queues)) => &mut queues.small_bytes,
            (Queue::Main, Some(queues)) => &mut queues.main_bytes,
            (Queue::Parked, _) | (_, None) => return Some(before),
        };
        *sum = sum.saturating_sub(before.facts.bytes).saturating_add(bytes);
        Some(before)
    }

    fn next(&mut self, may_go: &dyn Fn(&Facts) -> bool) -> Option<(Slot, Facts)> {
        let mut next: Option<(Slot, Facts)> = None;
        for queues in self.queues.values_mut() {
            let candidate = queues.next(&mut self.last_rank, &mut self.entries);
            // Between partitions, the one whose candidate was not used for longer.
            next = match (next, candidate.filter(|(_, facts)| may_go(facts))) {
                (Some(next), Some((_, other))) if other.last_use_ms >= next.1.last_use_ms => Some(next),
                (next, None) => next,
                (_, other) => other,
            };
        }
        next
    }

    fn withdraw(&mut self, slot: Slot) {
        let Some(record) = self.entries.get(slot) else { return };
        let key_hash = record.key_hash;
        let Some(queues) = self.queues.get_mut(&record.facts.partition) else { return };
        // Entries that leave the small queue are remembered.
        if queues.unlink(slot, &mut self.entries) == Queue::Small {
            self.ghosts.add(key_hash, self.entries.len());
        }
    }

    fn readmit(&mut self, slot: Slot) {
        let Some(record) = self.entries.get(slot) else { return };
        self.link(slot, Queue::Main, record.facts.last_use_ms);
    }
}

/// The rank of an entry that came at `time_ms`, the lowest of that time.
fn rank_of(time_ms: i64) -> u64 {
    let time_ms = time_ms.clamp(-TIME_MAX_MS, TIME_MAX_MS - 1);
    ((time_ms + TIME_MAX_MS) * RANKS_PER_MS).cast_unsigned()
}
