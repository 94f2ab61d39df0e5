//! A priority queue for ranks that are not below the last one taken: a radix heap.

use super::entries::Slot;
use std::{cmp::Reverse, collections::BinaryHeap};

/// Entries by rank, of equal ranks the lowest slot first.
///
/// Entries whose ranks differ from the lowest one first in bit *n* are in bucket *n*, in no order. A bucket is a list that is read from end to
/// end when it is divided among lower ones, which costs less than a walk through a search tree for each entry.
#[derive(Debug)]
pub(crate) struct RankHeap {
    /// No rank is below it.
    lowest: u64,
    /// The entries of the lowest rank.
    firsts: BinaryHeap<Reverse<Slot>>,
    buckets: [Vec<(u64, Slot)>; BUCKETS],
    /// The buckets that are not empty, by bit.
    occupied: u64,
    len: usize,
}

/// One for each bit of a rank.
const BUCKETS: usize = u64::BITS as usize;

impl RankHeap {
    pub(crate) const fn new() -> Self {
        Self { lowest: 0, firsts: BinaryHeap::new(), buckets: [const { Vec::new() }; BUCKETS], occupied: 0, len: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Whether an entry of this rank can be added.
    pub(crate) const fn takes(&self, rank: u64) -> bool {
        rank >= self.lowest
    }

    /// Adds an entry; its rank must be one that [`Self::takes`].
    pub(crate) fn push(&mut self, rank: u64, slot: Slot) {
        self.len += 1;
        self.place(rank, slot);
    }

    /// The entry of the lowest rank.
    pub(crate) fn first(&mut self) -> Option<(u64, Slot)> {
        if self.firsts.is_empty() {
            self.raise_lowest();
        }
        self.firsts.peek().map(|slot| (self.lowest, slot.0))
    }

    /// Whether this is the first entry, as [`Self::first`] has shown.
    pub(crate) fn is_first(&self, place: (u64, Slot)) -> bool {
        self.lowest == place.0 && self.firsts.peek() == Some(&Reverse(place.1))
    }

    /// Takes out the entry that [`Self::first`] has shown.
    pub(crate) fn pop(&mut self) {
        if self.firsts.pop().is_some() {
            self.len -= 1;
        }
    }

    /// Takes out all entries, in no order.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (u64, Slot)> + '_ {
        (self.len, self.occupied) = (0, 0);
        let lowest = self.lowest;
        let firsts = self.firsts.drain().map(move |slot| (lowest, slot.0));
        firsts.chain(self.buckets.iter_mut().flat_map(|bucket| bucket.drain(..)))
    }

    fn place(&mut self, rank: u64, slot: Slot) {
        match (rank ^ self.lowest).checked_ilog2() {
            None => self.firsts.push(Reverse(slot)),
            Some(bit) => {
                self.occupied |= 1 << bit;
                if let Some(bucket) = self.buckets.get_mut(bit as usize) {
                    bucket.push((rank, slot));
                }
            }
        }
    }

    /// Makes the lowest rank of the lowest bucket the lowest one, and distributes the bucket among those below it.
    fn raise_lowest(&mut self) {
        let bit = self.occupied.trailing_zeros();
        let Some(bucket) = self.buckets.get_mut(bit as usize) else { return };
        let mut bucket = std::mem::take(bucket);
        self.occupied &= !(1 << bit);
        self.lowest = bucket.iter().map(|(rank, _)| *rank).min().unwrap_or(self.lowest);
        bucket.drain(..).for_each(|(rank, slot)| self.place(rank, slot));
        // Its memory serves the next entries.
        if let Some(place) = self.buckets.get_mut(bit as usize) {
            *place = bucket;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn entries_come_out_by_rank_and_slot(steps in prop::collection::vec((any::<bool>(), 0_u32..40, any::<u64>()), 0..300)) {
            let mut heap = RankHeap::new();
            let mut set = BTreeSet::new();
            for (number, (is_pop, shift, value)) in (0..).zip(steps) {
                if is_pop {
                    let first = heap.first();
                    prop_assert_eq!(first, set.first().copied());
                    if let Some(first) = first {
                        prop_assert!(heap.is_first(first));
                        heap.pop();
                        set.remove(&first);
                    }
                } else {
                    let rank = heap.lowest.saturating_add(value >> (shift + 24));
                    prop_assert!(heap.takes(rank));
                    heap.push(rank, number);
                    set.insert((rank, number));
                }
                prop_assert_eq!(heap.len(), set.len());
            }
            let rest: BTreeSet<(u64, Slot)> = heap.drain().collect();
            prop_assert_eq!(rest, set);
            prop_assert_eq!((heap.len(), heap.first()), (0, None));
        }
    }

    #[test]
    fn ranks_below_the_last_one_taken_are_refused() {
        let mut heap = RankHeap::new();
        heap.push(u64::MAX, 1);
        assert!(heap.takes(0));
        assert_eq!(heap.first(), Some((u64::MAX, 1)));
        assert!(heap.takes(u64::MAX) && !heap.takes(u64::MAX - 1));
    }
}
