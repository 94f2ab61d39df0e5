//! Notes that are not committed yet.

use forebay_cache::CacheKey;
use forebay_index::Change;
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

/// Entries with notes that wait, at most: more come only while the index is not open for long.
const ENTRIES_MAX: usize = 100_000;

/// Block checksums that wait, at most. Further ones are not kept: those blocks go unchecked.
const BLOCK_SUMS_MAX: usize = 1 << 20;

/// Notes in the order of their keys, merged into one for each entry.
#[derive(Default)]
pub(crate) struct Notes {
    changes: BTreeMap<CacheKey, Change>,
    /// Notes taken out last, while they are being committed.
    committing: Arc<BTreeMap<CacheKey, Change>>,
    block_sums: usize,
    /// A note was lost: the index does not know of every entry.
    has_lost: bool,
    /// Entries that something was noted of since a slice of a walk was begun, while there is one.
    since_slice: Option<BTreeSet<CacheKey>>,
}

impl Notes {
    /// Adds a note; false when it is lost because there are too many.
    pub(crate) fn add(&mut self, key: &CacheKey, change: Change) -> bool {
        if let Some(noted) = &mut self.since_slice {
            // Also for notes that are lost below: the walk's result for the entry is outdated in any case.
            noted.insert(key.clone());
        }
        let sums = change.block_sum_count();
        // Without a lost mark: checksums are learned again at the next read, the index misses no entry.
        if sums > 0 && self.block_sums.saturating_add(sums) > BLOCK_SUMS_MAX {
            return false;
        }
        let is_full = self.changes.len() >= ENTRIES_MAX;
        match self.changes.entry(key.clone()) {
            // Merging takes no further place, so known entries are never lost.
            Entry::Occupied(mut waiting) => waiting.get_mut().merge(change),
            Entry::Vacant(_) if is_full => {
                self.has_lost = true;
                return false;
            }
            Entry::Vacant(place) => drop(place.insert(change)),
        }
        self.block_sums = self.block_sums.saturating_add(sums);
        true
    }

    /// Takes the first `limit` entries' notes out to be committed. Their outcome is noted before the next ones are taken.
    pub(crate) fn take(&mut self, limit: usize) -> Arc<BTreeMap<CacheKey, Change>> {
        let rest = match self.changes.keys().nth(limit).cloned() {
            Some(first_left) => self.changes.split_off(&first_left),
            None => BTreeMap::new(),
        };
        self.committing = Arc::new(std::mem::replace(&mut self.changes, rest));
        // Counted again rather than subtracted: merged changes may hold fewer sums than were added.
        self.block_sums = self.changes.values().map(Change::block_sum_count).sum();
        Arc::clone(&self.committing)
    }

    /// The notes taken out are in the index, and known to be there.
    pub(crate) fn note_committed(&mut self) {
        self.committing = Arc::default();
    }

    /// The notes taken out could not be committed: puts them back, before later ones.
    pub(crate) fn put_back(&mut self) {
        for (key, change) in Arc::unwrap_or_clone(std::mem::take(&mut self.committing)) {
            // The newer note is taken out first and merged last, so that it wins.
            let later = self.changes.remove(&key);
            self.add(&key, change);
            if let Some(later) = later {
                self.add(&key, later);
            }
        }
    }

    /// Whether something of the entry waits or is being committed.
    pub(crate) fn concern(&self, key: &CacheKey) -> bool {
        self.changes.contains_key(key) || self.committing.contains_key(key)
    }

