//! Walks over a store.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use forebay_cache::{CacheKey, ChecksumState, Cinfo, Geometry};
use forebay_store::{Disk, LocalDisk, OriginMark, ScanSlice, ScannedEntry, VolumeId};
use forebay_types::{Endpoint, Validator};
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

const NAMES: [&str; 6] = ["/a/b/c", "/a/b.root", "/a.root", "/root:/origin:1094/a/b/c", "/z", "/a-b"];

fn key(name: &str) -> CacheKey {
    CacheKey::from_text(name).unwrap()
}

fn cinfo() -> Cinfo {
    Cinfo::new(Geometry::new(4096, 10_000).unwrap(), 1_700_000_000, ChecksumState::Net)
}

fn mark() -> OriginMark {
    OriginMark::new(Endpoint::new("origin.example", 1094).into(), Validator::of_mtime(1_600_000_000))
}

/// A store with an entry of each name.
fn store(root: &Path) -> LocalDisk {
    let disk = LocalDisk::open(root).unwrap();
    for name in NAMES {
        disk.create_entry(&key(name), cinfo(), Some(mark())).unwrap();
    }
    disk
}

/// Walks to the end in slices of `limit` names.
fn walk(disk: &dyn Disk, limit: usize) -> ScanSlice {
    let mut scan = disk.scan(VolumeId(0), None).unwrap();
    let mut all = ScanSlice::default();
    while !all.is_last {
        let slice = scan.next_slice(limit).unwrap();
        all.entries.extend(slice.entries);
        all.orphans += slice.orphans;
        all.unusable += slice.unusable;
        all.is_last = slice.is_last;
    }
    all
}

fn names(entries: &[ScannedEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.key.as_str()).collect()
}

#[test]
fn every_entry_is_found_once_however_small_the_slices_are() {
    let root = tempfile::tempdir().unwrap();
    let disk = store(root.path());
    disk.touch(&key("/z"), 1_650_000_000).unwrap();
    let all = walk(&disk, 1);
    assert_eq!((all.orphans, all.unusable), (0, 0));
    assert_eq!(names(&all.entries), ["/a/b/c", "/a/b.root", "/a-b", "/a.root", "/root:/origin:1094/a/b/c", "/z"]);
    assert_eq!(names(&walk(&disk, 1000).entries), names(&all.entries));
    let last = all.entries.last().unwrap();
    let entry = disk.open_entry(&key("/z")).unwrap().unwrap();
    assert_eq!((last.identity, &last.cinfo, &last.origin), (entry.data.identity(), &entry.cinfo, &entry.origin));
    assert_eq!(last.last_use, 1_650_000_000);
}

#[test]
fn foreign_files_are_counted_and_not_touched() {
    let root = tempfile::tempdir().unwrap();
    let disk = store(root.path());
    let at = |name: &str| root.path().join(name);
    // Left by XCache and by us.
    for own in ["pfc-stats/DirStat.json", ".xrdt/a", ".forebay/left"] {
        fs::create_dir_all(at(own).parent().unwrap()).unwrap();
        fs::write(at(own), "x").unwrap();
    }
    fs::write(at("a/data-alone"), "x").unwrap();
    fs::copy(at("z.cinfo"), at("a/record-alone.cinfo")).unwrap();
    fs::write(at("a.root.cinfo"), "no record").unwrap();
    fs::remove_file(at("a-b")).unwrap();
    fs::create_dir(at("a-b")).unwrap();
    fs::create_dir_all(at("d.cinfo/below")).unwrap();
    symlink("/nowhere/at/all%", at("a/link")).unwrap();
    symlink("/nowhere/at/all.cinfo%", at("a/link.cinfo")).unwrap();
    symlink(root.path(), at("a/loop")).unwrap();
    let all = walk(&disk, 3);
    assert_eq!(names(&all.entries), ["/a/b/c", "/a/b.root", "/root:/origin:1094/a/b/c", "/z"]);
    assert!(all.orphans >= 3 && all.unusable >= 1, "{all:?}");
    assert!(at("a/data-alone").exists() && at("a/record-alone.cinfo").exists());
}

#[test]
fn trees_deeper_than_a_process_has_descriptors_are_walked() {
    let root = tempfile::tempdir().unwrap();
    let disk = LocalDisk::open(root.path()).unwrap();
    let deep = format!("{}/f", "/d".repeat(1500));
    disk.create_entry(&key(&deep), cinfo(), None).unwrap();
    disk.create_entry(&key("/d/d/z"), cinfo(), None).unwrap();
    assert_eq!(names(&walk(&disk, 100).entries), [deep.as_str(), "/d/d/z"]);
}

#[test]
fn a_walk_continues_during_changes() {
    let root = tempfile::tempdir().unwrap();
    let disk = store(root.path());
    let mut scan = disk.scan(VolumeId(0), None).unwrap();
    let first = scan.next_slice(2).unwrap();
    assert!(!first.is_last);
    fs::remove_dir_all(root.path().join("a")).unwrap();
    fs::remove_dir_all(root.path().join("root:")).unwrap();
    while !scan.next_slice(2).unwrap().is_last {}
}

#[test]
fn directories_without_a_change_are_passed_over_when_that_is_wanted() {
    let root = tempfile::tempdir().unwrap();
    let disk = store(root.path());
    let changed = fs::metadata(root.path().join("a/b")).unwrap().modified().unwrap();
    let since = changed.duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed() + 1000;
    let touched = fs::File::open(root.path().join("a")).unwrap();
    touched.set_modified(UNIX_EPOCH + Duration::from_secs(since.cast_unsigned())).unwrap();
    let slice = disk.scan(VolumeId(0), Some(since)).unwrap().next_slice(1000).unwrap();
    assert_eq!(names(&slice.entries), ["/a/b.root"]);
    let slice = disk.scan(VolumeId(0), Some(since + 1)).unwrap().next_slice(1000).unwrap();
    assert!(slice.is_last && slice.entries.is_empty());
}

#[test]
fn a_large_directory_is_listed_in_pieces() {
    let root = tempfile::tempdir().unwrap();
    let disk = store(root.path());
    for number in 0..1000 {
        fs::write(root.path().join(format!("orphan-{number}")), "").unwrap();
    }
    let first = disk.scan(VolumeId(0), None).unwrap().next_slice(1).unwrap();
    assert_eq!((first.orphans, first.is_last), (0, false), "it is not listed to its end by one call");
    let all = walk(&disk, 1);
    assert_eq!((all.orphans, all.entries.len()), (1000, NAMES.len()));
}
