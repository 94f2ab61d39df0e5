//! Entries on disk: how they are synced, given up, and what becomes of them when others meddle.

use crate::house::{BLOCK, House, caller, check, collect, open_data_files, options, request, run, until};
use forebay_cache::{ChecksumState, Cinfo};
use forebay_engine::{Error, Options, Redirects};
use forebay_testkit::MemoryOrigin;
use forebay_types::{BlockSize, ByteRange, Outcome};
use std::{
    fs,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

const MIB: u64 = 1 << 20;
const WHOLE: ByteRange = ByteRange::at(0, MIB);

/// A disk that is given up once is given up for the whole test.
fn one_long_pause() -> Options {
    Options { disk_pause: Duration::from_secs(3600), sync_interval: Duration::from_millis(10), ..options() }
}

/// Reads a whole file until it is on disk.
async fn keep(house: &House, path: &str) {
    let handle = house.open(path).await;
    check(&handle, WHOLE).await;
    until(|| handle.hit(WHOLE).is_some()).await;
}

#[test]
fn an_entry_that_somebody_removed_costs_only_itself() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build_with(root.path(), MemoryOrigin::new(MIB), one_long_pause());
        let handle = house.open("/f").await;
        check(&handle, WHOLE).await;
        until(|| handle.stat().cached).await;
        fs::remove_file(root.path().join("f")).unwrap();
        fs::remove_file(root.path().join("f.cinfo")).unwrap();
        drop(handle);
        until(|| open_data_files(root.path()) == 0).await;
        keep(&house, "/g").await;
        keep(&house, "/f").await;
        assert_eq!(house.origin.opens(), 3);
    });
}

#[test]
fn a_record_that_cannot_be_written_keeps_no_file_open_for_ever() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build_with(root.path(), MemoryOrigin::new(MIB), one_long_pause());
        house.faults.cinfo_fails.store(true, SeqCst);
        keep(&house, "/f").await;
        until(|| open_data_files(root.path()) == 0).await;
        check(&house.open("/f").await, WHOLE).await;
        assert_eq!(house.origin.opens(), 2, "what was not recorded is not trusted");
    });
}

#[test]
fn a_directory_in_the_place_of_a_record_costs_only_its_entry() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build_with(root.path(), MemoryOrigin::new(MIB), one_long_pause());
        fs::create_dir_all(root.path().join("f.cinfo")).unwrap();
        check(&house.open("/f").await, WHOLE).await;
        keep(&house, "/g").await;
        check(&house.open("/g/below").await, WHOLE).await;
        keep(&house, "/h").await;
    });
}

#[test]
fn bytes_that_could_not_be_synced_are_not_given_from_disk_again() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), 4 * MIB);
        let handle = house.open("/f").await;
        check(&handle, WHOLE).await;
        until(|| handle.hit(WHOLE).is_some()).await;
        house.engine.shutdown().await;
        drop((handle, house));

        let house = House::build(root.path(), 4 * MIB);
        house.faults.sync_fails.store(true, SeqCst);
        let handle = house.open("/f").await;
        check(&handle, WHOLE).await;
        let more = ByteRange::at(MIB, MIB);
        check(&handle, more).await;
        until(|| handle.hit(more).is_some()).await;
        let planned = handle.read_many(&[more]).pop().unwrap();
        until(|| !root.path().join("f").exists()).await;
        assert!(handle.hit(more).is_none() && handle.hit(WHOLE).is_some());
        assert!(collect(planned).await.unwrap() == forebay_testkit::bytes_at(MIB, 1 << 20));
        check(&handle, ByteRange::at(0, 4 * MIB)).await;
    });
}

