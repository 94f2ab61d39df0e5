//! The engine's knowledge of entries from its index.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use crate::house;
use crate::house::{House, check, open_data_files, options, run, run_virtual, until};
use forebay_cache::CacheKey;
use forebay_engine::{EntryInfo, IndexState, Options, Presence, Workers};
use forebay_index::{Change, DiskFacts, Index, IndexFile, IndexOptions, Record};
use forebay_testkit::MemoryOrigin;
use forebay_types::{ByteRange, Outcome};
use std::{fs, os::unix::fs::MetadataExt, path::Path, sync::Arc, time::Duration};
use tokio::task::JoinSet;

const MIB: u64 = 1 << 20;

/// A house whose index outlives it.
fn house_with_index(root: &Path) -> House {
    let index = IndexFile { path: root.join(".forebay/index"), options: IndexOptions::default() };
    let options = Options { sync_interval: Duration::from_millis(10), index: Arc::new(index), ..options() };
    House::build_with(root, MemoryOrigin::new(MIB), options)
}

fn key(path: &str) -> CacheKey {
    CacheKey::from_text(path).unwrap()
}

async fn entry(house: &House, path: &str) -> Option<EntryInfo> {
    until(|| !matches!(house.engine.index_state(), IndexState::Off | IndexState::Loading)).await;
    house.engine.entry(&key(path)).await.unwrap()
}

/// Waits until the record of an entry in the index meets a condition.
async fn entry_when(house: &House, path: &str, is_it: impl Fn(&EntryInfo) -> bool) -> EntryInfo {
    loop {
        if let Some(entry) = entry(house, path).await.filter(&is_it) {
            return entry;
        }
    }
}

#[test]
fn entries_are_told_as_they_grow_and_are_used() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house_with_index(root.path());
        assert_eq!(entry(&house, "/f").await, None);
        let handle = house.open("/f").await;
        check(&handle, ByteRange::at(0, 10)).await;
        let open = entry_when(&house, "/f", |entry| entry.record.disk.present_bytes > 0).await;
        assert_eq!(
            (open.record.disk.file_size, open.record.disk.present_bytes, open.record.disk.block_size),
            (MIB, house::BLOCK, house::BLOCK)
        );
        assert!(open.is_open && !open.record.disk.is_complete());
        assert_eq!(open.record.origin.map(|origin| origin.origin), Some(MemoryOrigin::endpoint().into()));
        check(&handle, ByteRange::at(0, MIB)).await;
        drop(handle);
        let whole = entry_when(&house, "/f", |entry| entry.record.disk.is_complete() && !entry.is_open).await;
        assert_eq!(
            (whole.record.id, whole.record.disk.present_bytes, whole.record.disk.uses),
            (open.record.id, MIB, 1)
        );

        check(&house.open("/g").await, ByteRange::at(0, 10)).await;
        entry_when(&house, "/g", |entry| entry.record.disk.present_bytes > 0).await;
        let page = house.engine.entries(None, 10).await.unwrap();
        assert_eq!(page.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["/f", "/g"]);
        assert_eq!(house.engine.entries(Some(&key("/f")), 10).await.unwrap().len(), 1);
    });
}

#[test]
fn an_index_outlives_the_process() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house_with_index(root.path());
        check(&house.open("/f").await, ByteRange::at(0, MIB)).await;
        let before = entry_when(&house, "/f", |entry| entry.record.disk.is_complete() && !entry.is_open).await;
        house.engine.shutdown().await;
        assert_eq!(house.engine.index_state(), IndexState::Off);
        drop(house);

        let house = house_with_index(root.path());
        assert_eq!(entry(&house, "/f").await, Some(before));
        assert_eq!(house.origin.opens(), 0);
    });
}

#[test]
fn an_entry_made_anew_has_another_number() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house_with_index(root.path());
        check(&house.open("/f").await, ByteRange::at(0, MIB)).await;
        let before = entry_when(&house, "/f", |entry| entry.record.disk.is_complete() && !entry.is_open).await;
        until(|| open_data_files(root.path()) == 0).await;
        fs::remove_file(root.path().join("f.cinfo")).unwrap();
        let handle = house.open("/f").await;
        check(&handle, ByteRange::at(0, 10)).await;
        let after = entry_when(&house, "/f", |entry| {
            entry.record.id != before.record.id && entry.record.disk.present_bytes > 0
        })
        .await;
        assert_eq!(after.record.disk.present_bytes, house::BLOCK);
    });
}

