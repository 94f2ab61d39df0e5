//! Replacement policies, which select the entry that is worth least, behind one interface, [`Replacement`].
//!
//! A policy holds no key and reads no clock: entries are numbers with a size, a time of last use and a [`Partition`], and about
//! a hundred bytes each. Given the same calls it gives the same answers. All calls cost O(log n) at most.

mod entries;
mod ranked;
mod s3_fifo;

use crate::EntryId;
use entries::{Entries, Queue, Slot};
use std::fmt;

forebay_types::named_enum! {
    /// The policies there are.
    #[derive(Default)]
    pub enum Policy {
        /// The entry that was not used for the longest time goes first.
        #[default]
        Lru = "lru",
        /// Entries used only once pass through a small queue and go early; the others go in the order they came, spared once for
        /// each use up to three. Scans of many files do not drive out what is used again and again.
        S3Fifo = "s3-fifo",
        /// Greedy dual size with frequency: large entries that are rarely used go first. More files stay, and fewer bytes.
        Gdsf = "gdsf",
    }
}

impl Policy {
    /// A policy without entries.
    pub(crate) fn build(self) -> Box<dyn Replacement> {
        match self {
            Self::Lru => Box::new(ranked::Ranked::new(ranked::LastUse)),
            Self::S3Fifo => Box::new(s3_fifo::S3Fifo::default()),
            Self::Gdsf => Box::new(ranked::Ranked::new(ranked::Worth::default())),
        }
    }
}

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

    /// Takes in an entry; a second one of the same number is ignored.
    fn insert(&mut self, entry: NewEntry);

    /// Notes that an entry is in use at `now_ms` (milliseconds of the Unix epoch), and was used `times` times since it was
    /// last reported: 0 if that use is known already and continues.
    fn used(&mut self, id: EntryId, now_ms: i64, times: u64);

    /// Notes what an entry takes on disk now, in bytes.
    fn resized(&mut self, id: EntryId, bytes: u64);

    /// The entry to go next among the next ones of each partition that `may_go` accepts. It stays where it is: park or remove it.
    fn next(&mut self, may_go: &dyn Fn(&Facts) -> bool) -> Option<Facts>;

    /// Takes an entry out of its queue, if it is in one.
    fn withdraw(&mut self, slot: Slot);

    /// Puts a parked entry into its queue again.
    fn readmit(&mut self, slot: Slot);

    /// The facts of an entry, or `None` if the policy does not have it.
    fn facts(&self, id: EntryId) -> Option<Facts> {
        self.entries().get(self.entries().slot(id)?).map(|record| record.facts)
    }

    /// Forgets an entry; what was known of it.
    fn remove(&mut self, id: EntryId) -> Option<Facts> {
        let slot = self.entries().slot(id)?;
        self.withdraw(slot);
        self.entries_mut().remove(slot).map(|record| record.facts)
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

#[cfg(test)]
mod tests;
