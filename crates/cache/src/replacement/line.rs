//! A line of entries by rank, the lowest first.

use super::{
    entries::{Entries, Partition, Queue, Slot, Upkeep},
    rank_heap::RankHeap,
};
use std::collections::{BTreeSet, VecDeque};

/// One queue of one partition.
///
/// With [`Upkeep::AtOnce`] all entries stand in a tree. With [`Upkeep::Postponed`] most come in the order of their ranks, and stand in a list, others
/// in a heap, and the few of a rank below its lowest one in the tree; an entry that leaves from elsewhere than the front stays there
/// as a trace, which is skipped later.
#[derive(Debug)]
pub(crate) struct Line {
    partition: Partition,
    queue: Queue,
    upkeep: Upkeep,
    list: VecDeque<(u64, Slot)>,
    heap: RankHeap,
    tree: BTreeSet<(u64, Slot)>,
    traces: usize,
}

/// Traces that a line may have however short it is.
const TRACES_MIN: usize = 64;

impl Line {
    /// A line without entries, for those of `partition` in `queue`.
    pub(crate) const fn new(partition: Partition, queue: Queue, upkeep: Upkeep) -> Self {
        Self {
            partition,
            queue,
            upkeep,
            list: VecDeque::new(),
            heap: RankHeap::new(),
            tree: BTreeSet::new(),
            traces: 0,
        }
    }

    pub(crate) fn add(&mut self, rank: u64, slot: Slot) {
        let place = (rank, slot);
        match self.list.back() {
            _ if self.upkeep == Upkeep::AtOnce => {
                self.tree.insert(place);
            }
            Some(last) if *last > place => {
                if self.heap.takes(rank) {
                    self.heap.push(rank, slot);
                } else {
                    self.tree.insert(place);
                }
            }
            // Its own trace is its place.
            Some(last) if *last == place => self.traces = self.traces.saturating_sub(1),
            _ => self.list.push_back(place),
        }
    }

    /// Takes out an entry that stood here by `rank`; its record no longer says so.
    pub(crate) fn take(&mut self, rank: u64, slot: Slot, entries: &Entries) {
        let place = (rank, slot);
        if self.list.front() == Some(&place) {
            self.list.pop_front();
        } else if self.heap.is_first(place) {
            self.heap.pop();
        } else if !self.tree.remove(&place) {
            self.traces += 1;
            if self.traces > TRACES_MIN.max(self.len() / 2) {
                self.remove_traces(entries);
            }
        }
    }

    /// The entry of the lowest rank.
    pub(crate) fn first(&mut self, entries: &Entries) -> Option<(u64, Slot)> {
        let (partition, queue) = (self.partition, self.queue);
        let is_trace = |place: &(u64, Slot)| !stands(entries, partition, queue, *place);
        while self.list.front().is_some_and(is_trace) {
            self.list.pop_front();
            self.traces = self.traces.saturating_sub(1);
        }
        while self.heap.first().as_ref().is_some_and(is_trace) {
            self.heap.pop();
            self.traces = self.traces.saturating_sub(1);
        }
        while self.tree.first().is_some_and(is_trace) {
            self.tree.pop_first();
        }
        let firsts = [self.list.front().copied(), self.heap.first(), self.tree.first().copied()];
        firsts.into_iter().flatten().min()
    }

    /// Places, those of traces included.
    fn len(&self) -> usize {
        self.list.len() + self.heap.len() + self.tree.len()
    }

    /// Makes one list of all entries.
    fn remove_traces(&mut self, entries: &Entries) {
        let mut all: Vec<(u64, Slot)> = self.list.drain(..).chain(self.heap.drain()).collect();
        all.extend(std::mem::take(&mut self.tree));
        all.retain(|place| stands(entries, self.partition, self.queue, *place));
        all.sort_unstable();
        // An entry that came back to a place with its trace was there twice.
        all.dedup();
        self.list = all.into();
        self.traces = 0;
    }
}

/// Whether an entry stands in its line at `place`, by its record.
fn stands(entries: &Entries, partition: Partition, queue: Queue, place: (u64, Slot)) -> bool {
    entries
        .get(place.1)
        .is_some_and(|record| record.queued == place.0 && record.queue == queue && record.facts.partition == partition)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        EntryId,
        replacement::{Facts, NewEntry},
    };

    const HERE: Partition = Partition { disk: 0, quota: None };

    fn stand(entries: &mut Entries, line: &mut Line, id: u64, rank: u64) -> Slot {
        let facts = Facts { id: EntryId(id), partition: HERE, bytes: 1, last_use_ms: 0, expiry: None };
        let slot = entries.insert(NewEntry { facts, uses: 1, key_hash: 0 }, 1).unwrap();
        let record = entries.get_mut(slot).unwrap();
        (record.queue, record.queued) = (Queue::Main, rank);
        line.add(rank, slot);
        slot
    }

    fn leave(entries: &mut Entries, line: &mut Line, slot: Slot) {
        let record = entries.get_mut(slot).unwrap();
        record.queue = Queue::Parked;
        line.take(record.queued, slot, entries);
    }

    #[test]
    fn traces_are_removed_when_there_are_many() {
        let (mut entries, mut line) = (Entries::sparse(), Line::new(HERE, Queue::Main, Upkeep::Postponed));
        stand(&mut entries, &mut line, 0, 0);
        for id in 1..10_000 {
            let slot = stand(&mut entries, &mut line, id, id);
            leave(&mut entries, &mut line, slot);
            assert!(line.len() <= TRACES_MIN + 3, "{id}");
        }
        assert_eq!(line.first(&entries).map(|first| first.0), Some(0));
    }

    #[test]
    fn an_entry_that_leaves_and_returns_for_ever_takes_no_more_memory() {
        let (mut entries, mut line) = (Entries::sparse(), Line::new(HERE, Queue::Main, Upkeep::Postponed));
        let slots: Vec<Slot> = (0..3).map(|id| stand(&mut entries, &mut line, id, id)).collect();
        for _ in 0..1000 {
            leave(&mut entries, &mut line, slots[1]);
            entries.get_mut(slots[1]).unwrap().queue = Queue::Main;
            line.add(1, slots[1]);
            assert!(line.len() <= 3 + TRACES_MIN + 1);
        }
        assert_eq!(line.first(&entries), Some((0, slots[0])));
    }

    #[test]
    fn an_entry_that_comes_back_to_its_trace_stands_once() {
        let (mut entries, mut line) = (Entries::sparse(), Line::new(HERE, Queue::Main, Upkeep::Postponed));
        let slots: Vec<Slot> = (0..3).map(|id| stand(&mut entries, &mut line, id, id)).collect();
        for &slot in &slots[1..] {
            leave(&mut entries, &mut line, slot);
            let record = entries.get_mut(slot).unwrap();
            record.queue = Queue::Main;
            let rank = record.queued;
            line.add(rank, slot);
        }
        for (rank, slot) in (0..).zip(slots) {
            assert_eq!(line.first(&entries), Some((rank, slot)));
            leave(&mut entries, &mut line, slot);
        }
        assert_eq!(line.first(&entries), None);
        assert_eq!(line.len(), 0);
    }
}