#[test]
fn a_file_that_changed_at_its_origin_leaves_the_index() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house_with_index(root.path());
        let handle = house.open("/f").await;
        check(&handle, ByteRange::at(0, 10)).await;
        entry_when(&house, "/f", |entry| entry.record.disk.present_bytes > 0).await;
        drop(handle);
        until(|| open_data_files(root.path()) == 0).await;
        house.origin.script(|script| script.mtime += 1);
        let handle = house.open("/f").await;
        let read = handle.read_many(&[ByteRange::at(MIB - 10, 10)]).pop().unwrap();
        assert!(house::collect(read).await.is_err());
        while entry(&house, "/f").await.is_some() {}
    });
}

async fn ready(house: &House) -> (u64, u64) {
    until(|| matches!(house.engine.index_state(), IndexState::Ready { .. })).await;
    match house.engine.index_state() {
        IndexState::Ready { files, bytes } => (files, bytes),
        other => unreachable!("ready a moment before: {other:?}"),
    }
}

#[test]
fn a_lost_or_damaged_index_is_made_again_from_the_disk() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house_with_index(root.path());
        for path in ["/a/f", "/a/g", "/b"] {
            check(&house.open(path).await, ByteRange::at(0, MIB)).await;
        }
        let before = entry_when(&house, "/a/g", |entry| entry.record.disk.is_complete() && !entry.is_open).await;
        let told_by_disk = Record { checksums: Vec::new(), ..before.record.clone() };
        house.engine.shutdown().await;
        drop(house);
        fs::write(root.path().join("a/alone"), "a file without a record").unwrap();

        for damage in [None, Some("no index")] {
            match damage {
                None => fs::remove_file(root.path().join(".forebay/index")).unwrap(),
                Some(text) => fs::write(root.path().join(".forebay/index"), text).unwrap(),
            }
            let house = house_with_index(root.path());
            assert_eq!(ready(&house).await, (3, 3 * MIB));
            let after = entry(&house, "/a/g").await.unwrap();
            let disk = DiskFacts { last_use: before.record.disk.last_use, ..after.record.disk.clone() };
            assert_eq!(Record { id: before.record.id, disk, ..after.record.clone() }, told_by_disk);
            // The record's file shows when it was written, which is a moment later.
            assert!(
                (before.record.disk.last_use..before.record.disk.last_use + 60).contains(&after.record.disk.last_use)
            );
            assert_eq!(house.origin.opens(), 0);
            house.engine.shutdown().await;
        }
    });
}

#[test]
fn entries_that_came_just_before_a_crash_are_found() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house_with_index(root.path());
        for path in ["/old/f", "/new/f"] {
            check(&house.open(path).await, ByteRange::at(0, MIB)).await;
            entry_when(&house, path, |entry| entry.record.disk.is_complete() && !entry.is_open).await;
        }
        house.engine.shutdown().await;
        drop(house);
        // As a kill between the entry's creation and its commit leaves it.
        let (index, _) = Index::open(&root.path().join(".forebay/index"), IndexOptions::default()).unwrap();
        let now = fs::metadata(root.path().join("new/f")).unwrap().mtime();
        index.begin_use().unwrap();
        index.apply(now, [(&key("/new/f"), &Change::removed())]).unwrap();
        drop(index);

        let house = house_with_index(root.path());
        while ready(&house).await != (2, 2 * MIB) {}
        house.engine.shutdown().await;
    });
}

#[test]
fn a_walk_over_the_disk_that_was_broken_off_is_begun_again() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house_with_index(root.path());
        check(&house.open("/f").await, ByteRange::at(0, MIB)).await;
        entry_when(&house, "/f", |entry| entry.record.disk.is_complete() && !entry.is_open).await;
        house.engine.shutdown().await;
        drop(house);
        let (index, _) = Index::open(&root.path().join(".forebay/index"), IndexOptions::default()).unwrap();
        index.apply(1, [(&key("/f"), &Change::removed())]).unwrap();
        index.forget_walks().unwrap();
        drop(index);

        let house = house_with_index(root.path());
        assert_eq!(ready(&house).await, (1, MIB));
    });
}

#[test]
fn an_index_that_cannot_be_opened_costs_no_read() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(".forebay/index")).unwrap();
        let house = house_with_index(root.path());
        until(|| house.engine.index_state() == IndexState::Off).await;
        check(&house.open("/f").await, ByteRange::at(0, MIB)).await;
        assert!(house.engine.entry(&key("/f")).await.is_err());
        assert!(!house.engine.metrics().render().unwrap().contains("forebay_index_errors_total 0"));
    });
}

