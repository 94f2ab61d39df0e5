//! Disks that fail, files that change, and paths that lead nowhere.

use crate::house::{BLOCK, House, caller, check, collect, options, request, run, until};
use forebay_cache::CacheKey;
use forebay_engine::{Error, Options, WritePolicy};
use forebay_origin::OriginError;
use forebay_testkit::MemoryOrigin;
use forebay_types::{ByteRange, Outcome};
use std::{sync::atomic::Ordering::SeqCst, time::Duration};

const MIB: u64 = 1 << 20;

#[test]
fn a_full_disk_is_read_past_without_fetching_again_and_again() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let options = Options { disk_pause: Duration::from_secs(3600), ..options() };
        let house = House::build_with(root.path(), MemoryOrigin::new(4 * MIB), options);
        house.faults.full.store(true, SeqCst);
        let handle = house.open("/f").await;
        for _ in 0..3 {
            check(&handle, ByteRange::at(0, 4 * MIB)).await;
            // Fills hold their bytes until their write has failed. A read that comes earlier gets them from there.
            until(|| house.engine.metrics().budget().1 == 0).await;
        }
        let writes = house.faults.writes.load(SeqCst);
        assert!((1..=4).contains(&writes), "{writes} writes were tried on a full disk");
        assert_eq!(house.bytes(Outcome::Bypassed), 8 * MIB);
        let asked: u64 = house.origin.asked().iter().map(|range| range.len()).sum();
        assert_eq!(asked, 12 * MIB);
    });
}

#[test]
fn a_disk_with_room_again_is_written_to_again() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        house.faults.full.store(true, SeqCst);
        let handle = house.open("/f").await;
        check(&handle, ByteRange::at(0, MIB)).await;
        house.faults.full.store(false, SeqCst);
        while handle.hit(ByteRange::at(0, MIB)).is_none() {
            check(&handle, ByteRange::at(0, MIB)).await;
        }
    });
}

#[test]
fn a_disk_that_takes_no_new_file_costs_only_the_keeping() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        house.faults.create_fails.store(true, SeqCst);
        let handle = house.open("/f").await;
        check(&handle, ByteRange::at(0, MIB)).await;
        check(&handle, ByteRange::at(0, MIB)).await;
        assert_eq!(house.bytes(Outcome::Hit), 0);
        assert!(!root.path().join("f").exists() && !root.path().join("f.cinfo").exists());
        house.faults.create_fails.store(false, SeqCst);
        while handle.hit(ByteRange::at(0, MIB)).is_none() {
            check(&handle, ByteRange::at(0, MIB)).await;
        }
    });
}

#[test]
fn data_that_cannot_be_synced_is_not_trusted_again() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        house.faults.sync_fails.store(true, SeqCst);
        check(&house.open("/f").await, ByteRange::at(0, MIB)).await;
        // It is created behind the answer.
        until(|| house.faults.syncs.load(SeqCst) > 0).await;
        until(|| !root.path().join("f").exists()).await;
        house.faults.sync_fails.store(false, SeqCst);
        check(&house.open("/f").await, ByteRange::at(0, MIB)).await;
        assert_eq!(house.origin.opens(), 2);
    });
}

#[test]
fn a_file_that_cannot_be_kept_now_is_opened_once_at_its_origin() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        // The maps of such a file take more than all of the memory.
        let options = Options { budget_bytes: 8 << 20, ..options() };
        let house = House::build_with(root.path(), MemoryOrigin::new(1 << 40), options);
        let handle = house.open("/f").await;
        check(&handle, ByteRange::at(0, BLOCK)).await;
        assert_eq!((house.origin.opens(), house.bytes(Outcome::Bypassed)), (1, BLOCK));
        assert!(!root.path().join("f").exists());
    });
}

#[test]
fn a_quota_that_a_sync_finds_exceeded_is_a_full_disk() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let options = Options { disk_pause: Duration::from_secs(3600), ..options() };
        let house = House::build_with(root.path(), MemoryOrigin::new(MIB), options);
        house.faults.sync_finds_no_room.store(true, SeqCst);
        check(&house.open("/f").await, ByteRange::at(0, MIB)).await;
        until(|| house.faults.syncs.load(SeqCst) > 0).await;
        until(|| !root.path().join("f").exists()).await;
        let metrics = house.engine.metrics().render().unwrap();
        assert!(metrics.contains("forebay_disk_errors_total{operation=\"sync\"} 0\n"), "{metrics}");
    });
}

