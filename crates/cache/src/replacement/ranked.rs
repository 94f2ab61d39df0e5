//! Policies that give each entry a rank: the lowest goes first.

use super::{
    entries::{Entries, Facts, NewEntry, Partition, Queue, Record, Replacement, Slot, Upkeep, rank_of_time},
    line::Line,
};
use crate::EntryId;
use std::{collections::BTreeMap, fmt};

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
    lines: BTreeMap<Partition, Line>,
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
    pub(crate) const fn new(rank: R, entries: Entries) -> Self {
        Self { rank, entries, lines: BTreeMap::new() }
    }

    /// Changes what is known of an entry, and its rank with it unless it is parked; its record before that.
    fn change(&mut self, id: EntryId, change: impl FnOnce(&mut Record)) -> Option<Record> {
        let slot = self.entries.slot(id)?;
        let upkeep = self.entries.upkeep();
        let record = self.entries.get_mut(slot)?;
        let before = *record;
        change(record);
        if record.queue == Queue::Parked {
            return Some(before);
        }
        record.rank = self.rank.rank(record);
        // A use within the same millisecond, or other bytes of an entry that is ranked by its time: its place stays.
        let is_due = record.rank < record.queued || (record.rank > record.queued && upkeep == Upkeep::AtOnce);
        if is_due {
            record.queued = record.rank;
            let line = line_of(&mut self.lines, record.facts.partition, upkeep);
            line.add(record.queued, slot);
            line.take(before.queued, slot, &self.entries);
        }
        Some(before)
    }
}

impl<R: Rank> Replacement for Ranked<R> {
    fn entries(&self) -> &Entries {
        &self.entries
    }

    fn entries_mut(&mut self) -> &mut Entries {
        &mut self.entries
    }

    fn insert(&mut self, entry: NewEntry) -> bool {
        let uses = u8::try_from(entry.uses).unwrap_or(u8::MAX).max(1);
        let slot = self.entries.insert(entry, uses);
        if let Some(slot) = slot {
            self.readmit(slot);
        }
        slot.is_some()
    }

    fn used(&mut self, id: EntryId, now_ms: i64, times: u64) {
        self.change(id, |record| {
            record.uses = record.uses.saturating_add(u8::try_from(times).unwrap_or(u8::MAX));
            record.facts.last_use_ms = record.facts.last_use_ms.max(now_ms);
        });
    }

    fn resized(&mut self, id: EntryId, bytes: u64) -> Option<Record> {
        self.change(id, |record| record.facts.bytes = bytes)
    }

    fn next(&mut self, may_go: &dyn Fn(&Facts) -> bool) -> Option<(Slot, Facts)> {
        let entries = &mut self.entries;
        let firsts = self.lines.values_mut().filter_map(|line| settled_first(line, entries));
        let (_, slot, record) =
            firsts.filter(|(_, _, record)| may_go(&record.facts)).min_by_key(|(rank, slot, _)| (*rank, *slot))?;
        self.rank.gone(&record);
        Some((slot, record.facts))
    }

    fn withdraw(&mut self, slot: Slot) {
        let Some(record) = self.entries.get_mut(slot) else { return };
        if record.queue == Queue::Main {
            record.queue = Queue::Parked;
            let (partition, queued) = (record.facts.partition, record.queued);
            line_of(&mut self.lines, partition, self.entries.upkeep()).take(queued, slot, &self.entries);
        }
    }

    fn readmit(&mut self, slot: Slot) {
        let upkeep = self.entries.upkeep();
        let Some(record) = self.entries.get_mut(slot) else { return };
        record.rank = self.rank.rank(record);
        record.queued = record.rank;
        record.queue = Queue::Main;
        line_of(&mut self.lines, record.facts.partition, upkeep).add(record.rank, slot);
    }
}

/// The first entry of a line by its rank as of now: those that were used since they were queued are moved on.
fn settled_first(line: &mut Line, entries: &mut Entries) -> Option<(u64, Slot, Record)> {
    loop {
        let (queued, slot) = line.first(entries)?;
        let record = entries.get_mut(slot)?;
        if record.rank == queued {
            return Some((queued, slot, *record));
        }
        record.queued = record.rank;
        let rank = record.rank;
        line.take(queued, slot, entries);
        line.add(rank, slot);
    }
}

fn line_of(lines: &mut BTreeMap<Partition, Line>, partition: Partition, upkeep: Upkeep) -> &mut Line {
    lines.entry(partition).or_insert_with(|| Line::new(partition, Queue::Main, upkeep))
}
