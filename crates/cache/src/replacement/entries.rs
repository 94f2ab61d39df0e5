//! The interface of all policies, and their records of entries: by number, by slot and by queue.

use crate::EntryId;
use std::{
    collections::{
        HashMap,
        hash_map::{Entry, VacantEntry},
    },
    fmt,
    hash::{BuildHasher, Hasher},
};

/// The part of the cache that an entry counts for: victims are sought in some partitions and spared in others.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Partition {
    /// Number of the disk that the entry lies on.
    pub(crate) disk: u16,
    /// Number of the quota that the entry counts for, if any.
    pub(crate) quota: Option<u16>,
}

/// The facts of an entry that a policy uses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Facts {
    pub(crate) id: EntryId,
    pub(crate) partition: Partition,
    pub(crate) bytes: u64,
    /// When it was last used, in milliseconds of the Unix epoch.
    pub(crate) last_use_ms: i64,
    /// Number of the rule on expiry that it is under, if any. No policy looks at it.
    pub(crate) expiry: Option<u8>,
}

/// An entry that a policy has not seen yet: new in the cache, or found there at a start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct NewEntry {
    pub(crate) facts: Facts,
    /// How often it was used so far; 1 for an entry that is new in the cache.
    pub(crate) uses: u64,
    /// A hash of its key: an entry that comes back after it went is known by that.
    pub(crate) key_hash: u32,
}

/// Decides which entry goes next.
///
/// An entry that is *parked* is known but never a victim, until it is unparked: it is pinned, or being removed. Calls about
/// entries that the policy does not know do nothing.
pub(crate) trait Replacement: fmt::Debug + Send {
    fn entries(&self) -> &Entries;

    fn entries_mut(&mut self) -> &mut Entries;

    /// Takes in an entry. A second one of the same number is ignored, and the result is false.
    fn insert(&mut self, entry: NewEntry) -> bool;

    /// Notes that an entry is in use at `now_ms` (milliseconds of the Unix epoch), and was used `times` times since it was
    /// last reported: 0 if that use is known already and continues.
    fn used(&mut self, id: EntryId, now_ms: i64, times: u64);

    /// Notes what an entry takes on disk now, in bytes; its record before that.
    fn resized(&mut self, id: EntryId, bytes: u64) -> Option<Record>;

    /// The entry to go next among the next ones of each partition that `may_go` accepts. It stays where it is: park or remove it.
    fn next(&mut self, may_go: &dyn Fn(&Facts) -> bool) -> Option<(Slot, Facts)>;

    /// Takes an entry out of its queue, if it is in one.
    fn withdraw(&mut self, slot: Slot);

    /// Puts a parked entry into its queue again.
    fn readmit(&mut self, slot: Slot);

    /// Forgets an entry; what was known of it.
    fn remove(&mut self, id: EntryId) -> Option<Record> {
        let slot = self.entries_mut().forget(id)?;
        self.withdraw(slot);
        self.entries_mut().free(slot)
    }

    /// Protects an entry from being a victim until it is unparked.
    fn park(&mut self, id: EntryId) {
        if let Some(slot) = self.entries().slot(id) {
            self.withdraw(slot);
        }
    }

    /// Lets a parked entry be a victim again.
    fn unpark(&mut self, id: EntryId) {
        let Some(slot) = self.entries().slot(id) else { return };
        if self.entries().get(slot).is_some_and(|record| record.queue == Queue::Parked) {
            self.readmit(slot);
        }
    }
}

/// Number of a record while its entry is known.
pub(crate) type Slot = u32;

/// The state of an entry in a policy. Aligned, so that a look at it reads one line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Record {
    pub(crate) facts: Facts,
    /// The rank of the entry; the lowest goes first.
    pub(crate) rank: u64,
    /// The rank by which it stands in its queue: at most `rank`, and lower only while its upkeep is postponed.
    pub(crate) queued: u64,
    pub(crate) key_hash: u32,
    pub(crate) uses: u8,
    pub(crate) queue: Queue,
    /// A purge has selected it and has not finished with it.
    pub(crate) is_leaving: bool,
}

/// The queue of its partition in which an entry stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Queue {
    Parked,
    /// In the queue of entries used once, of policies that have one.
    Small,
    /// In the only queue, or in that of entries used again.
    Main,
}

/// All records. Slots of entries that went are used again.
#[derive(Debug)]
pub(crate) struct Entries {
    records: Vec<Option<Record>>,
    free: Vec<Slot>,
    slots: Slots,
}

/// When the order of entries is corrected after a use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Upkeep {
    /// With the use. No call takes long, except the search of a victim by S3-FIFO.
    AtOnce,
    /// When the entry is the first of its queue, once for all uses until then: less work in sum, but a call after many uses
    /// corrects many entries.
    Postponed,
}

/// The slots of entries by their numbers.
#[derive(Debug)]
enum Slots {
    /// Any numbers, as the index gives them.
    Sparse(HashMap<EntryId, Slot, NumberHash>),
    /// Numbers from 0 on, of which many are in use. A slot that there cannot be stands for none.
    Dense(Vec<Slot>),
}

const NO_SLOT: Slot = Slot::MAX;

/// Hashes numbers that no client chooses, those of entries and hashes of keys, by one multiplication.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberHash;

pub(crate) struct NumberHasher(u64);

impl BuildHasher for NumberHash {
    type Hasher = NumberHasher;

