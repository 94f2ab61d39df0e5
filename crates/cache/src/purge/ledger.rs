//! The sums: what all entries take, by disk and quota, and the policy that orders them.

use super::{
    Expiry, Footprint, PurgeRules, Quota, Scope,
    expiry::{Lifetimes, expiry_of},
    footprint::Unaccounted,
    plan::quota_of,
};
use crate::{
    CacheKey, EntryId,
    replacement::{Entries, Facts, NewEntry, Partition, Replacement, Slot},
};
use forebay_types::PurgeReason;
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
};

/// All entries of the cache, with the facts that a purge needs. Calls about unknown entries do nothing.
///
/// An entry is known by its number as soon as it has one. Growth on disk before that, or faster than it is reported, is known
/// by its key: the sums are up to date all the time.
#[derive(Debug)]
pub struct Ledger {
    policy: Box<dyn Replacement>,
    quotas: Vec<Quota>,
    expiries: Vec<Expiry>,
    lifetimes: Lifetimes,
    held: BTreeMap<Partition, Footprint>,
    unaccounted: Unaccounted,
    /// Until when entries are pinned, in seconds of the Unix epoch.
    pins: BTreeMap<EntryId, i64>,
    /// Numbers of disks whose entries cannot be removed.
    offline: BTreeSet<u16>,
}

/// The quota, expiry and hash of a key, computed once for entries that come and go often.
#[derive(Clone, Copy, Debug)]
pub struct KeyClass {
    quota: Option<u16>,
    expiry: Option<u8>,
    hash: u32,
}

impl PurgeRules {
    /// The class of a key in ledgers with these rules.
    pub fn class_of(&self, key: &CacheKey) -> KeyClass {
        KeyClass::of(key, &self.quotas, &self.expiries)
    }
}

impl KeyClass {
    fn of(key: &CacheKey, quotas: &[Quota], expiries: &[Expiry]) -> Self {
        Self { quota: quota_of(quotas, key), expiry: expiry_of(expiries, key, None), hash: hash_of(key) }
    }
}

impl Ledger {
    /// A ledger without entries, whose numbers may be any.
    pub fn new(rules: &PurgeRules) -> Self {
        Self::of(rules, Entries::sparse())
    }

    /// A ledger without entries, for simulations: of entries with numbers below `count`, four bytes for each; others are not taken in. It
    /// gives the same victims in less time, but the order of entries is corrected only when victims are sought, so that one call may
    /// take long. A server must not use it, because its writes wait for the lock of the ledger.
    pub fn of_dense_numbers(rules: &PurgeRules, count: usize) -> Self {
        Self::of(rules, Entries::dense(count))
    }

    fn of(rules: &PurgeRules, entries: Entries) -> Self {
        Self {
            policy: rules.policy.build(entries),
            quotas: rules.quotas.clone(),
            expiries: rules.expiries.clone(),
            lifetimes: Lifetimes::new(rules),
            held: BTreeMap::new(),
            unaccounted: Unaccounted::default(),
            pins: BTreeMap::new(),
            offline: BTreeSet::new(),
        }
    }

    /// Takes in an entry of `key` on disk number `disk`, of which `present_bytes` are there; a second one of the same number
    /// is ignored. It was last used at `last_use_ms` (milliseconds of the Unix epoch), for the `uses`-th time.
    pub fn insert(&mut self, id: EntryId, key: &CacheKey, disk: u16, present_bytes: u64, last_use_ms: i64, uses: u64) {
        let class = KeyClass::of(key, &self.quotas, &self.expiries);
        if self.insert_classified(id, class, disk, present_bytes, last_use_ms, uses) {
            self.unaccounted.note_reported(key, present_bytes);
        }
    }

    /// Takes in an entry as [`Self::insert`] does, whose growth was not noted by its key before. Whether it was not known yet.
    pub fn insert_classified(
        &mut self,
        id: EntryId,
        class: KeyClass,
        disk: u16,
        present_bytes: u64,
        last_use_ms: i64,
        uses: u64,
    ) -> bool {
        let partition = Partition { disk, quota: class.quota };
        let footprint = Footprint::of_entry(present_bytes);
        let facts = Facts { id, partition, bytes: footprint.bytes, last_use_ms, expiry: class.expiry };
        let is_new = self.policy.insert(NewEntry { facts, uses, key_hash: class.hash });
        if is_new {
            *self.held.entry(partition).or_default() += footprint;
        }
        is_new
    }

