//! Several disks, of which one fails.
#![allow(clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use crate::house::{House, check, options, run, until};
use forebay_cache::{Health, HealthLimits};
use forebay_engine::DecisionOptions;
use forebay_store::{DiskSet, VolumeSpec};
use forebay_testkit::{DiskFaults, FaultyDisk, MemoryOrigin};
use forebay_types::{ByteRange, Outcome};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::SeqCst},
};

const MIB: u64 = 1 << 20;

/// An engine on two disks, and the faults of each.
fn house_of_two(root: &Path, size: u64) -> (House, Vec<Arc<DiskFaults>>) {
    let mut specs = Vec::new();
    let mut faults = Vec::new();
    for number in ["0", "1"] {
        let (disk, its_faults) = FaultyDisk::open(&root.join(number)).expect("a fresh directory is a store");
        faults.push(its_faults);
        let open = Box::new(move |_| Ok(Arc::<FaultyDisk<DiskFaults>>::clone(&disk) as Arc<dyn forebay_store::Disk>));
        specs.push(VolumeSpec { path: PathBuf::from(number), weight: 1, open });
    }
    let set =
        DiskSet::open(specs, HealthLimits::default(), forebay_net::clock::monotonic).expect("both disks are good");
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

        let again = house.open(&name).await;
        check(&again, ByteRange::at(0, MIB)).await;
        until(|| again.hit(ByteRange::at(0, MIB)).is_some()).await;
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