#[test]
fn a_record_claims_page_checksums_only_when_all_bytes_came_with_them() {
    for verifies_to_the_end in [true, false] {
        run(async {
            let root = tempfile::tempdir().unwrap();
            let house = House::build(root.path(), MIB);
            house.origin.let_through(10_000);
            let handle = house.open("/f").await;
            let mut read = handle.read_many(&[WHOLE]).pop().unwrap();
            read.next().await.unwrap().unwrap();
            // As when the origin is lost, and the file opened again at a server without page reads.
            house.origin.script(|script| script.verifies_pages = verifies_to_the_end);
            house.origin.let_through(u64::MAX);
            until(|| handle.hit(WHOLE).is_some()).await;
            house.engine.shutdown().await;
            let record = cinfo_of(root.path(), "f");
            assert_eq!(matches!(record.checksum, ChecksumState::Net), verifies_to_the_end);
            assert_eq!(record.no_checksum_time == 0, verifies_to_the_end);
        });
    }
}

#[test]
fn a_shutdown_waits_for_a_sync_under_way() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        house.faults.sync_hangs.store(true, SeqCst);
        keep(&house, "/f").await;
        until(|| house.faults.syncs.load(SeqCst) == 1).await;
        let early = tokio::time::timeout(Duration::from_millis(200), house.engine.shutdown()).await;
        house.faults.sync_hangs.store(false, SeqCst);
        assert!(early.is_err(), "the sync had not ended");
        house.engine.shutdown().await;
        assert!(cinfo_of(root.path(), "f").is_complete());
    });
}

#[test]
fn many_files_that_gain_nothing_by_company_are_synced_beside_each_other() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        house.faults.syncs_apart.store(true, SeqCst);
        house.faults.sync_hangs.store(true, SeqCst);
        for number in 0..12 {
            keep(&house, &format!("/d/{number}")).await;
        }
        let engine = house.engine.clone();
        let stopping = tokio::spawn(async move { engine.shutdown().await });
        let eight = until(|| house.faults.syncs.load(SeqCst) >= 8);
        let eight = tokio::time::timeout(Duration::from_secs(20), eight).await;
        house.faults.sync_hangs.store(false, SeqCst);
        assert!(eight.is_ok(), "eight at a time");
        stopping.await.unwrap();
        assert_eq!(house.faults.syncs.load(SeqCst), 12);
        assert_eq!(house.faults.whole_syncs.load(SeqCst), 0);
    });
}

#[test]
fn a_client_that_leaves_while_a_file_is_opened_leaves_the_open_to_others() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        let path = request("/f");
        let client = caller();
        house.origin.answer_opens(false);
        let mut waiting = Box::pin(house.engine.open(&path, &client));
        tokio::select! {
            biased;
            () = until(|| house.origin.opens() == 1) => {}
            _ = house.engine.open(&path, &client) => panic!("the origin does not answer"),
            _ = &mut waiting => panic!("the origin does not answer"),
        }
        house.origin.answer_opens(true);
        check(&waiting.await.unwrap(), WHOLE).await;
        assert_eq!(house.origin.opens(), 1);
    });
}

#[test]
fn access_records_tell_every_byte_and_every_open() {
    const TASKS: u64 = 8;
    const OPENS: u64 = 300;
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = Arc::new(House::build(root.path(), MIB));
        keep(&house, "/f").await;
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let house = Arc::clone(&house);
                tokio::spawn(async move {
                    for _ in 0..OPENS {
                        assert!(house.open("/f").await.hit(ByteRange::at(0, 100)).is_some());
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        house.engine.shutdown().await;
        let accesses = cinfo_of(root.path(), "f").accesses;
        let bytes: u64 = accesses.iter().map(|access| access.hit_bytes + access.missed_bytes).sum();
        assert_eq!(bytes, Outcome::ALL.map(|outcome| house.bytes(outcome)).iter().sum::<u64>());
        let opens: i64 = accesses.iter().map(|access| i64::from(access.opens)).sum();
        assert_eq!(opens, i64::try_from(TASKS * OPENS + 1).unwrap());
        assert!(accesses.last().unwrap().detached.is_some());
    });
}

#[test]
fn a_file_that_changes_while_it_is_read_asks_for_another_open() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        let handle = house.open("/f").await;
        let changed = forebay_origin::OriginError::Changed { endpoint: MemoryOrigin::endpoint() };
        house.origin.script(|script| script.read_error = Some((BLOCK, changed)));
        let read = handle.read_many(&[WHOLE]).pop().unwrap();
        let error = collect(read).await.unwrap_err();
        assert!(matches!(error, Error::Changed { .. }) && error.is_retryable(), "{error:?}");
        house.origin.script(|script| script.read_error = None);
        check(&house.open("/f").await, WHOLE).await;
    });
}

