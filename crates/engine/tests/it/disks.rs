//! Several disks, of which one fails.
#![allow(clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use crate::house::{BLOCK, House, check, collect, options, run, run_virtual, until};
use forebay_cache::{Health, HealthLimits};
use forebay_engine::{DecisionOptions, IndexState, Options, Workers};
use forebay_index::{Change, Index, IndexFile, IndexOptions};
use forebay_origin::OriginError;
use forebay_store::{DiskSet, StoreError, VolumeSpec};
use forebay_testkit::{DiskFaults, FaultyDisk, MemoryOrigin};
use forebay_types::{ByteRange, Outcome};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

const MIB: u64 = 1 << 20;

/// An engine on two disks, and the faults of each.
fn house_of_two(root: &Path, size: u64) -> (House, Vec<Arc<DiskFaults>>) {
    house_of(root, size, HealthLimits::default())
}

/// The same with other limits of the disks.
fn house_of(root: &Path, size: u64, limits: HealthLimits) -> (House, Vec<Arc<DiskFaults>>) {
    let mut specs = Vec::new();
    let mut faults = Vec::new();
    for number in ["0", "1"] {
        let (disk, its_faults) = FaultyDisk::open(&root.join(number)).expect("a fresh directory is a store");
        faults.push(its_faults);
        let open = Box::new(move |_| Ok(Arc::<FaultyDisk<DiskFaults>>::clone(&disk) as Arc<dyn forebay_store::Disk>));
        specs.push(VolumeSpec { path: PathBuf::from(number), weight: 1, open });
    }
    let set = DiskSet::open(specs, limits, forebay_net::clock::monotonic).expect("both disks are good");
    let origin = MemoryOrigin::new(size);
    let first = Arc::clone(&faults[0]);
    (House::build_on(Arc::new(set), first, origin, options(), DecisionOptions::default()), faults)
}

/// A name whose file the disk `number` holds.
async fn file_on(house: &House, root: &Path, number: usize, size: u64) -> String {
    for attempt in 0.. {
        let name = format!("/f{attempt}");
        check(&house.open(&name).await, ByteRange::at(0, size)).await;
        if root.join(number.to_string()).join(&name[1..]).exists() {
            return name;
        }
    }
    unreachable!("attempts do not end")
}

#[test]
fn readers_of_a_file_on_a_dead_disk_go_on_from_the_origin() {
    run(async {
        let root = tempfile::tempdir().expect("a directory");
        let (house, faults) = house_of_two(root.path(), MIB);
        let name = file_on(&house, root.path(), 0, MIB).await;
        let handle = house.open(&name).await;
        until(|| handle.hit(ByteRange::at(0, MIB)).is_some()).await;
        faults[0].broken.store(true, SeqCst);
        for number in 0..HealthLimits::default().errors_max {
            check(&house.open(&format!("/other{number}")).await, ByteRange::at(0, 1)).await;
        }
        // The keeper looks every second; who reads meanwhile gets what the disk gives, or recovers.
        until(|| handle.hit(ByteRange::at(0, MIB)).is_none()).await;
        let bypassed = house.bytes(Outcome::Bypassed);
        check(&handle, ByteRange::at(0, MIB)).await;
        assert_eq!(house.bytes(Outcome::Bypassed) - bypassed, MIB);

        // Opens until the disk is given up are of the copy that it has, which cannot be removed: they are read from the origin alone.
        let is_kept = async || {
            let again = house.open(&name).await;
            check(&again, ByteRange::at(0, MIB)).await;
            again.hit(ByteRange::at(0, MIB)).is_some()
        };
        while !is_kept().await {}
        assert!(root.path().join("1").join(&name[1..]).exists(), "it is kept on the other disk now");
        let told = || house.engine.volumes().iter().map(|volume| volume.health).collect::<Vec<_>>();
        until(|| matches!(told().as_slice(), [Health::Offline | Health::Probing, Health::Healthy])).await;
    });
}

#[test]
fn a_disk_that_is_full_pauses_alone() {
    run(async {
        let root = tempfile::tempdir().expect("a directory");
        let (house, faults) = house_of_two(root.path(), MIB);
        faults[0].full.store(true, SeqCst);
        faults[0].create_fails.store(true, SeqCst);
        for number in 0..8 {
            let handle = house.open(&format!("/f{number}")).await;
            check(&handle, ByteRange::at(0, MIB)).await;
            until(|| handle.hit(ByteRange::at(0, MIB)).is_some()).await;
        }
        assert_eq!(house.bytes(Outcome::Bypassed), 0);
    });
}

