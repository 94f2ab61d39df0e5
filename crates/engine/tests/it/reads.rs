//! Reads through the whole engine: hit, missed, coalesced, bypassed.

use crate::house::{BLOCK, House, caller, check, collect, options, request, run, run_virtual, segment_bytes, until};
use forebay_engine::Error;
use forebay_origin::OriginError;
use forebay_testkit::MemoryOrigin;
use forebay_types::{ByteRange, Outcome};
use std::{sync::atomic::Ordering::SeqCst, time::Duration};

const MIB: u64 = 1 << 20;

#[test]
fn a_second_read_comes_from_disk() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), 3 * MIB + 17);
        let whole = ByteRange::at(0, 3 * MIB + 17);
        let handle = house.open("/f").await;
        check(&handle, whole).await;
        assert_eq!(house.bytes(Outcome::Missed), whole.len());
        until(|| handle.stat().cached).await;
        house.filled().await;
        let asked = house.origin.asked().len();
        check(&handle, whole).await;
        assert!(handle.hit(whole).is_some());
        assert_eq!(house.origin.asked().len(), asked);
        assert_eq!(house.bytes(Outcome::Hit), 2 * whole.len(), "one read and one hit");
    });
}

#[test]
fn bytes_that_a_reader_needs_first_are_requested_first() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let test = async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), 5 * MIB);
        let handle = house.open("/f").await;
        check(&handle, ByteRange::at(0, 1)).await;
        let before = house.origin.asked().len();
        check(&handle, ByteRange::between(MIB, 5 * MIB)).await;
        let asked = house.origin.asked();
        assert_eq!(asked[before].start(), MIB, "{asked:?}");
    };
    // In a task of a worker, which runs what it has spawned last first.
    runtime.block_on(async { tokio::spawn(test).await.unwrap() });
}

#[test]
fn a_restarted_engine_serves_without_its_origin() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        check(&house.open("/f").await, ByteRange::at(0, MIB)).await;
        house.engine.shutdown().await;
        drop(house);
        let house = House::build(root.path(), MIB);
        check(&house.open("/f").await, ByteRange::at(0, MIB)).await;
        assert_eq!((house.origin.opens(), house.bytes(Outcome::Hit)), (0, MIB));
        assert_eq!(house.engine.stat(&request("/f"), &caller()).await.unwrap().mtime, 1_700_000_000);
    });
}

#[test]
fn many_readers_of_one_cold_file_cost_one_origin_read_per_block() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), 5 * MIB);
        let readers = (0..64).map(|_| async {
            let handle = house.open("/f").await;
            check(&handle, ByteRange::at(0, 5 * MIB)).await;
        });
        let mut readers: Vec<_> = readers.map(Box::pin).collect();
        std::future::poll_fn(|context| {
            readers.retain_mut(|reader| reader.as_mut().poll(context).is_pending());
            if readers.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        let asked: u64 = house.origin.asked().iter().map(|range| range.len()).sum();
        assert_eq!((asked, house.origin.opens()), (5 * MIB, 1));
        assert_eq!(Outcome::ALL.map(|outcome| house.bytes(outcome)).iter().sum::<u64>(), 64 * 5 * MIB);
    });
}

#[test]
fn adjacent_missing_blocks_are_one_origin_request() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), 8 * MIB);
        let handle = house.open("/f").await;
        let ranges = [ByteRange::at(0, 10), ByteRange::at(BLOCK, 10), ByteRange::at(2 * BLOCK + 5, BLOCK)];
        for read in handle.read_many(&ranges) {
            collect(read).await.unwrap();
        }
        assert_eq!(house.origin.asked(), [ByteRange::at(0, 4 * BLOCK)]);
    });
}

#[test]
fn wanted_bytes_arrive_before_the_rest_of_their_block() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        house.origin.let_through(8192);
        let handle = house.open("/f").await;
        check(&handle, ByteRange::at(BLOCK + 40_960, 4096)).await;
        assert_eq!(handle.bytes(Outcome::Missed), 4096);
        house.origin.let_through(u64::MAX);
        until(|| handle.hit(ByteRange::at(BLOCK, BLOCK)).is_some()).await;
        check(&handle, ByteRange::at(BLOCK, BLOCK)).await;
    });
}

