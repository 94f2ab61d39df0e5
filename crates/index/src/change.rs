//! A change of an entry.

use crate::record::{DiskFacts, Generation, OriginFacts};
use forebay_cache::EntryId;
use forebay_types::Checksum;
use std::collections::BTreeMap;

/// A change of one entry. Changes of one entry merge into one.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Change {
    /// The entry was removed, before all other parts of this change.
    pub(crate) removed: bool,
    /// Before all else its files were removed because they were outdated: pin and owner stay for the copy that follows.
    pub(crate) outdated: bool,
    /// The entry as it is on disk. A record of another generation is replaced by a new one with a new number, which keeps pin
    /// and owner.
    pub(crate) seen: Option<DiskFacts>,
    /// All of this was found by a walk of the disk, and yields to a record that is numbered from here on or is about the same
    /// files.
    pub(crate) walked_since: Option<EntryId>,
    /// Facts about the files of this generation, and of no other.
    pub(crate) facts: Option<(Generation, Facts)>,
    pub(crate) pinned_until: Option<Option<i64>>,
    pub(crate) owner: Option<String>,
}

/// Facts about one generation of an entry that are not in its cinfo.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Facts {
    pub origin: Option<OriginFacts>,
    /// When the copy was found to be the origin's file, in seconds of the Unix epoch.
    pub validated: Option<i64>,
    pub checksums: Vec<Checksum>,
    /// The CRC32C of blocks; `None` forgets one.
    pub block_sums: BTreeMap<u64, Option<u32>>,
}

impl Change {
    pub fn removed() -> Self {
        Self { removed: true, ..Self::default() }
    }

    /// Whether there is an entry after this change; `None` if the change does not say.
    #[must_use]
    pub fn existence(&self) -> Option<bool> {
        if self.seen.is_some() {
            return Some(true);
        }
        (self.removed || self.outdated).then_some(false)
    }

    /// The entry was removed from the disk because the origin has another content. Its pin and owner stay.
    pub fn outdated() -> Self {
        Self { outdated: true, ..Self::default() }
    }

    pub fn seen(disk: DiskFacts) -> Self {
        Self { seen: Some(disk), ..Self::default() }
    }

    /// The entry as a walk of the disk found it, which began when `since` was the next number, with the facts it read. Changes
    /// noted meanwhile is newer and stays.
    pub fn walked(disk: DiskFacts, facts: Facts, since: EntryId) -> Self {
        let generation = disk.generation;
        Self { seen: Some(disk), walked_since: Some(since), facts: Some((generation, facts)), ..Self::default() }
    }

    /// More is known of the entry's files. Ignored when the record is about others, or there is none.
    pub fn learnt(generation: Generation, facts: Facts) -> Self {
        Self { facts: Some((generation, facts)), ..Self::default() }
    }

    /// The entry is pinned until a time in seconds of the Unix epoch, or no longer.
    pub fn pinned(until: Option<i64>) -> Self {
        Self { pinned_until: Some(until), ..Self::default() }
    }

    /// The entry was fetched for this organisation. One that is known already stays.
    pub fn owned(owner: String) -> Self {
        Self { owner: Some(owner), ..Self::default() }
    }

    /// Adds what became of the entry later.
    pub fn merge(&mut self, later: Self) {
        if later.removed {
            *self = later;
            return;
        }
        if later.outdated {
            let pinned_until = self.pinned_until;
            let owner = self.owner.take();
            let removed = self.removed;
            *self = Self { removed, pinned_until, owner, ..later };
            return;
        }
        if later.seen.is_some() {
            self.seen = later.seen;
            self.walked_since = later.walked_since;
        }
        self.pinned_until = later.pinned_until.or(self.pinned_until);
        self.owner = self.owner.take().or(later.owner);
        match (&mut self.facts, later.facts) {
            (Some((generation, facts)), Some((later_generation, later))) if *generation == later_generation => {
                facts.merge(later);
            }
            (_, None) => {}
            (facts, later) => *facts = later,
        }
    }

    pub fn block_sum_count(&self) -> usize {
        self.facts.as_ref().map_or(0, |(_, facts)| facts.block_sums.len())
    }
}

impl Facts {
    fn merge(&mut self, later: Self) {
        self.origin = later.origin.or_else(|| self.origin.take());
        self.validated = later.validated.or(self.validated);
        self.checksums.retain(|sum| later.checksums.iter().all(|newer| newer.algorithm != sum.algorithm));
        self.checksums.extend(later.checksums);
        self.block_sums.extend(later.block_sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Generation = Generation { inode: 1, created: 10 };
    const NEW: Generation = Generation { inode: 2, created: 20 };

    fn disk(generation: Generation, present_bytes: u64) -> DiskFacts {
        DiskFacts { volume: 0, generation, file_size: 100, block_size: 10, present_bytes, last_use: 5, uses: 1 }
    }

    fn summed(generation: Generation, block: u64, sum: Option<u32>) -> Change {
        Change::learnt(generation, Facts { block_sums: BTreeMap::from([(block, sum)]), ..Facts::default() })
    }

    #[test]
    fn later_changes_win_field_by_field() {
        let mut change = Change::seen(disk(OLD, 10));
        change.merge(summed(OLD, 1, Some(7)));
        change.merge(summed(OLD, 2, Some(8)));
        change.merge(Change::pinned(Some(99)));
        change.merge(summed(OLD, 1, None));
        change.merge(Change::seen(disk(OLD, 20)));
        assert_eq!(change.seen, Some(disk(OLD, 20)));
        assert_eq!(change.pinned_until, Some(Some(99)));
        assert_eq!(change.facts.as_ref().unwrap().1.block_sums, BTreeMap::from([(1, None), (2, Some(8))]));
        assert_eq!(change.block_sum_count(), 2);
        change.merge(Change::pinned(None));
        assert_eq!(change.pinned_until, Some(None));
    }

    #[test]
    fn a_removal_drops_earlier_changes() {
        let mut change = Change::seen(disk(OLD, 10));
        change.merge(summed(OLD, 1, Some(7)));
        change.merge(Change::removed());
        assert_eq!(change, Change::removed());
        change.merge(Change::seen(disk(NEW, 0)));
        assert!(change.removed && change.seen.is_some());
    }

    #[test]
    fn facts_of_another_generation_replace_each_other() {
        let mut change = summed(OLD, 1, Some(7));
        change.merge(summed(NEW, 2, Some(8)));
        let (generation, facts) = change.facts.unwrap();
        assert_eq!((generation, facts.block_sums), (NEW, BTreeMap::from([(2, Some(8))])));
    }
}
