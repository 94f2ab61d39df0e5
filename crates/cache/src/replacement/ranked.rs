//! Policies that give each entry a rank: the lowest goes first.

use super::entries::{Entries, Facts, NewEntry, Partitions, Queue, Record, Replacement, Slot, rank_of_time};
use crate::EntryId;
use std::fmt;

/// How entries are ranked.
pub(crate) trait Rank: fmt::Debug + Send {
    /// The rank that an entry gets as it comes, is used, or changes its size.
    fn rank(&self, record: &Record) -> u64;

    /// Notes that the entry of `record` was evicted, for ranks that depend on past victims.
    fn gone(&mut self, record: &Record);
}

/// By the last use: the classic LRU.
#[derive(Debug)]
pub(crate) struct LastUse;

/// By uses per byte on top of what the last victim was worth (GDSF, with equal costs of all fetches).
#[derive(Debug, Default)]
pub(crate) struct Worth {
    /// Worth of the last victim: what entries that came long ago have to be measured against.
    inflation: f64,
}

/// A policy made of ranks.
#[derive(Debug)]
pub(crate) struct Ranked<R> {
    rank: R,
    entries: Entries,
    partitions: Partitions,
}

/// Bytes that count as size 1 in the worth of an entry.
const UNIT: u64 = 4096;

impl Rank for LastUse {
    fn rank(&self, record: &Record) -> u64 {
        rank_of_time(record.facts.last_use_ms)
    }

    fn gone(&mut self, _: &Record) {}
}

impl Rank for Worth {
    fn rank(&self, record: &Record) -> u64 {
        #[expect(clippy::cast_precision_loss, reason = "a size that is off by a 2^53rd changes no order that matters")]
        let size = record.facts.bytes.div_ceil(UNIT).max(1) as f64;
        // Numbers that are not negative order like their bits.
        (self.inflation + f64::from(record.uses) / size).to_bits()
    }

    fn gone(&mut self, record: &Record) {
        self.inflation = self.inflation.max(f64::from_bits(record.rank));
    }
}

impl<R: Rank> Ranked<R> {
    pub(crate) fn new(rank: R) -> Self {
        Self { rank, entries: Entries::default(), partitions: Partitions::default() }
    }

    /// Changes what is known of an entry, and its place with it unless it is parked.
    fn change(&mut self, id: EntryId, change: impl FnOnce(&mut Record)) {
        let Some(slot) = self.entries.slot(id) else { return };
        let Some(record) = self.entries.get_mut(slot) else { return };
        change(record);
        if record.queue == Queue::Parked {
            return;
        }
        // A use within the same millisecond, or other bytes of an entry that is ranked by its time: its place stays.
        let (before, after) = (record.rank, self.rank.rank(record));
        if before != after {
            record.rank = after;
            self.partitions.take(record.facts.partition, before, slot);
            self.partitions.add(record.facts.partition, after, slot);
        }
    }
}

impl<R: Rank> Replacement for Ranked<R> {
    fn entries(&self) -> &Entries {
        &self.entries
    }

    fn entries_mut(&mut self) -> &mut Entries {
        &mut self.entries
    }

    fn insert(&mut self, entry: NewEntry) {
        let uses = u8::try_from(entry.uses).unwrap_or(u8::MAX).max(1);
        if let Some(slot) = self.entries.insert(entry, uses) {
            self.readmit(slot);
        }
    }

    fn used(&mut self, id: EntryId, now_ms: i64, times: u64) {
        self.change(id, |record| {
            record.uses = record.uses.saturating_add(u8::try_from(times).unwrap_or(u8::MAX));
            record.facts.last_use_ms = record.facts.last_use_ms.max(now_ms);
        });
    }

    fn resized(&mut self, id: EntryId, bytes: u64) {
        self.change(id, |record| record.facts.bytes = bytes);
    }

    fn next(&mut self, may_go: &dyn Fn(&Facts) -> bool) -> Option<Facts> {
        let firsts = self.partitions.firsts();
        let records = firsts.filter_map(|(rank, slot)| Some((rank, slot, self.entries.get(slot)?)));
        let (_, _, record) =
            records.filter(|(_, _, record)| may_go(&record.facts)).min_by_key(|(rank, slot, _)| (*rank, *slot))?;
        self.rank.gone(record);
        Some(record.facts)
    }

    fn withdraw(&mut self, slot: Slot) {
        let Some(record) = self.entries.get_mut(slot) else { return };
        if record.queue == Queue::Main {
            record.queue = Queue::Parked;
            self.partitions.take(record.facts.partition, record.rank, slot);
        }
    }

    fn readmit(&mut self, slot: Slot) {
        let Some(record) = self.entries.get_mut(slot) else { return };
        record.rank = self.rank.rank(record);
        record.queue = Queue::Main;
        self.partitions.add(record.facts.partition, record.rank, slot);
    }
}
