//! Records of entries in an index.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use forebay_cache::{CacheKey, EntryId};
use forebay_index::{
    Applied, Change, DiskFacts, Facts, Found, Generation, InMemoryBackend, Index, IndexOptions, OriginFacts,
    SUMS_PER_CHUNK,
};
use forebay_types::{Checksum, Endpoint, Validator};
use std::{collections::BTreeMap, path::Path};

/// In seconds of the Unix epoch.
const NOW: i64 = 1_700_000_000;

const OLD: Generation = Generation { inode: 1, created: 100 };
const NEW: Generation = Generation { inode: 2, created: 200 };

fn index() -> Index {
    let (index, found) = Index::with_backend(InMemoryBackend::new(), IndexOptions::default()).unwrap();
    assert_eq!(found, Found::Fresh);
    index
}

fn key(name: &str) -> CacheKey {
    CacheKey::from_text(name).unwrap()
}

fn disk(generation: Generation, present_bytes: u64) -> DiskFacts {
    DiskFacts { volume: 0, generation, file_size: 1000, block_size: 100, present_bytes, last_use: 5, uses: 1 }
}

fn apply(index: &Index, name: &str, change: Change) -> Option<Applied> {
    let mut applied = index.apply(NOW, [(&key(name), &change)]).unwrap();
    assert!(applied.len() <= 1);
    applied.pop()
}

fn sums(generation: Generation, sums: &[(u64, Option<u32>)]) -> Change {
    let block_sums = sums.iter().copied().collect::<BTreeMap<_, _>>();
    Change::learnt(generation, Facts { block_sums, ..Facts::default() })
}

#[test]
fn entries_are_numbered_once_and_found_by_key_and_number() {
    let index = index();
    let added = apply(&index, "/a", Change::seen(disk(OLD, 0))).unwrap();
    assert_eq!(added.before, None);
    let id = added.after.unwrap().id;
    let grown = apply(&index, "/a", Change::seen(disk(OLD, 500))).unwrap().after.unwrap();
    assert_eq!((grown.id, grown.disk.present_bytes), (id, 500));
    assert_eq!(index.get(&key("/a")).unwrap().unwrap(), grown);
    assert_eq!(index.get_id(id).unwrap().unwrap(), (key("/a"), grown));
    assert_eq!(apply(&index, "/a", Change::seen(disk(OLD, 500))), None);

    assert_eq!(apply(&index, "/a", Change::removed()).unwrap().after, None);
    assert_eq!(apply(&index, "/a", Change::removed()), None);
    assert_eq!((index.get(&key("/a")).unwrap(), index.get_id(id).unwrap()), (None, None));
    assert_ne!(apply(&index, "/a", Change::seen(disk(OLD, 0))).unwrap().after.unwrap().id, id);
}

#[test]
fn another_generation_is_another_entry_that_keeps_pin_and_owner() {
    let index = index();
    let mut change = Change::seen(disk(OLD, 100));
    change.merge(Change::pinned(Some(77)));
    change.merge(Change::owned("cms".to_owned()));
    change.merge(Change::learnt(
        OLD,
        Facts {
            origin: Some(OriginFacts { origin: Endpoint::new("o", 1).into(), validator: Validator::of_mtime(3) }),
            validated: Some(4),
            checksums: vec![Checksum::new("md5", "00")],
            block_sums: BTreeMap::from([(0, Some(9))]),
        },
    ));
    let old = apply(&index, "/a", change).unwrap().after.unwrap();
    assert_eq!((old.validated, old.checksum("md5")), (Some(4), Some("00")));
    assert_eq!(index.block_sums(old.id, 0).unwrap().get(0), Some(9));

    let replaced = apply(&index, "/a", Change::seen(disk(NEW, 0))).unwrap();
    let new = replaced.after.unwrap();
    assert_eq!(replaced.before.unwrap().id, old.id);
    assert_ne!(new.id, old.id);
    assert_eq!((new.pinned_until, new.owner.as_deref()), (Some(77), Some("cms")));
    assert_eq!((new.origin, new.validated, new.checksums), (None, None, Vec::new()));
    assert_eq!(index.get_id(old.id).unwrap(), None);
    assert!(index.block_sums(old.id, 0).unwrap().is_empty());
}

