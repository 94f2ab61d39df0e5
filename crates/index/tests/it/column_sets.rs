//! Learned sets of columns in an index.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use forebay_index::{InMemoryBackend, Index, IndexOptions, SetBounds, StoredSet};

const BOUNDS: SetBounds = SetBounds { count_max: 10, oldest: None };

fn index() -> Index {
    Index::with_backend(InMemoryBackend::new(), IndexOptions::default()).unwrap().0
}

fn set(number: i64) -> StoredSet {
    StoredSet {
        key: format!("/store{number:02}\0Events"),
        last_use: number,
        bytes: vec![u8::try_from(number).unwrap(); 3],
    }
}

fn keys(index: &Index) -> Vec<String> {
    index.column_sets(None, usize::MAX).unwrap().into_iter().map(|set| set.key).collect()
}

#[test]
fn sets_are_found_listed_and_replaced() {
    let index = index();
    assert_eq!(index.column_set("/store01\0Events").unwrap(), None);
    assert!(keys(&index).is_empty());
    index.put_column_sets(&[set(2), set(1), set(3)], BOUNDS).unwrap();
    assert_eq!(index.column_set(&set(2).key).unwrap(), Some(vec![2; 3]));
    assert_eq!(index.column_sets(Some(&set(1).key), 1).unwrap(), [set(2)]);
    index.put_column_sets(&[StoredSet { bytes: vec![9], ..set(2) }], BOUNDS).unwrap();
    assert_eq!(index.column_set(&set(2).key).unwrap(), Some(vec![9]));
    assert_eq!(index.remove_column_sets(|key| key != set(3).key).unwrap(), 2);
    assert_eq!(keys(&index), [set(3).key]);
}

#[test]
fn beyond_the_limit_those_unused_for_longest_are_removed() {
    let index = index();
    let sets: Vec<StoredSet> = (0..10).map(set).collect();
    index.put_column_sets(&sets, BOUNDS).unwrap();
    assert_eq!(keys(&index).len(), 10);
    index.put_column_sets(&[StoredSet { last_use: 20, ..set(0) }, set(11)], BOUNDS).unwrap();
    assert_eq!(keys(&index), [0, 3, 4, 5, 6, 7, 8, 9, 11].map(|number| set(number).key));
}

#[test]
fn old_ones_are_removed_when_that_is_asked_for() {
    let index = index();
    index.put_column_sets(&[set(4), set(5)], SetBounds { oldest: Some(5), ..BOUNDS }).unwrap();
    assert_eq!(keys(&index), [set(5).key]);
}
