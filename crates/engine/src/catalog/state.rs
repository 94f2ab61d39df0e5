//! The state of the index, and what is known from memory of its entries.

use forebay_cache::{CacheKey, placement_hash};
use forebay_index::{Applied, Index, Record};
use forebay_telemetry::IndexPhase;
use parking_lot::Mutex;
use std::{collections::HashSet, sync::Arc};

/// How the index is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IndexState {
    /// Not in use: nothing is cached, or it has failed and is opened again later.
    Off,
    Loading,
    /// In use while it is made again from the disk.
    Rebuilding {
        files: u64,
    },
    Ready {
        files: u64,
        /// Bytes of theirs that are on disk.
        bytes: u64,
    },
}

/// The index and what is known about it as a whole.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) index: Option<Arc<Index>>,
    /// `None` before it is opened for the first time.
    phase: Option<IndexPhase>,
    /// No disk is being walked over.
    has_all: bool,
    /// The last one turned out to be damaged.
    is_damaged: bool,
    files: u64,
    bytes: u64,
}

impl State {
    pub(crate) const fn tell(&self) -> IndexState {
        match self.phase {
            Some(IndexPhase::Off) => IndexState::Off,
            None | Some(IndexPhase::Loading) => IndexState::Loading,
            Some(IndexPhase::Rebuilding) => IndexState::Rebuilding { files: self.files },
            Some(IndexPhase::Ready) => IndexState::Ready { files: self.files, bytes: self.bytes },
        }
    }

    /// Whether the index is in use and has every entry.
    pub(crate) const fn has_all(&self) -> bool {
        self.index.is_some() && self.has_all
    }

    pub(crate) const fn files(&self) -> u64 {
        self.files
    }

    /// The index is open, and about to be read.
    pub(crate) fn begin(&mut self, index: Arc<Index>) {
        *self = Self { index: Some(index), phase: Some(IndexPhase::Loading), ..Self::default() };
    }

    /// The index is read and in use; whether it has every entry but those that came just before a crash, and whether it `has_all`.
    pub(crate) const fn serve(&mut self, is_complete: bool, has_all: bool) {
        if self.index.is_some() {
            self.has_all = has_all;
            self.phase = Some(if is_complete { IndexPhase::Ready } else { IndexPhase::Rebuilding });
        }
    }

    /// The index is of no use for now.
    pub(crate) fn fail(&mut self, is_damaged: bool) {
        *self = Self { phase: Some(IndexPhase::Off), is_damaged, ..Self::default() };
    }

    /// Whether the index that failed last was damaged, since this was last asked.
    pub(crate) const fn take_is_damaged(&mut self) -> bool {
        std::mem::replace(&mut self.is_damaged, false)
    }

    pub(crate) const fn add(&mut self, record: &Record) {
        self.files = self.files.saturating_add(1);
        self.bytes = self.bytes.saturating_add(record.disk.present_bytes);
    }

    pub(crate) const fn note(&mut self, applied: &Applied) {
        if let Some(before) = &applied.before {
            self.files = self.files.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(before.disk.present_bytes);
        }
        if let Some(after) = &applied.after {
            self.add(after);
        }
    }
}

/// Whether the cache has a file, or a part of it, according to what is in memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Presence {
    Have,
    /// The index is still being read or made again: ask again, or open the file.
    Maybe,
    No,
}

/// Hashes of the keys that the index has: 9 to 18 bytes each.
#[derive(Default)]
pub(super) struct Known {
    hashes: Mutex<HashSet<u64>>,
}

impl Known {
    pub(super) fn clear(&self) {
        *self.hashes.lock() = HashSet::new();
    }

    /// Notes whether the index has `key`.
    pub(super) fn note(&self, key: &CacheKey, is_there: bool) {
        let hash = hash_of(key);
        if is_there {
            self.hashes.lock().insert(hash);
        } else {
            self.hashes.lock().remove(&hash);
        }
    }

    /// Whether the index has `key`; wrong for keys that share a hash.
    pub(super) fn has(&self, key: &CacheKey) -> bool {
        self.hashes.lock().contains(&hash_of(key))
    }
}

fn hash_of(key: &CacheKey) -> u64 {
    placement_hash(key.as_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_until_they_are_gone() {
        let known = Known::default();
        let key = CacheKey::from_text("/a/b").unwrap();
        assert!(!known.has(&key));
        known.note(&key, true);
        assert!(known.has(&key));
        known.note(&key, false);
        assert!(!known.has(&key));
        known.note(&key, true);
        known.clear();
        assert!(!known.has(&key));
    }
}
