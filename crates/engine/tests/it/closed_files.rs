//! Files that are opened again some time after they were closed: nothing of them is read again, whatever happened meanwhile is noticed.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use crate::house::{House, check, open_data_files, options, run, run_virtual, until};
use forebay_cache::{CacheKey, Cinfo};
use forebay_engine::Options;
use forebay_testkit::MemoryOrigin;
use forebay_types::ByteRange;
use std::{fs, path::Path, time::Duration};

const MIB: u64 = 1 << 20;
const WHOLE: ByteRange = ByteRange::at(0, MIB);

/// A house whose files are on disk soon, and the uses of them after `uses_interval`.
fn house(root: &Path, uses_interval: Duration) -> House {
    let options = Options { sync_interval: Duration::from_millis(10), uses_interval, ..options() };
    House::build_with(root, MemoryOrigin::new(MIB), options)
}

const NEVER: Duration = Duration::from_secs(3600);

/// Has a file fetched, and waits until it is closed.
async fn keep(house: &House, root: &Path, path: &str) {
    use_again(house, root, path).await;
    house.filled().await;
}

/// Reads a whole file, and waits until it is closed.
async fn use_again(house: &House, root: &Path, path: &str) {
    let handle = house.open(path).await;
    check(&handle, WHOLE).await;
    until(|| handle.hit(WHOLE).is_some()).await;
    drop(handle);
    until(|| open_data_files(root) == 0).await;
}

fn record(root: &Path, name: &str) -> Cinfo {
    Cinfo::decode(&fs::read(root.join(name)).unwrap()).unwrap()
}

/// Opens in the history of a record.
fn opens_of(cinfo: &Cinfo) -> i32 {
    cinfo.accesses.iter().map(|access| access.opens).sum()
}

#[test]
fn a_file_that_was_closed_is_opened_again_without_its_record() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), NEVER);
        keep(&house, root.path(), "/f").await;
        // Not a record: an open that reads it removes the entry.
        fs::write(root.path().join("f.cinfo"), b"nothing").unwrap();
        use_again(&house, root.path(), "/f").await;
        assert_eq!(house.origin.opens(), 1);
        assert_eq!(fs::read(root.path().join("f.cinfo")).unwrap(), b"nothing", "a use alone writes nothing");
    });
}

#[test]
fn the_first_use_of_an_empty_file_is_recorded() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let options = Options { uses_interval: NEVER, ..options() };
        let house = House::build_with(root.path(), MemoryOrigin::new(0), options);
        drop(house.open("/f").await);
        until(|| open_data_files(root.path()) == 0).await;
        let record = record(root.path(), "f.cinfo");
        assert_eq!((record.access_count, opens_of(&record)), (1, 1));
    });
}

#[test]
fn files_leave_the_table_as_others_are_closed() {
    const FILES: usize = 4500;
    // Some of each part of the table stay until the next regular look at all files.
    const LEFT_MAX: usize = 64 * 64;
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let options = Options { uses_interval: NEVER, ..options() };
        let house = House::build_with(root.path(), MemoryOrigin::new(100), options);
        let paths: Vec<String> = (0..FILES).map(|number| format!("/d/{number}")).collect();
        for path in &paths {
            check(&house.open(path).await, ByteRange::at(0, 100)).await;
        }
        while open_data_files(root.path()) > 0 {
            // sleep: by the virtual clock, which stands still in a loop that only yields.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        for path in &paths {
            drop(house.open(path).await);
        }
        // Time stands still while a task is ready: there is no regular look in the meantime.
        until(|| open_data_files(root.path()) <= LEFT_MAX).await;
        assert_eq!(house.origin.opens(), FILES as u64);
    });
}

#[test]
fn files_that_others_removed_are_fetched_again() {
    for names in [&["f", "f.cinfo"][..], &["f"], &["f.cinfo"]] {
        run(async {
            let root = tempfile::tempdir().unwrap();
            let house = house(root.path(), NEVER);
            keep(&house, root.path(), "/f").await;
            names.iter().for_each(|name| fs::remove_file(root.path().join(name)).unwrap());
            check(&house.open("/f").await, WHOLE).await;
            assert_eq!(house.origin.opens(), 2, "{names:?}");
        });
    }
}

#[test]
fn a_file_in_a_space_of_xcache_keeps_its_history() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let space = tempfile::tempdir().unwrap();
        let house = house(root.path(), Duration::from_millis(300));
        keep(&house, root.path(), "/f").await;
        let (data, there) = (root.path().join("f"), space.path().join("data%"));
        // As XCache has it; a link into a space is not followed by the short way to a file.
        fs::copy(&data, &there).unwrap();
        fs::remove_file(&data).unwrap();
        std::os::unix::fs::symlink(&there, &data).unwrap();
        let path = root.path().join("f.cinfo");
        let opens = || fs::read(&path).ok().and_then(|bytes| Cinfo::decode(&bytes).ok()).map(|cinfo| opens_of(&cinfo));
        for opened in 2..5 {
            check(&house.open("/f").await, WHOLE).await;
            until(|| opens() == Some(opened)).await;
        }
        assert_eq!(house.origin.opens(), 1);
    });
}

#[test]
fn uses_are_one_access_record_and_are_written_after_a_while() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), Duration::from_millis(300));
        keep(&house, root.path(), "/f").await;
        let path = root.path().join("f.cinfo");
        for _ in 0..3 {
            use_again(&house, root.path(), "/f").await;
        }
        until(|| fs::read(&path).is_ok_and(|bytes| Cinfo::decode(&bytes).is_ok_and(|cinfo| opens_of(&cinfo) == 4)))
            .await;
        let cinfo = record(root.path(), "f.cinfo");
        assert_eq!((cinfo.access_count, cinfo.is_complete()), (4, true));
        assert!(cinfo.accesses.last().unwrap().detached.is_some());
        let hit: u64 = cinfo.accesses.iter().map(|access| access.hit_bytes).sum();
        assert!(hit >= 3 * MIB, "{:?}", cinfo.accesses);
    });
}

#[test]
fn uses_are_written_by_a_shutdown() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), NEVER);
        for path in ["/d/f", "/d/g"] {
            keep(&house, root.path(), path).await;
            use_again(&house, root.path(), path).await;
        }
        house.engine.shutdown().await;
        for name in ["d/f.cinfo", "d/g.cinfo"] {
            let cinfo = record(root.path(), name);
            assert_eq!((cinfo.access_count, opens_of(&cinfo)), (2, 2), "{name}");
        }
    });
}

#[test]
fn the_index_has_uses_that_are_not_on_disk() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), NEVER);
        keep(&house, root.path(), "/f").await;
        use_again(&house, root.path(), "/f").await;
        let key = CacheKey::from_text("/f").unwrap();
        let entry = house.engine.entry(&key).await.unwrap().unwrap();
        assert_eq!(entry.record.disk.uses, 2);
        assert_eq!(house.engine.record(&key).await.unwrap().access_count, 2);
    });
}

#[test]
fn an_evicted_file_does_not_come_back() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), NEVER);
        keep(&house, root.path(), "/f").await;
        use_again(&house, root.path(), "/f").await;
        house.engine.evict(&CacheKey::from_text("/f").unwrap(), false).await.unwrap();
        assert!(!root.path().join("f").exists());
        check(&house.open("/f").await, WHOLE).await;
        assert_eq!(house.origin.opens(), 2);
        house.engine.shutdown().await;
        assert_eq!(record(root.path(), "f.cinfo").access_count, 1, "its history begins again");
    });
}
