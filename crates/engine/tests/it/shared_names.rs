//! One entry for a Rucio file that several origins have.

use crate::house::{caller, check, options, request, run};
use forebay_cache::{AllowList, ValidityCheck, ValidityPolicy};
use forebay_engine::{DecisionOptions, Engine, OriginFactory, Routes};
use forebay_origin::OriginError;
use forebay_telemetry::Metrics;
use forebay_testkit::{FaultyDisk, MemoryOrigin};
use forebay_types::ByteRange;
use std::{path::Path, sync::Arc, time::Duration};

const SIZE: u64 = 300_000;
const ONE: &str = "//root://one//site/rucio/mc/3f/a0/f.root";
const TWO: &str = "//root://two//other/place/rucio/mc/3f/a0/f.root";

fn origin(size: u64, adler32: Option<&str>) -> MemoryOrigin {
    let origin = MemoryOrigin::new(size);
    origin.script(|script| script.adler32 = adler32.map(str::to_owned));
    origin
}

/// A cache whose clients name the origins `one` and `two`.
fn cache(root: &Path, one: &MemoryOrigin, two: &MemoryOrigin, shares_rucio_files: bool) -> Engine {
    cache_under(root, one, two, DecisionOptions { shares_rucio_files, ..DecisionOptions::default() })
}

fn cache_under(root: &Path, one: &MemoryOrigin, two: &MemoryOrigin, decisions: DecisionOptions) -> Engine {
    let origins = (one.clone(), two.clone());
    let factory: OriginFactory = Arc::new(move |id| {
        let (one, two) = origins.clone();
        Arc::new(if id.endpoint.host() == "one" { one } else { two })
    });
    let allowed = AllowList::parse(&["one", "two"]).expect("host names");
    let routes = Routes::new(Vec::new(), allowed, factory).expect("no export").with_decisions(decisions);
    let (disk, _) = FaultyDisk::open(root).expect("a fresh directory is a store");
    Engine::start(options(), Some(disk), routes, Metrics::new())
}

async fn read(engine: &Engine, path: &str) {
    let handle = engine.open(&request(path), &caller()).await.expect("the origin has every file");
    check(&handle, ByteRange::at(0, SIZE)).await;
}

#[test]
fn the_same_file_of_another_origin_is_in_the_cache() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let (one, two) = (origin(SIZE, Some("0a1b2c3d")), origin(SIZE, Some("0a1b2c3d")));
        let engine = cache(root.path(), &one, &two, true);
        read(&engine, ONE).await;
        read(&engine, TWO).await;
        assert!(two.asked().is_empty());
        // Once for each origin, whatever is opened later.
        read(&engine, TWO).await;
        assert_eq!((one.checksums(), two.checksums()), (1, 1));
    });
}

#[test]
fn the_copy_is_served_while_its_origin_is_silent() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let (one, two) = (origin(SIZE, Some("0a1b2c3d")), origin(SIZE, Some("0a1b2c3d")));
        let stale_max = Some(Duration::from_secs(3600));
        let forwarding_validity =
            ValidityPolicy { check: ValidityCheck::EachOpen, stale_max, compares_checksum: false };
        let decisions = DecisionOptions { shares_rucio_files: true, forwarding_validity, ..DecisionOptions::default() };
        let engine = cache_under(root.path(), &one, &two, decisions);
        read(&engine, ONE).await;
        let asked = one.asked().len();
        one.script(|script| {
            let reason = "injected".to_owned();
            script.stat_error = Some(OriginError::Unreachable { endpoint: MemoryOrigin::endpoint(), reason });
        });
        read(&engine, ONE).await;
        assert_eq!((one.asked().len(), one.opens()), (asked, 1));
    });
}

#[test]
fn other_contents_missing_checksums_and_the_setting_keep_files_apart() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let same = Some("0a1b2c3d");
        for (number, (size, adler32, shares)) in
            [(SIZE + 1, same, true), (SIZE, Some("0a1b2c3e"), true), (SIZE, None, true), (SIZE, same, false)]
                .into_iter()
                .enumerate()
        {
            let (one, two) = (origin(SIZE, same), origin(size, adler32));
            let root = root.path().join(number.to_string());
            std::fs::create_dir(&root).unwrap();
            let engine = cache(&root, &one, &two, shares);
            read(&engine, ONE).await;
            read(&engine, TWO).await;
            assert!(!two.asked().is_empty(), "case {number}");
        }
    });
}