#[test]
fn recreated_files_get_another_number_even_in_the_same_inode() {
    let index = index();
    let before = apply(&index, "/f", Change::seen(disk(OLD, 50))).unwrap().after.unwrap();
    let mut again = Change::outdated();
    again.merge(Change::seen(disk(OLD, 0)));
    let after = apply(&index, "/f", again).unwrap().after.unwrap();
    assert_ne!(after.id, before.id);
    assert_eq!(after.disk, disk(OLD, 0));
}

#[test]
fn an_outdated_copy_leaves_pin_and_owner_to_the_next_one() {
    let index = index();
    let mut change = Change::seen(disk(OLD, 100));
    change.merge(Change::pinned(Some(77)));
    let old = apply(&index, "/pinned", change).unwrap().after.unwrap();
    apply(&index, "/plain", Change::seen(disk(OLD, 100)));
    let waiting = apply(&index, "/pinned", Change::outdated()).unwrap().after.unwrap();
    assert_eq!((waiting.disk.present_bytes, waiting.pinned_until), (0, Some(77)));
    assert_ne!(waiting.id, old.id);
    assert_eq!(apply(&index, "/plain", Change::outdated()).unwrap().after, None);
    let mut both = Change::outdated();
    both.merge(Change::seen(disk(NEW, 50)));
    let new = apply(&index, "/pinned", both).unwrap().after.unwrap();
    assert_eq!((new.disk.generation, new.pinned_until), (NEW, Some(77)));
}

#[test]
fn facts_about_other_files_are_ignored() {
    let index = index();
    assert_eq!(apply(&index, "/a", sums(OLD, &[(0, Some(1))])), None);
    let id = apply(&index, "/a", Change::seen(disk(NEW, 0))).unwrap().after.unwrap().id;
    assert_eq!(apply(&index, "/a", sums(OLD, &[(0, Some(1))])), None);
    assert!(index.block_sums(id, 0).unwrap().is_empty());
}

#[test]
fn block_checksums_are_noted_and_forgotten_one_by_one() {
    let index = index();
    let id = apply(&index, "/a", Change::seen(disk(OLD, 0))).unwrap().after.unwrap().id;
    apply(&index, "/a", sums(OLD, &[(0, Some(1)), (1, Some(2)), (SUMS_PER_CHUNK, Some(3))]));
    apply(&index, "/a", sums(OLD, &[(1, None), (2, Some(4))]));
    let first = index.block_sums(id, 0).unwrap();
    assert_eq!((first.get(0), first.get(1), first.get(2)), (Some(1), None, Some(4)));
    assert_eq!(index.block_sums(id, 1).unwrap().get(0), Some(3));
    assert!(index.block_sums(id, 2).unwrap().is_empty());
}

#[test]
fn pages_come_in_the_order_of_keys() {
    let index = index();
    let names = ["/b", "/a/z", "/root:/o:1094/a", "/a", "/a-b"];
    let keys: Vec<CacheKey> = names.iter().map(|name| key(name)).collect();
    let change = Change::seen(disk(OLD, 0));
    index.apply(NOW, keys.iter().map(|key| (key, &change))).unwrap();
    let mut seen = Vec::new();
    while let Some((last, _)) = {
        let page = index.page(seen.last(), 2).unwrap();
        seen.extend(page.iter().map(|(key, _)| key.clone()));
        page.last().cloned()
    } {
        assert_eq!(Some(&last), seen.last());
    }
    assert_eq!(seen.iter().map(CacheKey::as_str).collect::<Vec<_>>(), ["/a", "/a-b", "/a/z", "/b", "/root:/o:1094/a"]);
    assert_eq!(index.count().unwrap(), 5);
}

