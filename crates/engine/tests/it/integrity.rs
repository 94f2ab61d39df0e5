//! Bytes that a disk returns are compared with those written to it.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use crate::house::{BLOCK, House, caller, check, collect, open_data_files, options, request, run, until};
use forebay_cache::{CacheKey, Cinfo};
use forebay_engine::{CheckPolicy, Error, IndexState, IntegrityOptions, Options};
use forebay_index::{IndexFile, IndexOptions};
use forebay_telemetry::{BlockCheck, ChecksumComparison};
use forebay_testkit::{MemoryOrigin, bytes_at};
use forebay_types::{BlockIndex, ByteRange, Outcome};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, atomic::Ordering::SeqCst},
};

const MIB: u64 = 1 << 20;
const WHOLE: ByteRange = ByteRange::at(0, MIB);
const BLOCKS: u64 = MIB / BLOCK;

/// Options with an index that outlives the engine.
fn with_index(root: &Path) -> Options {
    let index = IndexFile { path: root.join(".forebay/index"), options: IndexOptions::default() };
    Options { index: Arc::new(index), ..options() }
}

/// A house whose index is open.
async fn restart(root: &Path) -> House {
    let house = House::build_with(root, MemoryOrigin::new(MIB), with_index(root));
    until(|| !matches!(house.engine.index_state(), IndexState::Off | IndexState::Loading)).await;
    house
}

/// Leaves all of `/f` on disk.
async fn keep(root: &Path) {
    let house = restart(root).await;
    check(&house.open("/f").await, WHOLE).await;
    house.engine.shutdown().await;
}

/// Changes a byte on disk.
fn flip(file: &Path, offset: u64) {
    let file = File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
}

fn checked(house: &House, result: BlockCheck) -> u64 {
    house.engine.metrics().block_checks(result)
}

#[test]
fn blocks_found_on_disk_are_checked_once_and_given_from_there() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        keep(root.path()).await;
        let house = restart(root.path()).await;
        let handle = house.open("/f").await;
        assert!(handle.hit(ByteRange::at(0, 1)).is_none(), "it is not checked yet");
        let ranges = [ByteRange::at(5, 10), ByteRange::at(2 * BLOCK, BLOCK), ByteRange::at(0, MIB)];
        for read in handle.read_many(&ranges) {
            collect(read).await.unwrap();
        }
        check(&handle, WHOLE).await;
        assert!(handle.hit(WHOLE).is_some());
        assert_eq!(checked(&house, BlockCheck::Intact), BLOCKS);
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
        let is_recorded = || {
            let record = fs::read(root.path().join("f.cinfo"));
            record.is_ok_and(|record| Cinfo::decode(&record).is_ok_and(|record| record.is_complete()))
        };
        until(|| is_recorded() && open_data_files(root.path()) == 0).await;
        assert!(house.open("/f").await.hit(WHOLE).is_some());
        assert_eq!(checked(&house, BlockCheck::Learned), 0);
    });
}

#[test]
fn nothing_is_checked_when_nobody_wants_it() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        keep(root.path()).await;
        let integrity = IntegrityOptions { check: CheckPolicy::Never, ..IntegrityOptions::default() };
        let options = Options { integrity, ..with_index(root.path()) };
        let house = House::build_with(root.path(), MemoryOrigin::new(MIB), options);
        assert!(house.open("/f").await.hit(WHOLE).is_some());
    });
}

#[test]
fn a_block_that_the_disk_does_not_give_is_fetched_again() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        keep(root.path()).await;
        let house = restart(root.path()).await;
        house.faults.read_fails.store(true, SeqCst);
        let handle = house.open("/f").await;
        check(&handle, ByteRange::at(BLOCK + 7, 2 * BLOCK)).await;
        house.faults.read_fails.store(false, SeqCst);
        assert_eq!(checked(&house, BlockCheck::Unreadable), 3);
        assert_eq!((house.bytes(Outcome::Missed), house.bytes(Outcome::Hit)), (2 * BLOCK, 0));
        check(&handle, WHOLE).await;
        until(|| handle.hit(WHOLE).is_some()).await;
        assert_eq!(house.origin.asked().iter().map(|range| range.len()).sum::<u64>(), 3 * BLOCK);
    });
}

#[test]
fn an_on_disk_checksum_error_is_a_refetch_and_not_a_client_error() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        keep(root.path()).await;
        flip(&root.path().join("f"), 3 * BLOCK + 5);
        let house = restart(root.path()).await;
        let handle = house.open("/f").await;
        // Several readers at once, of one range and of several: none of them sees it, and it is fetched once.
        let part = ByteRange::between(2 * BLOCK + 1, 5 * BLOCK);
        let vector = async {
            for read in handle.read_many(&[ByteRange::at(3 * BLOCK, 10), ByteRange::at(0, 10)]) {
                collect(read).await.unwrap();
            }
        };
        tokio::join!(check(&handle, WHOLE), check(&handle, part), check(&handle, ByteRange::at(3 * BLOCK, 6)), vector);
        assert_eq!(house.origin.asked(), [ByteRange::at(3 * BLOCK, BLOCK)]);
        assert_eq!((checked(&house, BlockCheck::Damaged), checked(&house, BlockCheck::Intact)), (1, BLOCKS - 1));
        until(|| handle.hit(WHOLE).is_some()).await;
        house.engine.shutdown().await;
        drop((handle, house));

        let house = restart(root.path()).await;
        check(&house.open("/f").await, WHOLE).await;
        assert_eq!(checked(&house, BlockCheck::Intact), BLOCKS, "it was written again, with its checksum");
        assert_eq!(house.origin.opens(), 0);
    });
}