    /// Notes at once that of the entry of `key` on disk number `disk` `present` bytes are there, and `before` were; `None` when
    /// there was no entry. Whether its quota is exceeded now.
    pub fn grew(&mut self, key: &CacheKey, disk: u16, before: Option<u64>, present: u64) -> bool {
        let partition = Partition { disk, quota: quota_of(&self.quotas, key) };
        self.unaccounted.grew(key, partition, before, present);
        partition.quota.is_some_and(|number| self.is_exceeded(number))
    }

    /// Notes at once that the files of `key` are gone from the disk.
    pub fn gone(&mut self, key: &CacheKey) {
        self.unaccounted.gone(key);
    }

    /// Notes that the files of `key` on disk number `disk` are gone, which took `footprint`, while there is no index to report it: the
    /// sums are corrected until all entries are reported again.
    pub fn gone_unreported(&mut self, key: &CacheKey, disk: u16, footprint: Footprint) {
        let partition = Partition { disk, quota: quota_of(&self.quotas, key) };
        let unaccounted = self.unaccounted.gone(key);
        *self.held.entry(partition).or_default() -= footprint - unaccounted;
    }

    /// Forgets all growth on disk number `disk` that was noted and not reported: what was written there and not recorded is lost.
    /// Growth that is reported later counts as before.
    pub fn forget_growth(&mut self, disk: u16) {
        self.unaccounted.forget_disk(disk);
    }

    /// Notes which disks are offline now, by their numbers: no victim is taken there, because its files would come back with the disk.
    /// Their entries continue to count.
    pub fn set_offline(&mut self, disks: impl IntoIterator<Item = u16>) {
        self.offline = disks.into_iter().collect();
    }

    /// Notes that an entry is in use at `now_ms` (milliseconds of the Unix epoch), and was used `times` times since it was
    /// last reported.
    pub fn used(&mut self, id: EntryId, now_ms: i64, times: u64) {
        self.policy.used(id, now_ms, times);
    }

    /// Notes the organisation that an entry, whose key is `key`, belongs to: an entry that was just taken in belongs to none.
    pub fn owned(&mut self, id: EntryId, key: &CacheKey, owner: Option<&str>) {
        self.policy.entries_mut().set_expiry(id, expiry_of(&self.expiries, key, owner));
    }

    /// Notes how many bytes of an entry, whose key is `key`, are there according to the index.
    pub fn resized(&mut self, id: EntryId, key: &CacheKey, present_bytes: u64) {
        let footprint = Footprint::of_entry(present_bytes);
        let Some(before) = self.policy.resized(id, footprint.bytes) else { return };
        if !before.is_leaving {
            let held = self.held.entry(before.facts.partition).or_default();
            *held -= Footprint::of_facts(before.facts.bytes);
            *held += footprint;
        }
        self.unaccounted.note_reported(key, present_bytes);
    }

    /// Forgets an entry that is gone; returns the room it took.
    pub fn removed(&mut self, id: EntryId) -> Footprint {
        let Some(record) = self.policy.remove(id) else { return Footprint::ZERO };
        let footprint = Footprint::of_facts(record.facts.bytes);
        if !record.is_leaving {
            *self.held.entry(record.facts.partition).or_default() -= footprint;
        }
        self.pins.remove(&id);
        footprint
    }

    /// Keeps an entry from being a victim until `until`, in seconds of the Unix epoch.
    pub fn pin(&mut self, id: EntryId, until: i64) {
        if self.policy.entries().slot(id).is_some() {
            self.pins.insert(id, until);
            self.policy.park(id);
        }
    }

    pub fn unpin(&mut self, id: EntryId) {
        let is_leaving = || self.policy.entries().of(id).is_some_and(|(_, record)| record.is_leaving);
        if self.pins.remove(&id).is_some() && !is_leaving() {
            self.policy.unpark(id);
        }
    }

    /// Ends the pins that have expired at `now`, in seconds of the Unix epoch.
    pub fn end_pins(&mut self, now: i64) {
        let expired: Vec<EntryId> = self.pins.iter().filter(|(_, until)| **until <= now).map(|(id, _)| *id).collect();
        for id in expired {
            self.unpin(id);
        }
    }

    /// Until when an entry is pinned, in seconds of the Unix epoch.
    pub fn pinned_until(&self, id: EntryId) -> Option<i64> {
        self.pins.get(&id).copied()
    }

    pub fn pin_count(&self) -> usize {
        self.pins.len()
    }

    /// The room that all entries take.
    pub fn usage(&self) -> Footprint {
        self.held.values().copied().sum::<Footprint>() + self.unaccounted.sum(|_| true)
    }