#[test]
fn scattered_reads_do_not_wait_for_the_rest_of_their_blocks() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), 128 * BLOCK);
        house.origin.let_through(4096);
        let handle = house.open("/f").await;
        let ranges: Vec<_> = (0..64).map(|block| ByteRange::at(2 * block * BLOCK, 4096)).collect();
        for read in handle.read_many(&ranges) {
            assert_eq!(collect(read).await.unwrap().len(), 4096);
        }
        let asked = house.origin.asked();
        assert_eq!(asked.iter().filter(|range| range.len() == 4096).count(), 64);
        assert!(asked.len() <= 65, "the rest of one block at a time");
        check(&handle, ByteRange::at(126 * BLOCK + 4096, 4096)).await;
        house.origin.let_through(u64::MAX);
        let blocks = || (0..64).map(|block| ByteRange::at(2 * block * BLOCK, BLOCK));
        until(|| blocks().all(|block| handle.hit(block).is_some())).await;
        assert_eq!(house.origin.asked().iter().map(|range| range.len()).sum::<u64>(), 64 * BLOCK);
        for block in blocks() {
            check(&handle, block).await;
        }
    });
}

#[test]
fn the_rest_of_a_block_waits_only_where_little_of_it_is_wanted() {
    for (wanted_len, asked_len) in [(BLOCK * 3 / 8, BLOCK), (BLOCK / 4, BLOCK / 4)] {
        run(async move {
            let root = tempfile::tempdir().unwrap();
            let house = House::build(root.path(), 16 * BLOCK);
            house.origin.let_through(0);
            let handle = house.open("/f").await;
            let ranges: Vec<_> = (0..8).map(|block| ByteRange::at(2 * block * BLOCK, wanted_len)).collect();
            let reads = handle.read_many(&ranges);
            until(|| house.origin.asked().len() == 8).await;
            assert!(
                house.origin.asked().iter().all(|range| range.len() == asked_len),
                "{wanted_len} are wanted of each"
            );
            house.origin.let_through(u64::MAX);
            for read in reads {
                assert_eq!(collect(read).await.unwrap().len() as u64, wanted_len);
            }
        });
    }
}

#[test]
fn a_reader_who_leaves_does_not_cancel_what_others_wait_for() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        house.origin.let_through(0);
        let handle = house.open("/f").await;
        let abandoned = handle.read_many(&[ByteRange::at(0, MIB)]);
        let other = house.open("/f").await;
        let waiting = other.read_many(&[ByteRange::at(0, MIB)]);
        drop((abandoned, handle));
        house.origin.let_through(u64::MAX);
        for read in waiting {
            assert_eq!(collect(read).await.unwrap().len() as u64, MIB);
        }
        assert_eq!((other.bytes(Outcome::Coalesced), house.origin.opens()), (MIB, 1));
    });
}

#[test]
fn a_failed_read_tells_why_and_a_later_one_succeeds() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        let error = OriginError::Corrupt { endpoint: MemoryOrigin::endpoint(), offset: 200_000 };
        house.origin.script(|script| script.read_error = Some((200_000, error.clone())));
        let handle = house.open("/f").await;
        let mut read = handle.read_many(&[ByteRange::at(0, MIB)]).pop().unwrap();
        let mut got = Vec::new();
        let failure = loop {
            match read.next().await.expect("the read fails before its end") {
                Ok(segment) => got.extend(segment_bytes(segment)),
                Err(error) => break error,
            }
        };
        assert_eq!(failure, Error::Origin(error));
        assert!(got == forebay_testkit::bytes_at(0, got.len()) && got.len() >= 200_000, "what came before is right");
        assert!(read.next().await.is_none());
        house.origin.script(|script| script.read_error = None);
        check(&handle, ByteRange::at(0, MIB)).await;
    });
}

#[test]
fn a_panic_in_a_fill_costs_its_readers_and_nobody_else() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        let handle = house.open("/f").await;
        house.origin.script(|script| script.panics = true);
        let read = handle.read_many(&[ByteRange::at(0, 10)]).pop().unwrap();
        assert!(matches!(collect(read).await, Err(Error::Internal { .. })));
        house.origin.script(|script| script.panics = false);
        check(&handle, ByteRange::at(0, MIB)).await;
    });
}

#[test]
fn a_budget_that_is_used_up_means_waiting_not_more_memory() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let budget_bytes = MIB;
        let origin = MemoryOrigin::new(32 * MIB);
        let small = forebay_engine::Options { budget_bytes, fill_len_max: budget_bytes / 4, ..options() };
        let house = House::build_with(root.path(), origin, small);
        let handle = house.open("/f").await;
        check(&handle, ByteRange::at(0, 32 * MIB)).await;
        assert!(house.origin.outstanding_max() <= budget_bytes);
        until(|| handle.stat().cached).await;
        assert_eq!(house.bytes(Outcome::Bypassed), 0);
        assert!(house.engine.metrics().render().unwrap().contains("forebay_budget_bytes 1048576"));
    });
}

