//! Fetching the rest of a file: when it begins, when it stops, what it costs.

use crate::house::{BLOCK, House, caller, check, open_data_files, options, request, run_virtual};
use forebay_cache::{CachingDecision, FillPolicy, PathPattern, ReadAheadSettings, Rule, Rules};
use forebay_engine::{DecisionOptions, Error, Options, ReadAheadOptions, Service, Workers};
use forebay_origin::OriginError;
use forebay_testkit::MemoryOrigin;
use forebay_types::ByteRange;
use std::{
    path::Path,
    sync::{Arc, Mutex, atomic::Ordering::SeqCst},
    time::Duration,
};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 20 * MIB + 17;

fn house(root: &Path, complete_after_percent: Option<u8>, fill: FillPolicy) -> House {
    house_under(root, complete_after_percent, fill, DecisionOptions::default())
}

fn house_under(root: &Path, complete_after_percent: Option<u8>, fill: FillPolicy, decisions: DecisionOptions) -> House {
    let origin = MemoryOrigin::new(SIZE);
    origin.script(|script| {
        script.verifies_pages = false;
        (script.latency, script.bytes_per_s, script.chunk_len) =
            (Duration::from_millis(50), Some(20_000_000), 64 << 10);
    });
    let settings = ReadAheadSettings { enabled: false, complete_after_percent, fill, ..ReadAheadSettings::default() };
    let read_ahead = ReadAheadOptions { settings, ..ReadAheadOptions::default() };
    let workers = Workers::Inline(Arc::new(|| Duration::ZERO));
    House::build_under(root, origin, Options { read_ahead, workers, ..options() }, decisions)
}

fn asked_bytes(house: &House) -> u64 {
    house.origin.asked().iter().map(|range| range.len()).sum()
}

/// Lets virtual time pass.
async fn pass(milliseconds: u64) {
    // sleep: under a paused clock, it takes no time.
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// Lets virtual time pass until nothing more is asked for.
async fn until_quiet(house: &House) {
    loop {
        let before = asked_bytes(house);
        pass(5000).await;
        if asked_bytes(house) == before {
            return;
        }
    }
}

#[test]
fn nothing_is_fetched_beyond_reads_unless_wanted() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), None, FillPolicy::OnDemand);
        let handle = house.open("/f").await;
        check(&handle, ByteRange::at(0, 10)).await;
        until_quiet(&house).await;
        assert_eq!(asked_bytes(&house), BLOCK);
    });
}

#[test]
fn a_file_is_completed_once_its_share_is_in_the_cache() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), Some(30), FillPolicy::OnDemand);
        let handle = house.open("/f").await;
        check(&handle, ByteRange::at(0, 6 * MIB)).await;
        check(&handle, ByteRange::at(19 * MIB, 10)).await;
        until_quiet(&house).await;
        assert_eq!(asked_bytes(&house), 6 * MIB + BLOCK, "a little less than 30 percent");
        check(&handle, ByteRange::at(10 * MIB, 3 * BLOCK)).await;
        check(&handle, ByteRange::at(12 * MIB, BLOCK)).await;
        until_quiet(&house).await;
        assert!(handle.stat().cached);
        assert_eq!(asked_bytes(&house), SIZE, "each block once");
    });
}

#[test]
fn completing_stops_with_the_last_client_and_resumes_with_the_next() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), None, FillPolicy::WhileOpen);
        let handle = house.open("/f").await;
        let other = house.open("/f").await;
        pass(300).await;
        drop(handle);
        pass(100).await;
        drop(other);
        until_quiet(&house).await;
        let asked = asked_bytes(&house);
        assert!((BLOCK..SIZE / 2).contains(&asked), "{asked}");
        assert_eq!(open_data_files(root.path()), 0, "no task keeps the file open");
        let _handle = house.open("/f").await;
        until_quiet(&house).await;
        assert_eq!(asked_bytes(&house), SIZE, "nothing is fetched again");
    });
}

#[test]
fn completing_to_the_end_goes_on_without_clients() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), None, FillPolicy::ToEnd);
        drop(house.open("/f").await);
        until_quiet(&house).await;
        assert_eq!(asked_bytes(&house), SIZE);
        assert_eq!(open_data_files(root.path()), 0, "the file is let go when it is complete");
        assert!(house.engine.stat(&request("/f"), &caller()).await.unwrap().cached);
    });
}