    /// Whether there is an entry, by the last note that says so.
    pub(crate) fn existence(&self, key: &CacheKey) -> Option<bool> {
        let waiting = self.changes.get(key).and_then(Change::existence);
        waiting.or_else(|| self.committing.get(key).and_then(Change::existence))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Remembers that the index misses something.
    pub(crate) const fn note_lost(&mut self) {
        self.has_lost = true;
    }

    /// Whether a note was lost since this was last asked.
    pub(crate) const fn take_has_lost(&mut self) -> bool {
        std::mem::replace(&mut self.has_lost, false)
    }

    pub(crate) fn begin_slice(&mut self) {
        self.since_slice = Some(BTreeSet::new());
    }

    /// The slice has ended; the entries that something was noted of since it was begun.
    pub(crate) fn end_slice(&mut self) -> BTreeSet<CacheKey> {
        self.since_slice.take().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_index::{DiskFacts, Facts, Generation};

    fn key(n: usize) -> CacheKey {
        CacheKey::from_text(&format!("/f{n:06}")).unwrap()
    }

    fn seen() -> Change {
        let generation = Generation { inode: 1, created: 1 };
        let (file_size, block_size, present_bytes) = (100, 10, 10);
        Change::seen(DiskFacts { volume: 0, generation, file_size, block_size, present_bytes, last_use: 5, uses: 1 })
    }

    fn sums(count: u64) -> Change {
        let block_sums = (0..count).map(|block| (block, Some(0))).collect();
        Change::learnt(Generation { inode: 1, created: 1 }, Facts { block_sums, ..Facts::default() })
    }

    #[test]
    fn notes_of_an_entry_merge_and_leave_in_the_order_of_keys() {
        let mut notes = Notes::default();
        for n in [3, 1, 2, 1] {
            assert!(notes.add(&key(n), Change::pinned(Some(1))));
        }
        assert!(notes.take(2).keys().eq(&[key(1), key(2)]));
        assert!(notes.take(2).keys().eq(&[key(3)]));
        assert!(notes.is_empty());
    }

    #[test]
    fn beyond_the_limit_notes_of_new_entries_are_lost() {
        let mut notes = Notes::default();
        for n in 0..ENTRIES_MAX {
            assert!(notes.add(&key(n), Change::removed()));
        }
        assert!(!notes.take_has_lost());
        assert!(!notes.add(&key(ENTRIES_MAX), Change::removed()));
        assert!(notes.add(&key(0), Change::pinned(None)));
        assert!(notes.take_has_lost());
        assert!(!notes.take_has_lost());
    }

    #[test]
    fn beyond_the_limit_block_checksums_are_lost_and_nothing_else() {
        let mut notes = Notes::default();
        assert!(notes.add(&key(1), sums(BLOCK_SUMS_MAX as u64)));
        assert!(!notes.add(&key(2), sums(1)));
        assert!(notes.add(&key(2), Change::removed()));
        assert!(!notes.take_has_lost());
        notes.take(usize::MAX);
        assert!(notes.add(&key(2), sums(1)));
    }

    #[test]
    fn notes_that_come_back_yield_to_later_ones() {
        let mut notes = Notes::default();
        notes.add(&key(1), Change::pinned(Some(1)));
        notes.take(usize::MAX);
        notes.add(&key(1), Change::pinned(Some(2)));
        notes.put_back();
        assert_eq!(notes.take(usize::MAX)[&key(1)], Change::pinned(Some(2)));
    }

    #[test]
    fn notes_concern_an_entry_until_they_are_committed() {
        let mut notes = Notes::default();
        notes.add(&key(1), Change::removed());
        assert!(notes.concern(&key(1)) && !notes.concern(&key(2)));
        notes.take(usize::MAX);
        assert!(notes.concern(&key(1)));
        notes.put_back();
        assert!(notes.concern(&key(1)) && !notes.is_empty());
        notes.take(usize::MAX);
        notes.note_committed();
        assert!(!notes.concern(&key(1)));
    }

    #[test]
    fn the_last_note_that_says_so_decides_whether_an_entry_exists() {
        let mut notes = Notes::default();
        assert_eq!(notes.existence(&key(1)), None);
        notes.add(&key(1), seen());
        assert_eq!(notes.existence(&key(1)), Some(true));
        notes.take(usize::MAX);
        notes.add(&key(1), Change::pinned(None));
        assert_eq!(notes.existence(&key(1)), Some(true), "a pin says nothing");
        notes.add(&key(1), Change::removed());
        assert_eq!(notes.existence(&key(1)), Some(false));
        notes.add(&key(1), seen());
        assert_eq!(notes.existence(&key(1)), Some(true));
    }

    #[test]
    fn a_slice_knows_the_notes_made_during_it() {
        let mut notes = Notes::default();
        notes.add(&key(1), Change::removed());
        notes.begin_slice();
        notes.add(&key(2), Change::removed());
        assert_eq!(notes.end_slice().into_iter().collect::<Vec<_>>(), [key(2)]);
    }
}