#[test]
fn an_entry_that_the_index_does_not_know_is_found_when_the_origin_fails() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house_with_index(root.path());
        check(&house.open("/f").await, ByteRange::at(0, MIB)).await;
        entry_when(&house, "/f", |entry| entry.record.disk.is_complete() && !entry.is_open).await;
        house.engine.shutdown().await;
        drop(house);
        let (index, _) = Index::open(&root.path().join(".forebay/index"), IndexOptions::default()).unwrap();
        index.apply(0, [(&key("/f"), &Change::removed())]).unwrap();
        drop(index);

        let house = house_with_index(root.path());
        assert_eq!(ready(&house).await, (0, 0));
        house.origin.script(|script| script.open_error = Some(MemoryOrigin::no_such_file()));
        check(&house.open("/f").await, ByteRange::at(0, MIB)).await;
        assert_eq!(house.bytes(Outcome::Hit), MIB);
    });
}

#[test]
fn a_file_that_was_closed_is_on_disk_whatever_the_index_is_doing_meanwhile() {
    /// Every 10 ms one is opened again, until all of them are synced and committed.
    const FILES: u64 = 200;
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = Arc::new(slow_house(root.path()).await);
        let mut readers = JoinSet::new();
        for n in 0..FILES {
            let house = Arc::clone(&house);
            readers.spawn(async move {
                let path = format!("/f{n}");
                check(&house.open(&path).await, ByteRange::at(0, 1)).await;
                pass(10 * n).await;
                check(&house.open(&path).await, ByteRange::at(0, 1)).await;
            });
        }
        while readers.join_next().await.transpose().unwrap().is_some() {}
        assert_eq!((house.origin.opens(), house.bytes(Outcome::Missed)), (FILES, FILES));
    });
}

#[test]
fn a_commit_that_nobody_waits_for_any_more_is_accounted() {
    const FILES: u64 = 20;
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = slow_house(root.path()).await;
        for n in 0..FILES {
            let path = format!("/f{n}");
            let wait_max = Duration::from_millis(10);
            check(&house.open(&path).await, ByteRange::at(0, 1)).await;
            pass(100).await;
            assert!(tokio::time::timeout(wait_max, house.engine.entry(&key(&path))).await.is_err());
        }
        pass(2000).await;
        assert_eq!(house.engine.index_state(), IndexState::Ready { files: FILES, bytes: FILES });
    });
}

/// A house on a virtual clock whose blocking work takes 40 ms each, with its index in use.
async fn slow_house(root: &Path) -> House {
    let workers = Workers::Inline(Arc::new(|| Duration::from_millis(40)));
    let house = House::build_with(root, MemoryOrigin::new(1), Options { workers, ..options() });
    while !matches!(house.engine.index_state(), IndexState::Ready { .. }) {
        pass(1).await;
    }
    house
}

/// Lets virtual time pass.
async fn pass(milliseconds: u64) {
    // sleep: under a paused clock, it takes no time.
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

#[test]
fn a_file_is_present_from_its_first_block_until_it_is_removed() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house_with_index(root.path());
        let presence = |path: &str| house.engine.has(&house::request(path)).unwrap();
        assert_eq!(entry(&house, "/f").await, None);
        until(|| presence("/f") == Presence::No).await;
        let handle = house.open("/f").await;
        assert_eq!(presence("/f"), Presence::No, "an open file without a block has no entry");
        check(&handle, ByteRange::at(0, 10)).await;
        until(|| presence("/f") == Presence::Have).await;
        assert_eq!(presence("/g"), Presence::No);
        drop(handle);
        entry_when(&house, "/f", |entry| !entry.is_open).await;
        until(|| open_data_files(root.path()) == 0).await;
        until(|| presence("/f") == Presence::Have).await;
        house.engine.evict(&key("/f"), false).await.unwrap();
        until(|| presence("/f") == Presence::No).await;
    });
}

#[test]
fn presence_is_unknown_while_the_index_is_read() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = house_with_index(root.path());
        // On one thread, the task that reads the index has not run yet.
        assert_eq!(house.engine.index_state(), IndexState::Loading);
        assert_eq!(house.engine.has(&house::request("/f")).unwrap(), Presence::Maybe);
        until(|| house.engine.has(&house::request("/f")).unwrap() == Presence::No).await;
        house.engine.shutdown().await;
        assert_eq!(house.engine.has(&house::request("/f")).unwrap(), Presence::Maybe);
    });
}