#[test]
fn what_an_export_says_comes_before_the_cache_and_behind_rules() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let caching = CachingDecision { fill: Some(FillPolicy::OnDemand), ..CachingDecision::default() };
        let path = Some(PathPattern::parse("/small/**").unwrap());
        let decisions = DecisionOptions {
            rules: Rules::new(vec![Rule { path, caching, ..Rule::default() }]),
            forwarding_service: Service { fill: Some(FillPolicy::WhileOpen), ..Service::default() },
            ..DecisionOptions::default()
        };
        let house = house_under(root.path(), None, FillPolicy::OnDemand, decisions);
        let by_rule = house.open("/small/f").await;
        check(&by_rule, ByteRange::at(0, 10)).await;
        until_quiet(&house).await;
        assert_eq!(asked_bytes(&house), BLOCK);
        drop(house.open("//root://memory//f").await);
        let _by_export = house.open("/f").await;
        until_quiet(&house).await;
        assert!((SIZE..SIZE + SIZE / 2).contains(&(asked_bytes(&house) - BLOCK)), "only one is open for long enough");
    });
}

#[test]
fn a_restart_ends_a_completion_and_the_next_open_resumes_it() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let first = house(root.path(), None, FillPolicy::ToEnd);
        drop(first.open("/f").await);
        pass(300).await;
        first.engine.shutdown().await;
        let asked_first = asked_bytes(&first);
        assert!(asked_first < SIZE);
        drop(first);
        let second = house(root.path(), None, FillPolicy::ToEnd);
        until_quiet(&second).await;
        assert_eq!(asked_bytes(&second), 0, "nothing happens before a client opens the file");
        drop(second.open("/f").await);
        until_quiet(&second).await;
        assert_eq!(asked_first + asked_bytes(&second), SIZE);
    });
}

#[test]
fn a_reader_and_a_completion_share_what_they_fetch() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), None, FillPolicy::WhileOpen);
        let handle = house.open("/f").await;
        for start in [15 * MIB, 3 * MIB, 0] {
            check(&handle, ByteRange::at(start, 3 * MIB)).await;
        }
        until_quiet(&house).await;
        assert_eq!(asked_bytes(&house), SIZE);
    });
}

#[test]
fn completing_on_demand_tells_its_progress() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), None, FillPolicy::OnDemand);
        check(&house.open("/f").await, ByteRange::at(5 * MIB, BLOCK)).await;
        let told = Mutex::new(Vec::new());
        let progress = |done, of| told.lock().unwrap().push((done, of));
        house.engine.complete(&request("/f"), &caller(), &progress).await.unwrap();
        let told = told.into_inner().unwrap();
        assert!(told.is_sorted());
        assert_eq!((told.first(), told.last()), (Some(&(BLOCK, SIZE)), Some(&(SIZE, SIZE))));
        assert_eq!(asked_bytes(&house), SIZE);
        house.engine.complete(&request("/f"), &caller(), &|_, _| ()).await.unwrap();
        assert_eq!(asked_bytes(&house), SIZE, "a complete file is complete");
    });
}

#[test]
fn completing_on_demand_fails_with_the_origin_and_resumes() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), None, FillPolicy::OnDemand);
        let error = OriginError::Corrupt { endpoint: MemoryOrigin::endpoint(), offset: 9 * MIB };
        house.origin.script(|script| script.read_error = Some((9 * MIB, error.clone())));
        let complete = || async { house.engine.complete(&request("/f"), &caller(), &|_, _| ()).await };
        assert_eq!(complete().await, Err(Error::Origin(error)));
        house.origin.script(|script| script.read_error = None);
        assert_eq!(complete().await, Ok(()));
    });
}

#[test]
fn completing_on_demand_says_when_nothing_can_be_kept() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), None, FillPolicy::OnDemand);
        let complete = |path: &'static str| {
            let engine = house.engine.clone();
            async move { engine.complete(&request(path), &caller(), &|_, _| ()).await }
        };
        assert!(matches!(complete("/f.cinfo").await, Err(Error::Unsupported { .. })));
        house.faults.full.store(true, SeqCst);
        assert!(matches!(complete("/g").await, Err(Error::Disk { .. } | Error::Unsupported { .. })));
        let asked = asked_bytes(&house);
        until_quiet(&house).await;
        assert_eq!(asked_bytes(&house), asked, "it is not tried again and again");
    });
}