#[test]
fn an_eviction_that_fails_is_an_error() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        let handle = house.open("/f").await;
        check(&handle, ByteRange::at(0, MIB)).await;
        until(|| handle.hit(ByteRange::at(0, MIB)).is_some()).await;
        house.faults.read_only.store(true, SeqCst);
        let evicted = house.engine.evict(&CacheKey::from_text("/f").unwrap(), true).await;
        assert!(matches!(evicted, Err(Error::Disk { .. })));
        assert!(root.path().join("f").exists());
    });
}

#[test]
fn a_changed_file_is_never_mixed_with_its_older_copy() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        check(&house.open("/f").await, ByteRange::at(0, BLOCK)).await;
        house.engine.shutdown().await;
        drop(house);
        let house = House::build(root.path(), MIB);
        house.origin.script(|script| script.mtime += 1);
        let old = house.open("/f").await;
        check(&old, ByteRange::at(0, BLOCK)).await;
        let read = old.read_many(&[ByteRange::at(BLOCK, 10)]).pop().unwrap();
        assert!(matches!(collect(read).await, Err(Error::Changed { .. })));
        let new = house.open("/f").await;
        check(&new, ByteRange::at(0, MIB)).await;
        check(&old, ByteRange::at(0, BLOCK)).await;
        assert_eq!(new.bytes(Outcome::Missed), MIB);
    });
}

#[test]
fn a_size_that_is_not_the_origins_is_never_served() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        check(&house.open("/f").await, ByteRange::at(0, BLOCK)).await;
        house.engine.shutdown().await;
        drop(house);
        let house = House::build(root.path(), 2 * MIB);
        let handle = house.open("/f").await;
        let read = handle.read_many(&[ByteRange::at(BLOCK, 10)]).pop().unwrap();
        assert!(matches!(collect(read).await, Err(Error::Changed { .. })));
        assert_eq!(house.open("/f").await.size(), 2 * MIB);
    });
}

#[test]
fn concurrent_opens_share_one_failure_and_later_ones_try_again() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        let error = OriginError::Unreachable { endpoint: MemoryOrigin::endpoint(), reason: "no route".to_owned() };
        house.origin.script(|script| script.open_error = Some(error.clone()));
        let path = request("/f");
        let client = caller();
        let (first, second) = tokio::join!(house.engine.open(&path, &client), house.engine.open(&path, &client));
        assert_eq!(first.err(), Some(Error::Origin(error.clone())));
        assert_eq!(second.err(), Some(Error::Origin(error)));
        assert_eq!(house.origin.opens(), 1);
        house.origin.script(|script| script.open_error = None);
        check(&house.open("/f").await, ByteRange::at(0, 10)).await;
    });
}

#[test]
fn forwarded_files_are_kept_apart_by_origin_and_checked_against_the_list() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        check(&house.open("/root://memory:1094//store/f").await, ByteRange::at(0, MIB)).await;
        until(|| root.path().join("root:/memory:1094/store/f").exists()).await;
        let denied = house.engine.open(&request("/root:/elsewhere/f"), &caller()).await;
        assert!(matches!(denied.err(), Some(Error::ForwardingDenied { .. })));
        // The list names the origin of one protocol.
        let denied = house.engine.open(&request("/https://memory:1094/f"), &caller()).await;
        assert!(matches!(denied.err(), Some(Error::ForwardingDenied { .. })));
        let unsupported = house.engine.open(&request("/roots://memory/f"), &caller()).await;
        assert!(matches!(unsupported.err(), Some(Error::Forwarding { .. })));
    });
}

#[test]
fn writers_are_sent_where_the_export_says() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        let policy = |path| house.engine.write_policy(&request(path)).unwrap();
        assert_eq!(policy("/f"), WritePolicy::Redirect(MemoryOrigin::endpoint()));
        assert_eq!(policy("/root:/memory:1094/f"), WritePolicy::Refuse);
    });
}
