//! What a disk gives back is compared with what was written to it.

mod house;

use forebay_engine::{CheckPolicy, IntegrityOptions, Options};
use forebay_telemetry::BlockCheck;
use forebay_testkit::MemoryOrigin;
use forebay_types::{ByteRange, Outcome};
use house::{BLOCK, House, check, collect, open_data_files, options, run, until};
use std::{path::Path, sync::atomic::Ordering::SeqCst};

const MIB: u64 = 1 << 20;
const WHOLE: ByteRange = ByteRange::at(0, MIB);
const BLOCKS: u64 = MIB / BLOCK;

/// Leaves all of `/f` on disk.
async fn keep(root: &Path) {
    let house = House::build(root, MIB);
    check(&house.open("/f").await, WHOLE).await;
    house.engine.shutdown().await;
}

fn checked(house: &House, result: BlockCheck) -> u64 {
    house.engine.metrics().block_checks(result)
}

#[test]
fn blocks_found_on_disk_are_checked_once_and_given_from_there() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        keep(root.path()).await;
        let house = House::build(root.path(), MIB);
        let handle = house.open("/f").await;
        assert!(handle.hit(ByteRange::at(0, 1)).is_none(), "nobody has looked at it yet");
        let ranges = [ByteRange::at(5, 10), ByteRange::at(2 * BLOCK, BLOCK), ByteRange::at(0, MIB)];
        for read in handle.read_many(&ranges) {
            collect(read).await.unwrap();
        }
        check(&handle, WHOLE).await;
        assert!(handle.hit(WHOLE).is_some());
        assert_eq!(checked(&house, BlockCheck::Intact) + checked(&house, BlockCheck::Learned), BLOCKS);
        assert_eq!(house.bytes(Outcome::Missed), 0);
        assert_eq!(house.origin.opens(), 0, "the origin was not needed");
    });
}

#[test]
fn a_file_that_is_opened_again_is_not_checked_again() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = House::build(root.path(), MIB);
        check(&house.open("/f").await, WHOLE).await;
        until(|| open_data_files(root.path()) == 0).await;
        assert!(house.open("/f").await.hit(WHOLE).is_some());
        assert_eq!(checked(&house, BlockCheck::Learned), 0);
    });
}

#[test]
fn nothing_is_checked_when_nobody_wants_it() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        keep(root.path()).await;
        let integrity = IntegrityOptions { check: CheckPolicy::Never };
        let house = House::build_with(root.path(), MemoryOrigin::new(MIB), Options { integrity, ..options() });
        assert!(house.open("/f").await.hit(WHOLE).is_some());
    });
}

#[test]
fn a_block_that_the_disk_does_not_give_is_fetched_again() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        keep(root.path()).await;
        let house = House::build(root.path(), MIB);
        house.faults.read_fails.store(true, SeqCst);
        let handle = house.open("/f").await;
        check(&handle, ByteRange::at(BLOCK + 7, 2 * BLOCK)).await;
        house.faults.read_fails.store(false, SeqCst);
        assert_eq!(checked(&house, BlockCheck::Unreadable), 3);
        assert_eq!((house.bytes(Outcome::Missed), house.bytes(Outcome::Hit)), (2 * BLOCK, 0));
        check(&handle, WHOLE).await;
        assert!(handle.hit(WHOLE).is_some());
        assert_eq!(house.origin.asked().iter().map(|range| range.len()).sum::<u64>(), 3 * BLOCK);
    });
}