#[test]
fn blocks_larger_than_the_memory_are_passed_through() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let size = 16 * MIB;
        let block_size = BlockSize::new(4 << 20).unwrap();
        let large = Options { block_size, fill_len_max: 4 * MIB, ..options() };
        let house = House::build_with(root.path(), MemoryOrigin::new(size), large);
        check(&house.open("/f").await, ByteRange::at(0, 10)).await;
        // The rest of the block follows the answer; a shutdown before it leaves nothing.
        until(|| root.path().join("f").exists()).await;
        house.engine.shutdown().await;
        drop(house);
        let small = Options { budget_bytes: 2 * MIB, ..options() };
        let house = House::build_with(root.path(), MemoryOrigin::new(size), small);
        check(&house.open("/f").await, ByteRange::at(5 * MIB, 10)).await;
        assert_eq!(house.bytes(Outcome::Bypassed), 10);
        assert_eq!(house.origin.asked(), [ByteRange::at(5 * MIB, 10)]);
    });
}

fn cinfo_of(root: &std::path::Path, name: &str) -> Cinfo {
    let bytes = fs::read(root.join(format!("{name}.cinfo"))).expect("the record is there");
    Cinfo::decode(&bytes).expect("the record is whole")
}

#[test]
fn a_file_that_is_opened_and_not_read_leaves_nothing_on_the_disk() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        let unread = house.open("/unread").await;
        keep(&house, "/read").await;
        drop(unread);
        until(|| open_data_files(root.path()) == 0).await;
        house.engine.shutdown().await;
        let exists = |name: &str| root.path().join(name).exists();
        assert!(exists("read") && exists("read.cinfo"));
        assert!(!exists("unread") && !exists("unread.cinfo"));
    });
}

#[test]
fn an_empty_file_has_an_entry_from_the_start() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), 0);
        drop(house.open("/empty").await);
        house.engine.shutdown().await;
        drop(house.open("/empty").await);
        assert!(root.path().join("empty.cinfo").exists());
    });
}

#[test]
fn a_file_above_the_size_limit_is_passed_through_and_one_at_it_is_stored() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let options = Options { file_size_max: MIB, ..options() };
        let house = House::build_with(root.path(), MemoryOrigin::new(MIB), options);
        check(&house.open("/f").await, ByteRange::at(0, MIB)).await;
        assert_eq!(house.bytes(Outcome::Missed), MIB);
        // An origin may claim any size.
        for size in [MIB + 1, 140 << 40] {
            house.origin.script(|script| script.size = size);
            check(&house.open(&format!("/{size}")).await, ByteRange::at(size - 10, 10)).await;
        }
        assert_eq!(house.bytes(Outcome::Bypassed), 20);
        assert!(!root.path().join((140_u64 << 40).to_string()).exists());
    });
}

#[test]
fn requests_of_cached_files_have_small_futures() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        let (request, caller) = (request("/f"), caller());
        let open = size_of_val(&house.engine.open_or_redirect(&request, &caller, Redirects::Never));
        let stat = size_of_val(&house.engine.stat(&request, &caller));
        // A front moves them several times; rare ways belong on the heap.
        assert!(open <= 2560 && stat <= 2048, "open {open}, stat {stat} bytes");
    });
}