    fn build_hasher(&self) -> NumberHasher {
        NumberHasher(0)
    }
}

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        // The table takes its position from the low bits and its marks from the high ones: both have to depend on all bits.
        let mixed = u128::from(self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let halves = ((mixed >> 64) as u64, mixed as u64);
        self.0 = halves.0 ^ halves.1;
    }
}

impl Slots {
    fn get(&self, id: EntryId) -> Option<Slot> {
        match self {
            Self::Sparse(slots) => slots.get(&id).copied(),
            Self::Dense(slots) => slots.get(index_of(id)).copied().filter(|slot| *slot != NO_SLOT),
        }
    }

    fn take(&mut self, id: EntryId) -> Option<Slot> {
        match self {
            Self::Sparse(slots) => slots.remove(&id),
            Self::Dense(slots) => {
                let slot = slots.get_mut(index_of(id)).map(|slot| std::mem::replace(slot, NO_SLOT))?;
                Some(slot).filter(|slot| *slot != NO_SLOT)
            }
        }
    }

    /// The place for an entry that is not known yet.
    fn vacant(&mut self, id: EntryId) -> Option<VacantSlot<'_>> {
        match self {
            Self::Sparse(slots) => match slots.entry(id) {
                Entry::Vacant(place) => Some(VacantSlot::Sparse(place)),
                Entry::Occupied(_) => None,
            },
            Self::Dense(slots) => slots.get_mut(index_of(id)).filter(|slot| **slot == NO_SLOT).map(VacantSlot::Dense),
        }
    }
}

enum VacantSlot<'a> {
    Sparse(VacantEntry<'a, EntryId, Slot>),
    Dense(&'a mut Slot),
}

impl VacantSlot<'_> {
    fn put(self, slot: Slot) {
        match self {
            Self::Sparse(place) => {
                place.insert(slot);
            }
            Self::Dense(place) => *place = slot,
        }
    }
}

/// Numbers that no address space has are those of no entry.
fn index_of(id: EntryId) -> usize {
    usize::try_from(id.0).unwrap_or(usize::MAX)
}

impl Entries {
    /// Without entries, whose numbers may be any.
    pub(crate) fn sparse() -> Self {
        Self { records: Vec::new(), free: Vec::new(), slots: Slots::Sparse(HashMap::default()) }
    }

    /// Without entries, for those with numbers below `count`; others are not taken in. A number takes four bytes. Upkeep is postponed.
    pub(crate) fn dense(count: usize) -> Self {
        Self { records: Vec::new(), free: Vec::new(), slots: Slots::Dense(vec![NO_SLOT; count]) }
    }

    /// When policies correct the order of these entries.
    pub(crate) const fn upkeep(&self) -> Upkeep {
        match self.slots {
            Slots::Sparse(_) => Upkeep::AtOnce,
            Slots::Dense(_) => Upkeep::Postponed,
        }
    }

    /// Keeps a parked record; `None` when the entry is known already, or when there are 2^32 of them.
    pub(crate) fn insert(&mut self, entry: NewEntry, uses: u8) -> Option<Slot> {
        let NewEntry { facts, key_hash, .. } = entry;
        let place = self.slots.vacant(facts.id)?;
        let record =
            Some(Record { facts, rank: 0, queued: 0, key_hash, uses, queue: Queue::Parked, is_leaving: false });
        let slot = match self.free.pop() {
            Some(slot) => {
                *self.records.get_mut(slot as usize)? = record;
                slot
            }
            None => {
                let slot = Slot::try_from(self.records.len()).ok().filter(|slot| *slot != NO_SLOT)?;
                self.records.push(record);
                slot
            }
        };
        place.put(slot);
        Some(slot)
    }

    /// Forgets the number of an entry; its record stays until [`Self::free`].
    pub(crate) fn forget(&mut self, id: EntryId) -> Option<Slot> {
        self.slots.take(id)
    }

    /// Takes away a record whose number is forgotten.
    pub(crate) fn free(&mut self, slot: Slot) -> Option<Record> {
        let record = self.records.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(record)
    }

    pub(crate) fn slot(&self, id: EntryId) -> Option<Slot> {
        self.slots.get(id)
    }

    /// The record of an entry by its number.
    pub(crate) fn of(&self, id: EntryId) -> Option<(Slot, &Record)> {
        let slot = self.slot(id)?;
        Some((slot, self.get(slot)?))
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Record> {
        self.records.get(slot as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Record> {
        self.records.get_mut(slot as usize)?.as_mut()
    }

    /// Notes which rule on expiry an entry is under now.
    pub(crate) fn set_expiry(&mut self, id: EntryId, expiry: Option<u8>) {
        if let Some(record) = self.slot(id).and_then(|slot| self.get_mut(slot)) {
            record.facts.expiry = expiry;
        }
    }

    /// Shows entries that are not parked, in no order that means anything: those from position `from` on, `count` positions
    /// at most. The position to continue from, or `None` at the end.
    pub(crate) fn scan(&self, from: usize, count: usize, visit: &mut dyn FnMut(&Facts)) -> Option<usize> {
        let records = self.records.iter().skip(from).take(count).flatten();
        for record in records.filter(|record| record.queue != Queue::Parked) {
            visit(&record.facts);
        }
        let next = from.saturating_add(count);
        (next < self.records.len()).then_some(next)
    }

    /// Number of entries, parked ones included.
    pub(crate) const fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }
}

pub(crate) const fn rank_of_time(time_ms: i64) -> u64 {
    time_ms.cast_unsigned() ^ (1 << 63)
}