#[test]
fn names_that_collide_with_state_files_are_passed_through() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        check(&house.open("/f.cinfo").await, ByteRange::at(5, MIB - 5)).await;
        assert_eq!(house.bytes(Outcome::Bypassed), MIB - 5);
    });
}

#[test]
fn empty_files_and_reads_of_nothing_end_at_once() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), 0);
        let handle = house.open("/f").await;
        assert_eq!(handle.size(), 0);
        check(&handle, ByteRange::at(0, 0)).await;
        assert!(house.origin.asked().is_empty());
        assert!(handle.stat().cached);
        assert_eq!(house.faults.writes.load(SeqCst), 0);
    });
}

#[test]
fn an_origin_that_falls_silent_costs_the_read_and_never_shifts_its_bytes() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), 4 * MIB);
        let bypassed = house.open("/f.cinfo").await;
        house.origin.script(|script| script.ends_at = Some(BLOCK - 10_000));
        for range in [ByteRange::at(0, 4 * MIB), ByteRange::at(BLOCK / 2, MIB)] {
            let read = bypassed.read_many(&[range]).pop().unwrap();
            assert!(collect(read).await.is_err());
        }
        let stored = house.open("/g").await;
        let read = stored.read_many(&[ByteRange::at(BLOCK / 2, 10)]).pop().unwrap();
        assert_eq!(collect(read).await.unwrap().len(), 10, "these came before the silence");
        let read = stored.read_many(&[ByteRange::at(BLOCK / 2, BLOCK)]).pop().unwrap();
        assert!(collect(read).await.is_err());
        house.origin.script(|script| script.ends_at = None);
        // The read had a second fill: reads that join it fail, until it has ended.
        while collect(stored.read_many(&[ByteRange::at(BLOCK / 2, BLOCK)]).pop().unwrap()).await.is_err() {
            tokio::task::yield_now().await;
        }
        check(&stored, ByteRange::at(0, 4 * MIB)).await;
    });
}

#[test]
fn readers_who_wait_for_memory_hold_none_that_others_wait_for() {
    const KIB: u64 = 1 << 10;
    run(async {
        let root = tempfile::tempdir().unwrap();
        let options =
            forebay_engine::Options { budget_bytes: 1536 * KIB, disk_pause: std::time::Duration::ZERO, ..options() };
        let house = House::build_with(root.path(), MemoryOrigin::new(4 * MIB), options);
        house.faults.full.store(true, SeqCst);
        let first = house.open("/1").await;
        let second = house.open("/2").await;
        let third = house.open("/3").await;
        let mut held = Vec::new();
        let mut holder = first.read_many(&[ByteRange::at(0, 576 * KIB)]).pop().unwrap();
        while let Some(segment) = holder.next().await {
            held.push(segment.unwrap());
        }
        drop(holder);
        // Of each read, the first 1 MiB finds no memory, the rest does.
        let range = ByteRange::at(0, MIB + 448 * KIB);
        let reads: Vec<_> = [&second, &third].into_iter().flat_map(|handle| handle.read_many(&[range])).collect();
        drop(held);
        for read in reads.into_iter().map(|read| tokio::spawn(collect(read))).collect::<Vec<_>>() {
            assert_eq!(read.await.unwrap().unwrap().len() as u64, range.len());
        }
    });
}

#[test]
fn an_open_waits_for_room_and_is_refused_when_there_is_none_in_time() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let open_wait_max = Duration::from_millis(100);
        let crowded = forebay_engine::Options { open_files_max: 1, open_wait_max, ..options() };
        let house = House::build_with(root.path(), MemoryOrigin::new(MIB), crowded);
        let first = house.open("/first").await;
        check(&house.open("/first").await, ByteRange::at(0, 10)).await;
        let refused = house.engine.open(&request("/second"), &caller()).await;
        assert_eq!(refused.err(), Some(Error::TooManyOpen { limit: 1 }));
        drop((first, house));
    });
    run(async {
        let root = tempfile::tempdir().unwrap();
        let crowded = forebay_engine::Options { open_files_max: 1, ..options() };
        let house = House::build_with(root.path(), MemoryOrigin::new(MIB), crowded);
        drop(house.open("/first").await);
        check(&house.open("/second").await, ByteRange::at(0, MIB)).await;
    });
}
