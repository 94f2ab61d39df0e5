//! Which keys the index has, in memory: a hint by which it is decided whether the disk or the origin is asked first.

use forebay_cache::{CacheKey, placement_hash};
use parking_lot::Mutex;
use std::collections::HashSet;

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