#[test]
fn a_damaged_block_is_off_the_record_before_it_is_written_again() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        keep(root.path()).await;
        flip(&root.path().join("f"), 3 * BLOCK);
        let house = restart(root.path()).await;
        house.origin.let_through(0);
        let handle = house.open("/f").await;
        let mut read = handle.read_many(&[ByteRange::at(3 * BLOCK, 10)]).pop().unwrap();
        let reading = tokio::spawn(async move { read.next().await });
        until(|| !house.origin.asked().is_empty()).await;
        let cinfo = Cinfo::decode(&fs::read(root.path().join("f.cinfo")).unwrap()).unwrap();
        assert!(!cinfo.blocks.contains(BlockIndex(3)));
        assert_eq!(cinfo.blocks.count(), BLOCKS - 1);
        house.origin.let_through(u64::MAX);
        reading.await.unwrap().unwrap().unwrap();
    });
}

#[test]
fn without_its_index_a_cache_learns_the_checksums_anew() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        keep(root.path()).await;
        fs::remove_file(root.path().join(".forebay/index")).unwrap();
        let house = restart(root.path()).await;
        check(&house.open("/f").await, WHOLE).await;
        assert_eq!(checked(&house, BlockCheck::Learned), BLOCKS);
        assert_eq!(house.origin.opens(), 0);
        house.engine.shutdown().await;
        drop(house);

        flip(&root.path().join("f"), 0);
        let house = restart(root.path()).await;
        check(&house.open("/f").await, WHOLE).await;
        assert_eq!((checked(&house, BlockCheck::Intact), checked(&house, BlockCheck::Damaged)), (BLOCKS - 1, 1));
    });
}

#[test]
fn holes_and_ends_that_are_gone_are_fetched_again() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        keep(root.path()).await;
        let data = File::options().write(true).open(root.path().join("f")).unwrap();
        data.set_len(5 * BLOCK).unwrap();
        data.set_len(MIB).unwrap();
        let house = restart(root.path()).await;
        check(&house.open("/f").await, WHOLE).await;
        assert_eq!(checked(&house, BlockCheck::Damaged), BLOCKS - 5);
        house.engine.shutdown().await;
        drop(house);

        data.set_len(5 * BLOCK).unwrap();
        let house = restart(root.path()).await;
        check(&house.open("/f").await, WHOLE).await;
        assert_eq!(house.bytes(Outcome::Missed), MIB, "data that is too short does not make an entry");
    });
}

/// Waits for the scrub that was asked for.
async fn scrubbed(house: &House) {
    house.engine.start_scrub().unwrap();
    until(|| !house.engine.scrub_state().is_running).await;
}

/// The adler32 of the file.
fn adler32() -> String {
    adler32_of(0)
}

/// The adler32 of the file with this content.
fn adler32_of(content: u8) -> String {
    let mut sum = simd_adler32::Adler32::new();
    sum.write(&MemoryOrigin::bytes_of(content, 0, usize::try_from(MIB).unwrap()));
    format!("{:08x}", sum.finish())
}

#[test]
fn a_scrub_finds_damage_that_nobody_reads() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        keep(root.path()).await;
        flip(&root.path().join("f"), 3 * BLOCK + 5);
        let house = restart(root.path()).await;
        scrubbed(&house).await;
        let state = house.engine.scrub_state();
        assert_eq!((state.files, state.bytes, state.bad_blocks), (1, MIB, 1));
        let cinfo = Cinfo::decode(&fs::read(root.path().join("f.cinfo")).unwrap()).unwrap();
        assert_eq!((cinfo.blocks.count(), cinfo.blocks.contains(BlockIndex(3))), (BLOCKS - 1, false));
        assert_eq!(house.origin.opens(), 0);
        check(&house.open("/f").await, WHOLE).await;
        assert_eq!(house.origin.asked(), [ByteRange::at(3 * BLOCK, BLOCK)]);
        scrubbed(&house).await;
    });
}

#[test]
fn a_scrub_finds_damage_in_a_file_that_is_open() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = restart(root.path()).await;
        let handle = house.open("/f").await;
        check(&handle, WHOLE).await;
        until(|| handle.stat().cached && !fs::read(root.path().join("f.cinfo")).unwrap().is_empty()).await;
        // The record names all blocks once they are synced.
        let is_recorded = || Cinfo::decode(&fs::read(root.path().join("f.cinfo")).unwrap()).unwrap().is_complete();
        until(is_recorded).await;
        flip(&root.path().join("f"), 3 * BLOCK);
        scrubbed(&house).await;
        assert_eq!(checked(&house, BlockCheck::Damaged), 1);
        assert!(handle.hit(ByteRange::at(3 * BLOCK, 1)).is_none());
        check(&handle, WHOLE).await;
        let asked = house.origin.asked();
        assert_eq!(asked.last(), Some(&ByteRange::at(3 * BLOCK, BLOCK)));
    });
}

