//! The size of a set of records.

use crate::{access::Accesses, replay::Unit};
use serde::Serialize;

/// Sums over all records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    pub accesses: u64,
    pub files: u64,
    pub users: u64,
    /// The first and the last access, in seconds of the Unix epoch.
    pub first: i64,
    pub last: i64,
    /// Bytes that clients got.
    pub read_bytes: u64,
    /// Bytes that a cache without limits would hold in the end.
    pub distinct_bytes: u64,
    /// Files with a single access, and what was read of them.
    pub once_files: u64,
    pub once_bytes: u64,
}

impl Summary {
    /// The sums over `accesses`, each of which brings a `unit` into a cache.
    #[must_use]
    pub fn of(accesses: &Accesses, unit: Unit) -> Self {
        let mut files = vec![(0_u64, 0_u64); accesses.files().len()];
        let mut summary = Self { users: accesses.users().len() as u64, ..Self::default() };
        for access in accesses.list() {
            summary.accesses += 1;
            summary.read_bytes = summary.read_bytes.saturating_add(access.read);
            if let Some((count, bytes)) = files.get_mut(access.file as usize) {
                *count += 1;
                *bytes = (*bytes).max(access.read);
            }
        }
        for (file, (count, bytes)) in accesses.files().iter().zip(files) {
            let held = match unit {
                Unit::Read | Unit::Block => bytes.min(file.size),
                Unit::File => file.size,
            };
            summary.files += 1;
            summary.distinct_bytes = summary.distinct_bytes.saturating_add(held);
            if count == 1 {
                summary.once_files += 1;
                summary.once_bytes = summary.once_bytes.saturating_add(held);
            }
        }
        let (first, last) = accesses.span_ms().unwrap_or_default();
        (summary.first, summary.last) = (first.div_euclid(1000), last.div_euclid(1000));
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use forebay_cache::CacheKey;

    #[test]
    fn files_count_once_and_accesses_each_time() {
        let mut accesses = Accesses::default();
        for (path, at_ms, read) in [("/a", 2000, 5), ("/b", 3500, 20), ("/a", 9000, 7)] {
            let access = Access { at_ms, file: 0, user: 0, read, saved: Access::UNKNOWN };
            accesses.add(CacheKey::from_text(path).unwrap(), Some(10), "", access).unwrap();
        }
        accesses.sort();
        let summary = Summary {
            accesses: 3,
            files: 2,
            users: 1,
            first: 2,
            last: 9,
            read_bytes: 32,
            distinct_bytes: 17,
            once_files: 1,
            once_bytes: 10,
        };
        assert_eq!(Summary::of(&accesses, Unit::Read), summary);
        assert_eq!(Summary::of(&accesses, Unit::File).distinct_bytes, 20);
    }
}