#[test]
fn a_walk_yields_to_changes_noted_meanwhile() {
    let index = index();
    apply(&index, "/stale", Change::seen(disk(OLD, 10)));
    let since = index.next_id();
    apply(&index, "/noted", Change::seen(disk(NEW, 20)));
    apply(&index, "/stale", Change::pinned(Some(1)));
    for name in ["/noted", "/new"] {
        apply(&index, name, Change::walked(disk(OLD, 30), Facts::default(), since));
    }
    apply(&index, "/stale", Change::walked(disk(NEW, 40), Facts::default(), since));
    let present = |name: &str| index.get(&key(name)).unwrap().unwrap().disk.present_bytes;
    assert_eq!((present("/noted"), present("/new"), present("/stale")), (20, 30, 40));
    // The same files: what was noted of them is newer than what the walk saw.
    apply(&index, "/new", Change::seen(disk(OLD, 50)));
    apply(&index, "/new", Change::walked(disk(OLD, 30), Facts::default(), index.next_id()));
    assert_eq!(present("/new"), 50);
}

#[test]
fn writers_at_the_same_time_give_no_number_twice() {
    let index = index();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let index = &index;
            scope.spawn(move || {
                for number in 0..50 {
                    apply(index, &format!("/{writer}/{number}"), Change::seen(disk(OLD, 1)));
                    index.forget_missed().unwrap();
                }
            });
        }
    });
    let ids: Vec<_> = index.page(None, 1000).unwrap().iter().map(|(_, record)| record.id).collect();
    assert_eq!(ids.len(), 200);
    let keys = index.keys(&ids).unwrap();
    assert!(keys.iter().all(Option::is_some));
    assert_eq!(keys.iter().collect::<std::collections::BTreeSet<_>>().len(), 200);
}

#[test]
fn numbers_and_walks_outlive_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own/index");
    let (index, found) = Index::open(&path, IndexOptions::default()).unwrap();
    let (first, second) = (Path::new("/one"), Path::new("/two"));
    assert_eq!((found, index.is_walked(0, first).unwrap()), (Found::Fresh, false));
    apply(&index, "/a", Change::seen(disk(OLD, 0)));
    apply(&index, "/a", Change::removed());
    index.set_walked(0, first).unwrap();
    index.set_walked(1, second).unwrap();
    drop(index);
    let (index, found) = Index::open(&path, IndexOptions::default()).unwrap();
    assert_eq!((found, index.next_id()), (Found::Existing, EntryId(1)));
    assert!(index.is_walked(0, first).unwrap() && index.is_walked(1, second).unwrap());
    assert!(!index.is_walked(1, first).unwrap(), "the disks have changed places");
    index.forget_walks().unwrap();
    assert!(!index.is_walked(0, first).unwrap() && !index.is_walked(1, second).unwrap());
}

#[test]
fn an_index_that_was_not_closed_may_have_missed_changes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    let reopened = || {
        let index = Index::open(&path, IndexOptions::default()).unwrap().0;
        index.begin_use().unwrap();
        index
    };
    let index = reopened();
    assert_eq!(index.missed_since().unwrap(), None);
    apply(&index, "/a", Change::seen(disk(OLD, 0)));
    index.end_use().unwrap();
    drop(index);
    let index = reopened();
    assert_eq!(index.missed_since().unwrap(), None);
    drop(index);
    let index = reopened();
    assert_eq!(index.missed_since().unwrap(), Some(NOW));
    index.apply(NOW + 9, [(&key("/b"), &Change::seen(disk(OLD, 0)))]).unwrap();
    drop(index);
    let index = reopened();
    assert_eq!(index.missed_since().unwrap(), Some(NOW), "no walk since then");
    index.forget_missed().unwrap();
    index.end_use().unwrap();
    drop(index);
    assert_eq!(reopened().missed_since().unwrap(), None);
}