#[test]
fn a_complete_file_tells_its_checksums_without_its_origin() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = restart(root.path()).await;
        house.origin.script(|script| script.adler32 = Some(adler32()));
        check(&house.open("/f").await, WHOLE).await;
        until(|| house.engine.metrics().checksum_comparisons(ChecksumComparison::Equal) == 1).await;
        house.engine.shutdown().await;
        drop(house);

        let house = restart(root.path()).await;
        let checksum = house.engine.checksum(&request("/f"), &caller(), None).await.unwrap();
        assert_eq!((checksum.algorithm.as_str(), checksum.value), ("adler32", adler32()));
        let crc32c = house.engine.checksum(&request("/f"), &caller(), Some("crc32c")).await.unwrap();
        let whole = bytes_at(0, usize::try_from(MIB).unwrap());
        assert_eq!(crc32c.value, format!("{:08x}", crc32c::crc32c(&whole)));
        assert_eq!(
            house.engine.checksum(&request("/f"), &caller(), Some("md5")).await.unwrap().value.len(),
            32,
            "made when asked"
        );
        assert!(
            house.engine.checksum(&request("/f"), &caller(), Some("sha1")).await.is_err(),
            "the origin does not have it"
        );
    });
}

#[test]
fn a_file_that_is_not_what_its_origin_says_is_dropped_once() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = restart(root.path()).await;
        house.origin.script(|script| script.adler32 = Some("00000bad".to_owned()));
        check(&house.open("/f").await, WHOLE).await;
        until(|| house.engine.metrics().checksum_comparisons(ChecksumComparison::Different) == 1).await;
        until(|| !root.path().join("f").exists()).await;
        check(&house.open("/f").await, WHOLE).await;
        until(|| house.engine.metrics().checksum_comparisons(ChecksumComparison::Disputed) == 1).await;
        assert_eq!(house.engine.metrics().checksum_comparisons(ChecksumComparison::Different), 1);
        assert!(root.path().join("f").exists(), "it came twice the same: the checksum is what is wrong");
    });
}

#[test]
fn a_checksum_of_the_content_before_a_change_drops_nothing() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = restart(root.path()).await;
        house.origin.script(|script| {
            (script.stale_adler32, script.adler32) = (Some("00000bad".to_owned()), Some(adler32()));
        });
        check(&house.open("/f").await, WHOLE).await;
        until(|| house.engine.metrics().checksum_comparisons(ChecksumComparison::Equal) == 1).await;
        assert_eq!(house.origin.checksums(), 2, "the answer that differs is asked for again");
        assert!(root.path().join("f").exists());
    });
}

#[test]
fn a_new_copy_is_not_blamed_for_the_checksums_of_the_one_before() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = restart(root.path()).await;
        house.origin.answer_checksums(false);
        house.origin.script(|script| script.adler32 = Some(adler32()));
        check(&house.open("/f").await, WHOLE).await;
        until(|| house.origin.checksums() == 1).await;
        // As long as it is open, the new copy gets another inode.
        let _first = File::open(root.path().join("f")).unwrap();
        house.engine.evict(&CacheKey::from_text("/f").unwrap(), true).await.unwrap();
        house.origin.script(|script| {
            (script.content, script.mtime, script.adler32) = (1, script.mtime + 1, Some(adler32_of(1)));
        });
        let handle = house.open("/f").await;
        let read = handle.read_many(&[WHOLE]).pop().unwrap();
        assert!(collect(read).await.unwrap() == MemoryOrigin::bytes_of(1, 0, usize::try_from(MIB).unwrap()));
        until(|| handle.hit(WHOLE).is_some()).await;
        drop(handle);
        house.origin.answer_checksums(true);
        let metrics = house.engine.metrics();
        until(|| metrics.checksum_comparisons(ChecksumComparison::Equal) == 1).await;
        assert_eq!(metrics.checksum_comparisons(ChecksumComparison::Different), 0);
        assert!(house.open("/f").await.hit(WHOLE).is_some(), "the new copy is kept");
    });
}

#[test]
fn a_scrub_without_an_index_is_refused_and_does_not_count_as_running() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        File::create(root.path().join("in_the_way")).unwrap();
        let index = IndexFile { path: root.path().join("in_the_way/index"), options: IndexOptions::default() };
        let options = Options { index: Arc::new(index), ..options() };
        let house = House::build_with(root.path(), MemoryOrigin::new(MIB), options);
        assert_eq!(house.engine.start_scrub(), Err(Error::NoIndex));
        assert!(!house.engine.scrub_state().is_running);
    });
}
