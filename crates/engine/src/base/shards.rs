//! State that is divided by key, so that threads that work on different keys rarely wait for each other.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    iter,
};

/// Parts of a table; each key belongs to one of them, the same in every run.
#[derive(Debug)]
pub(crate) struct Shards<T> {
    first: Line<T>,
    others: Box<[Line<T>]>,
}

/// Starts at a cache line of its own: a lock must not slow down the use of the next one.
#[derive(Debug)]
#[repr(align(64))]
struct Line<T>(T);

/// Parts of a table that all threads use: with as many threads, two rarely want the same one.
pub(crate) const SHARDS: usize = 64;

impl<T> Shards<T> {
    /// `count` parts, at least one.
    pub(crate) fn new(count: usize, part: impl Fn() -> T) -> Self {
        let others = (1..count.max(1)).map(|_| Line(part())).collect();
        Self { first: Line(part()), others }
    }

    pub(crate) fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// The part that `key` belongs to.
    pub(crate) fn of(&self, key: &(impl Hash + ?Sized)) -> &T {
        if self.others.is_empty() {
            return &self.first.0;
        }
        // Clients choose the names of files, and may so have them all in one part. That costs waiting, as without parts.
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let position = usize::try_from(hasher.finish() % self.len() as u64).unwrap_or(0);
        &self.others.get(position).unwrap_or(&self.first).0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        iter::once(&self.first).chain(&self.others).map(|line| &line.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn each_key_has_one_part_and_all_parts_have_keys() {
        for count in [0, 1, 5, SHARDS] {
            let numbers = std::cell::Cell::new(0);
            let shards = Shards::new(count, || numbers.replace(numbers.get() + 1));
            let mut keys: BTreeMap<i32, u32> = BTreeMap::new();
            for key in 0..10_000 {
                assert_eq!(shards.of(&key), shards.of(&key));
                *keys.entry(*shards.of(&key)).or_default() += 1;
            }
            assert_eq!((keys.len(), shards.iter().count()), (shards.len(), count.max(1)));
            let expected = 10_000 / u32::try_from(shards.len()).unwrap();
            assert!(keys.values().all(|keys| (expected / 2..=expected * 2).contains(keys)), "{keys:?}");
        }
    }
}
