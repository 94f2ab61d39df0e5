//! Sums of accesses by name, in a list of bounded length.

use crate::{groups::Sum, label::FileResult};
use forebay_types::Outcome;
use std::collections::HashMap;

/// Name for all that is not counted by itself.
const OTHER: &str = "other";

/// One access, as sums count it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) result: FileResult,
    pub(super) is_reuse: bool,
    pub(super) bytes: [u64; Outcome::ALL.len()],
    pub(super) at: i64,
}

/// Sums of at most a number of names, and of all other ones together.
#[derive(Debug)]
pub(super) struct Sums {
    names: HashMap<String, Sum>,
    other: Sum,
    names_max: usize,
    overflow: Overflow,
}

/// Treatment of a new name at the limit of their number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Overflow {
    /// It counts under "other": names are labels of metrics, which must not disappear.
    CountElsewhere,
    /// It takes the place of the name with the fewest bytes, which counts under "other" from then on.
    ReplaceSmallest,
}

impl Access {
    /// The sum of this access alone.
    pub(super) fn sum(&self) -> Sum {
        Sum {
            accesses: 1,
            hits: u64::from(self.result == FileResult::Hit),
            reused: u64::from(self.is_reuse),
            bytes: self.bytes,
            last: self.at,
        }
    }
}

impl Sums {
    pub(super) fn new(names_max: usize, overflow: Overflow) -> Self {
        Self { names: HashMap::new(), other: Sum::default(), names_max, overflow }
    }

    /// Adds accesses under their name.
    pub(super) fn add(&mut self, name: &str, accesses: &Sum) {
        if let Some(sum) = self.names.get_mut(name) {
            return sum.add(accesses);
        }
        if self.names.len() >= self.names_max {
            if self.overflow == Overflow::CountElsewhere {
                return self.other.add(accesses);
            }
            let smallest = self.names.iter().min_by_key(|(_, sum)| sum.all_bytes()).map(|(name, _)| name.clone());
            if let Some(sum) = smallest.and_then(|name| self.names.remove(&name)) {
                self.other.add(&sum);
            }
        }
        self.names.entry(name.to_owned()).or_default().add(accesses);
    }

    /// The names with their sums, most bytes first, and last the sum of the other names, if there are any.
    pub(super) fn list(&self) -> Vec<(String, Sum)> {
        let mut list: Vec<_> = self.names.iter().map(|(name, sum)| (name.clone(), *sum)).collect();
        list.sort_by(|(a, first), (b, second)| second.all_bytes().cmp(&first.all_bytes()).then_with(|| a.cmp(b)));
        if self.other.accesses > 0 {
            list.push((OTHER.to_owned(), self.other));
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(bytes: u64, at: i64) -> Sum {
        Access { result: FileResult::Hit, is_reuse: at > 1, bytes: [bytes, 0, 0, 0], at }.sum()
    }

    #[test]
    fn names_beyond_the_limit_count_as_other() {
        let mut sums = Sums::new(2, Overflow::CountElsewhere);
        for (name, bytes) in [("a", 1), ("b", 5), ("c", 100), ("a", 2), ("d", 10)] {
            sums.add(name, &access(bytes, 1));
        }
        let list: Vec<_> = sums.list().into_iter().map(|(name, sum)| (name, sum.all_bytes(), sum.accesses)).collect();
        assert_eq!(list, [("b".to_owned(), 5, 1), ("a".to_owned(), 3, 2), ("other".to_owned(), 110, 2)]);
    }

    #[test]
    fn a_new_name_takes_the_place_of_the_smallest() {
        let mut sums = Sums::new(2, Overflow::ReplaceSmallest);
        for (name, bytes) in [("a", 1), ("b", 5), ("c", 100), ("d", 10)] {
            sums.add(name, &access(bytes, 1));
        }
        let list: Vec<_> = sums.list().into_iter().map(|(name, sum)| (name, sum.all_bytes())).collect();
        assert_eq!(list, [("c".to_owned(), 100), ("d".to_owned(), 10), ("other".to_owned(), 6)]);
    }

    #[test]
    fn a_sum_has_hits_reuse_bytes_and_the_last_access() {
        let mut sums = Sums::new(1, Overflow::CountElsewhere);
        sums.add("a", &access(4, 1));
        sums.add("a", &Access { result: FileResult::Partial, is_reuse: true, bytes: [1, 2, 3, 4], at: 7 }.sum());
        let (_, sum) = sums.list().remove(0);
        assert_eq!(sum, Sum { accesses: 2, hits: 1, reused: 1, bytes: [5, 2, 3, 4], last: 7 });
        assert_eq!((sum.hit_bytes(), sum.all_bytes()), (5, 14));
    }
}
