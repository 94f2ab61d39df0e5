//! The interface of all policies, and the facts they decide by.

use crate::EntryId;
use std::fmt;

/// The part of the cache that an entry counts for: victims are sought in some partitions and spared in others.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Partition {
    /// Number of the disk that the entry lies on.
    pub disk: u16,
    /// Number of the quota that the entry counts for, if any.
    pub quota: Option<u16>,
}

/// The facts of an entry that a policy uses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Facts {
    pub id: EntryId,
    pub partition: Partition,
    pub bytes: u64,
    /// When it was last used, in milliseconds of the Unix epoch.
    pub last_use_ms: i64,
    /// Number of the rule on expiry that it is under, if any. No policy looks at it.
    pub expiry: Option<u8>,
}

/// An entry that a policy has not seen yet: new in the cache, or found there at a start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NewEntry {
    pub facts: Facts,
    /// How often it was used so far; 1 for an entry that is new in the cache.
    pub uses: u64,
    /// A hash of its key: an entry that comes back after it went is known by that.
    pub key_hash: u32,
}

/// Decides which entry goes next.
///
/// An entry that is *parked* is known but never a victim, until it is unparked: it is pinned, or being removed. Calls about
/// entries that the policy does not know do nothing.
pub trait Replacement: fmt::Debug + Send {
    /// Takes in an entry; a second one of the same number is ignored.
    fn insert(&mut self, entry: NewEntry);

    /// Notes that an entry is in use at `now_ms` (milliseconds of the Unix epoch), and was used `times` times since it was
    /// last reported: 0 if that use is known already and continues.
    fn used(&mut self, id: EntryId, now_ms: i64, times: u64);

    /// Notes what an entry takes on disk now, in bytes.
    fn resized(&mut self, id: EntryId, bytes: u64);

    /// Notes which rule on expiry an entry is under now.
    fn set_expiry(&mut self, id: EntryId, expiry: Option<u8>);

    /// Forgets an entry; what was known of it.
    fn remove(&mut self, id: EntryId) -> Option<Facts>;

    /// The entry to go next among the next ones of each partition that `may_go` accepts. It stays where it is: park or remove it.
    fn next(&mut self, may_go: &dyn Fn(&Facts) -> bool) -> Option<Facts>;

    /// Protects an entry from being a victim until it is unparked.
    fn park(&mut self, id: EntryId);

    /// Lets a parked entry be a victim again.
    fn unpark(&mut self, id: EntryId);

    /// The facts of an entry, or `None` if the policy does not have it.
    fn facts(&self, id: EntryId) -> Option<Facts>;

    /// Shows entries that are not parked, in no order that means anything: those from position `from` on, `count` positions
    /// at most. The position to continue from, or `None` at the end.
    fn scan(&self, from: usize, count: usize, visit: &mut dyn FnMut(&Facts)) -> Option<usize>;

    /// Number of entries, parked ones included.
    fn len(&self) -> usize;

    /// Whether the policy has no entries.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