    /// The room that the entries of a disk take.
    pub fn disk_usage(&self, disk: u16) -> Footprint {
        let held = self.held.iter().filter(|(partition, _)| partition.disk == disk).map(|(_, held)| *held);
        held.sum::<Footprint>() + self.unaccounted.sum(|partition| partition.disk == disk)
    }

    /// The room that the entries of a quota take.
    pub fn quota_usage(&self, quota: u16) -> Footprint {
        let held = self.held.iter().filter(|(partition, _)| partition.quota == Some(quota)).map(|(_, held)| *held);
        held.sum::<Footprint>() + self.unaccounted.sum(|partition| partition.quota == Some(quota))
    }

    pub fn len(&self) -> usize {
        self.policy.entries().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries that were not used for too long at `now_ms` (milliseconds of the Unix epoch) and may go, found at `count`
    /// positions from `from` on; and the position to continue from.
    pub fn expired(&self, now_ms: i64, from: usize, count: usize) -> (Vec<EntryId>, Option<usize>) {
        let mut expired = Vec::new();
        let next = self.policy.entries().scan(from, count, &mut |facts| {
            if self.reason_to_go(facts, now_ms).is_some() {
                expired.push(facts.id);
            }
        });
        (expired, next)
    }

    /// An entry that was not used for too long at `now_ms`, from now on leaving, and why; `None` when it may not go, or was
    /// used meanwhile.
    pub(crate) fn take_expired(&mut self, id: EntryId, now_ms: i64) -> Option<(Facts, PurgeReason)> {
        let (slot, record) = self.policy.entries().of(id)?;
        if record.is_leaving || self.pins.contains_key(&id) {
            return None;
        }
        let facts = record.facts;
        let reason = self.reason_to_go(&facts, now_ms)?;
        self.leave(slot, &facts);
        Some((facts, reason))
    }

    /// The next victim within `scope`, from now on leaving.
    pub(crate) fn take_next(&mut self, scope: Scope) -> Option<Facts> {
        let held = &self.held;
        let quotas = &self.quotas;
        let is_spared = |facts: &Facts| {
            let Some(number) = facts.partition.quota else { return false };
            if matches!(scope, Scope::Quota(_)) {
                return false;
            }
            let min_bytes = quotas.get(usize::from(number)).map_or(0, |quota| quota.min_bytes);
            let of_quota = held.iter().filter(|(partition, _)| partition.quota == Some(number)).map(|(_, held)| *held);
            min_bytes > 0 && of_quota.sum::<Footprint>().bytes.saturating_sub(facts.bytes) < min_bytes
        };
        let offline = &self.offline;
        let may_go = |facts: &Facts| {
            scope.includes(facts.partition) && !offline.contains(&facts.partition.disk) && !is_spared(facts)
        };
        let (slot, facts) = self.policy.next(&may_go)?;
        self.leave(slot, &facts);
        Some(facts)
    }

    pub(crate) fn stay(&mut self, id: EntryId) {
        let Some(slot) = self.policy.entries().slot(id) else { return };
        let Some(record) = self.policy.entries_mut().get_mut(slot) else { return };
        if !std::mem::take(&mut record.is_leaving) {
            return;
        }
        *self.held.entry(record.facts.partition).or_default() += Footprint::of_facts(record.facts.bytes);
        if !self.pins.contains_key(&id) {
            self.policy.unpark(id);
        }
    }

    fn reason_to_go(&self, facts: &Facts, now_ms: i64) -> Option<PurgeReason> {
        if self.offline.contains(&facts.partition.disk) {
            return None;
        }
        self.lifetimes.reason_to_go(facts.expiry, facts.last_use_ms, now_ms)
    }

    fn is_exceeded(&self, number: u16) -> bool {
        let max_bytes = self.quotas.get(usize::from(number)).and_then(|quota| quota.max_bytes);
        max_bytes.is_some_and(|max_bytes| self.quota_usage(number).bytes > max_bytes)
    }

    fn leave(&mut self, slot: Slot, facts: &Facts) {
        self.policy.withdraw(slot);
        if let Some(record) = self.policy.entries_mut().get_mut(slot) {
            record.is_leaving = true;
        }
        *self.held.entry(facts.partition).or_default() -= Footprint::of_facts(facts.bytes);
    }
}

impl Scope {
    pub(crate) fn includes(self, partition: Partition) -> bool {
        match self {
            Self::All => true,
            Self::Disk(disk) => partition.disk == disk,
            Self::Quota(quota) => partition.quota == Some(quota),
        }
    }
}

fn hash_of(key: &CacheKey) -> u32 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    u32::try_from(hasher.finish() >> 32).unwrap_or(0)
}