/// An engine on two disks and an index that outlives it, on a virtual clock; disk 0 can be opened if `is_there`.
fn house_with_index(root: &Path, is_there: &Arc<AtomicBool>) -> House {
    let specs = ["0", "1"].map(|number| {
        let (path, is_there) = (root.join(number), Arc::clone(is_there));
        let open = Box::new(move |_| {
            if number == "0" && !is_there.load(SeqCst) {
                return Err(StoreError::Offline { path: path.clone() });
            }
            let (disk, _) = FaultyDisk::<DiskFaults>::open(&path)?;
            Ok(disk as Arc<dyn forebay_store::Disk>)
        });
        VolumeSpec { path: PathBuf::from(number), weight: 1, open }
    });
    let set = DiskSet::open(specs.into(), HealthLimits::default(), forebay_net::clock::monotonic).expect("a good disk");
    let index = IndexFile { path: root.join("index"), options: IndexOptions::default() };
    let workers = Workers::Inline(Arc::new(|| Duration::ZERO));
    let options = Options { index: Arc::new(index), workers, ..options() };
    House::build_on(Arc::new(set), Arc::default(), MemoryOrigin::new(MIB), options, DecisionOptions::default())
}

/// The number of files on a disk.
fn files_on(disk: &Path) -> u64 {
    let names = std::fs::read_dir(disk).expect("a disk").map(|entry| entry.expect("a name").file_name());
    names.filter(|name| name.to_string_lossy().starts_with('f') && !name.to_string_lossy().ends_with(".cinfo")).count()
        as u64
}

/// Waits until the index has so many files.
async fn indexed(house: &House, count: u64) {
    while !matches!(house.engine.index_state(), IndexState::Ready { files, .. } if files == count) {
        tokio::time::advance(Duration::from_millis(100)).await;
    }
}

#[test]
fn entries_of_an_offline_disk_that_came_just_before_a_crash_are_found_when_it_is_back() {
    run_virtual(async {
        let root = tempfile::tempdir().expect("a directory");
        let is_there = Arc::new(AtomicBool::new(true));
        let house = house_with_index(root.path(), &is_there);
        for number in 0..2 {
            file_on(&house, root.path(), number, MIB).await;
        }
        let (on_first, on_second) = (files_on(&root.path().join("0")), files_on(&root.path().join("1")));
        indexed(&house, on_first + on_second).await;
        house.engine.shutdown().await;
        drop(house);
        // As a kill between the entries' creation and their commit leaves them.
        let (index, _) = Index::open(&root.path().join("index"), IndexOptions::default()).expect("an index");
        index.begin_use().expect("in use");
        let known = index.page(None, 100).expect("a page");
        let now = known.iter().map(|(_, record)| record.disk.last_use).max().expect("a file");
        let removed = Change::removed();
        index.apply(now, known.iter().map(|(key, _)| (key, &removed))).expect("a commit");
        drop(index);

        is_there.store(false, SeqCst);
        let house = house_with_index(root.path(), &is_there);
        indexed(&house, on_second).await;
        is_there.store(true, SeqCst);
        indexed(&house, on_first + on_second).await;
        house.engine.shutdown().await;
    });
}

/// Limits by which a disk that hangs is offline soon.
fn impatient() -> HealthLimits {
    HealthLimits { hung_after: Duration::from_secs(2), ..HealthLimits::default() }
}

/// A fault while it lives. Threads that hang would keep a failed test from its end.
struct Fault<'a>(&'a AtomicBool);

impl<'a> Fault<'a> {
    fn begin(flag: &'a AtomicBool) -> Self {
        flag.store(true, SeqCst);
        Self(flag)
    }
}

impl Drop for Fault<'_> {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

#[test]
fn readers_learn_of_a_failed_origin_also_while_a_write_hangs() {
    run(async {
        let root = tempfile::tempdir().expect("a directory");
        let (house, faults) = house_of(root.path(), MIB, impatient());
        let error = OriginError::Corrupt { endpoint: MemoryOrigin::endpoint(), offset: 8 * BLOCK };
        house.origin.script(|script| script.read_error = Some((8 * BLOCK, error.clone())));
        let _hanging = Fault::begin(&faults[0].writes_hang);
        for number in 0..8 {
            let handle = house.open(&format!("/f{number}")).await;
            assert!(collect(handle.read_many(&[ByteRange::at(0, MIB)]).remove(0)).await.is_err());
        }
    });
}

#[test]
fn readers_that_wait_for_a_check_on_a_disk_that_hangs_go_on_from_the_origin() {
    run(async {
        let root = tempfile::tempdir().expect("a directory");
        let (house, _) = house_of_two(root.path(), MIB);
        let name = file_on(&house, root.path(), 0, MIB).await;
        house.engine.shutdown().await;
        drop(house);
        let (house, faults) = house_of(root.path(), MIB, impatient());
        let handle = house.open(&name).await;
        let _hanging = Fault::begin(&faults[0].reads_hang);
        check(&handle, ByteRange::at(0, MIB)).await;
        assert_eq!(house.bytes(Outcome::Bypassed), MIB);
    });
}
