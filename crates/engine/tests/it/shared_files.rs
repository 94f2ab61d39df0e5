//! Files that are opened to others, for managers to redirect clients to them.

use crate::house::{House, check, options, run, until};
use forebay_cache::{CacheKey, ValidityCheck, ValidityPolicy};
use forebay_engine::{DecisionOptions, Evicted, Options, Service};
use forebay_testkit::MemoryOrigin;
use forebay_types::{ByteRange, Lfn};
use std::{
    fs::{File, FileTimes},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

const SIZE: u64 = 300_000;
const NAMED: &str = "//root://memory//d/f";

fn filler(root: &Path) -> House {
    let forwarding_service = Service { direct: true, ..Service::default() };
    let forwarding_validity = ValidityPolicy { check: ValidityCheck::Never, ..ValidityPolicy::default() };
    let decisions = DecisionOptions { forwarding_service, forwarding_validity, ..DecisionOptions::default() };
    let options = Options {
        direct_lease: Duration::from_secs(3600),
        sync_interval: Duration::from_millis(20),
        publishes_complete: true,
        honours_access_times: true,
        ..options()
    };
    House::build_under(root, MemoryOrigin::new(SIZE), options, decisions)
}

fn key() -> CacheKey {
    CacheKey::forwarded(&MemoryOrigin::endpoint().into(), &Lfn::parse("/d/f").expect("a path")).expect("a key")
}

/// Has the filler fetch all of the file; gives where it lies once it is open to others.
async fn filled(house: &House) -> PathBuf {
    let handle = house.open(NAMED).await;
    check(&handle, ByteRange::at(0, SIZE)).await;
    drop(handle);
    let root = house.engine.volumes().first().map(|volume| volume.path.clone()).expect("one disk");
    let path = root.join(key().as_str().trim_start_matches('/'));
    until(|| path.metadata().is_ok_and(|file| file.permissions().mode() & 0o777 == 0o644)).await;
    path
}

fn last_used_long_ago(path: &Path) {
    let times = FileTimes::new().set_accessed(SystemTime::UNIX_EPOCH);
    File::open(path).and_then(|file| file.set_times(times)).expect("the file is ours");
}

#[test]
fn a_file_that_is_open_at_the_filler_stays_open_to_others() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let house = filler(root.path());
        let path = filled(&house).await;
        let handle = house.open(NAMED).await;
        last_used_long_ago(&path);
        assert_eq!(house.engine.evict(&key(), false).await.unwrap(), Evicted::Open);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
        drop(handle);
        house.engine.shutdown().await;
    });
}

#[test]
fn a_purge_removes_files_without_a_reader_for_the_time_of_a_lease() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let house = filler(root.path());
        let path = filled(&house).await;
        while path.exists() {
            last_used_long_ago(&path);
            house.engine.purge_to(0.0, false).await.unwrap();
        }
        house.engine.shutdown().await;
    });
}
