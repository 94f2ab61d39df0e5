//! Copies are compared with their origin as the policy says, by one question for all clients, and no client reads a
//! mixture.

use crate::house::{BLOCK, House, caller, collect, options, request, run, until};
use forebay_cache::{CachedCriteria, ValidityCheck, ValidityPolicy};
use forebay_engine::{DecisionOptions, Error, Handle};
use forebay_origin::{OriginError, RefusalKind};
use forebay_telemetry::CheckResult;
use forebay_testkit::MemoryOrigin;
use forebay_types::ByteRange;
use std::{path::Path, sync::atomic::Ordering::SeqCst, time::Duration};

const SIZE: u64 = 16 * BLOCK;
const WHOLE: ByteRange = ByteRange::at(0, SIZE);
const HOUR: Duration = Duration::from_secs(3600);

fn checked(check: ValidityCheck, stale_max: Option<Duration>) -> DecisionOptions {
    let forwarding_validity = ValidityPolicy { check, stale_max, compares_checksum: false };
    DecisionOptions { forwarding_validity, ..DecisionOptions::default() }
}

fn each_open() -> DecisionOptions {
    checked(ValidityCheck::EachOpen, Some(HOUR))
}

fn house(root: &Path, decisions: DecisionOptions) -> House {
    House::build_under(root, MemoryOrigin::new(SIZE), options(), decisions)
}

/// An origin that does not answer.
fn unreachable() -> OriginError {
    OriginError::Unreachable { endpoint: MemoryOrigin::endpoint(), reason: "injected".to_owned() }
}

async fn try_open(house: &House, path: &str) -> Result<Handle, Error> {
    house.engine.open(&request(path), &caller()).await
}

async fn read(handle: &Handle, range: ByteRange) -> Result<Vec<u8>, Error> {
    collect(handle.read_many(&[range]).pop().expect("one read for one range")).await
}

/// Reads the whole file until it is in the cache, and closes it.
async fn keep(house: &House, path: &str) {
    let handle = house.open(path).await;
    read(&handle, WHOLE).await.expect("the origin has it");
    until(|| handle.hit(WHOLE).is_some()).await;
}

fn content(content: u8, range: ByteRange) -> Vec<u8> {
    MemoryOrigin::bytes_of(content, range.start(), usize::try_from(range.len()).expect("small"))
}

/// From now on the origin has another file of the same size.
fn change(house: &House, content: u8) {
    house.origin.script(|script| {
        script.content = content;
        script.mtime += 100;
    });
}

#[test]
fn immutable_files_are_never_asked_for() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), DecisionOptions::default());
        keep(&house, "/f").await;
        change(&house, 1);
        house.origin.script(|script| script.stat_error = Some(unreachable()));
        assert!(read(&house.open("/f").await, WHOLE).await.unwrap() == content(0, WHOLE));
        assert_eq!((house.origin.opens(), house.origin.stats()), (1, 0));
    });
}

#[test]
fn an_outdated_copy_that_cannot_be_removed_is_read_past() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), each_open());
        keep(&house, "/f").await;
        change(&house, 1);
        house.faults.read_only.store(true, SeqCst);
        for _ in 0..2 {
            assert!(read(&house.open("/f").await, WHOLE).await.unwrap() == content(1, WHOLE));
        }
        assert!(root.path().join("f").exists());
        house.faults.read_only.store(false, SeqCst);
        // The pause of the disk after its failures has to end first.
        loop {
            let handle = house.open("/f").await;
            assert!(read(&handle, WHOLE).await.unwrap() == content(1, WHOLE));
            if handle.hit(WHOLE).is_some() {
                break;
            }
        }
    });
}

#[test]
fn many_opens_of_a_file_that_is_due_share_a_question() {
    run_in_one_thread(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), each_open());
        let opened = house.open("/f").await;
        house.origin.answer_opens(false);
        let opens: Vec<_> = (0..100)
            .map(|_| {
                let engine = house.engine.clone();
                tokio::spawn(async move { engine.open(&request("/f"), &caller()).await })
            })
            .collect();
        // The file is open: each of them reaches its question in one turn.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        house.origin.answer_opens(true);
        for open in opens {
            assert!(open.await.unwrap().is_ok());
        }
        // The first one's had been asked before the others began: for them its answer may be outdated.
        assert_eq!((house.origin.opens(), house.origin.stats()), (1, 2));
        assert_eq!(house.engine.metrics().checks(CheckResult::Unchanged), 100);
        drop(opened);
    });
}

/// Runs a test on one thread, where tasks take turns.
fn run_in_one_thread(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let bounded = async { tokio::time::timeout(Duration::from_secs(600), test).await };
    runtime.block_on(bounded).expect("the test ends within ten minutes");
}

#[test]
fn a_new_copy_is_not_asked_for_again_by_the_open_that_made_it() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), each_open());
        keep(&house, "/f").await;
        assert_eq!((house.origin.opens(), house.origin.stats()), (1, 0));
        keep(&house, "/f").await;
        assert_eq!((house.origin.opens(), house.origin.stats()), (1, 1));
    });
}

#[test]
fn nobody_reads_a_mixture_when_a_file_changes_while_it_is_read() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), each_open());
        let mut handles = Vec::new();
        for _ in 0..8 {
            handles.push(house.open("/f").await);
        }
        let mut readers = Vec::new();
        for (reader, handle) in handles.into_iter().enumerate() {
            let origin = house.origin.clone();
            readers.push(tokio::spawn(async move {
                let mut got = Vec::new();
                for block in 0..16 {
                    if (reader, block) == (3, 7) {
                        origin.script(|script| {
                            script.content = 1;
                            script.mtime += 100;
                        });
                    }
                    match read(&handle, ByteRange::at(block * BLOCK, BLOCK)).await {
                        Ok(bytes) => got.extend(bytes),
                        Err(error) => {
                            assert!(matches!(error, Error::Changed { .. }), "{error}");
                            break;
                        }
                    }
                    tokio::task::yield_now().await;
                }
                got
            }));
        }
        until(|| house.origin.opens() > 0).await;
        let mut newest = Vec::new();
        while newest.is_empty() {
            let handle = house.open("/f").await;
            let bytes = read(&handle, WHOLE).await.unwrap_or_default();
            assert!(bytes.is_empty() || bytes == content(0, WHOLE) || bytes == content(1, WHOLE), "a mixture");
            if bytes == content(1, WHOLE) {
                newest = bytes;
            }
            tokio::task::yield_now().await;
        }
        for reader in readers {
            let got = reader.await.unwrap();
            assert!(got == content(0, ByteRange::at(0, got.len() as u64)), "a reader of the first content");
        }
        assert!(read(&house.open("/f").await, WHOLE).await.unwrap() == content(1, WHOLE));
    });
}

#[test]
fn a_file_that_changed_while_it_was_filled_is_replaced_at_the_next_open() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), each_open());
        house.origin.let_through(10_000);
        let first = house.open("/f").await;
        let mut filling = first.read_many(&[WHOLE]).pop().unwrap();
        filling.next().await.unwrap().unwrap();
        change(&house, 1);
        house.origin.let_through(u64::MAX);
        let second = house.open("/f").await;
        assert!(read(&second, WHOLE).await.unwrap() == content(1, WHOLE));
        assert!(collect(filling).await.is_ok(), "a client that had it open continues with the opened content");
        assert!(read(&second, WHOLE).await.unwrap() == content(1, WHOLE));
        assert_eq!(house.engine.metrics().checks(CheckResult::Changed), 1);
    });
}

#[test]
fn a_changed_file_is_opened_anew_once_the_old_one_is_closed_at_its_origin() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), each_open());
        house.origin.script(|script| script.opens_shared = true);
        house.origin.let_through(10_000);
        let first = house.open("/f").await;
        let mut filling = first.read_many(&[WHOLE]).pop().unwrap();
        filling.next().await.unwrap().unwrap();
        change(&house, 1);
        let engine = house.engine.clone();
        let second = tokio::spawn(async move { engine.open(&request("/f"), &caller()).await });
        until(|| house.engine.metrics().checks(CheckResult::Changed) == 1).await;
        until(|| !root.path().join("f").exists()).await;
        house.origin.let_through(u64::MAX);
        let second = second.await.unwrap().unwrap();
        assert!(read(&second, WHOLE).await.unwrap() == content(1, WHOLE), "the content that the check has reported");
        assert!(collect(filling).await.is_ok());
    });
}

#[test]
fn a_file_that_is_gone_is_not_served_and_leaves_the_disk() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), each_open());
        keep(&house, "/f").await;
        let kept_open = house.open("/f").await;
        house.origin.script(|script| {
            script.stat_error = Some(MemoryOrigin::no_such_file());
            script.open_error = Some(MemoryOrigin::no_such_file());
        });
        assert!(matches!(try_open(&house, "/f").await, Err(Error::Origin(error)) if error.is_not_found()));
        until(|| !root.path().join("f").exists()).await;
        assert!(try_open(&house, "/f").await.is_err());
        assert!(house.engine.stat(&request("/f"), &caller()).await.is_err());
        assert!(
            read(&kept_open, WHOLE).await.unwrap() == content(0, WHOLE),
            "a client that has it open continues to read"
        );
    });
}

#[test]
fn a_failed_check_gives_nothing_up() {
    for (stale_max, is_served) in [(Some(HOUR), true), (None, true), (Some(Duration::ZERO), false)] {
        run(async {
            let root = tempfile::tempdir().unwrap();
            let house = house(root.path(), checked(ValidityCheck::EachOpen, stale_max));
            keep(&house, "/f").await;
            house.origin.script(|script| script.stat_error = Some(unreachable()));
            for _ in 0..3 {
                match try_open(&house, "/f").await {
                    Ok(handle) => assert!(is_served && read(&handle, WHOLE).await.unwrap() == content(0, WHOLE)),
                    Err(error) => {
                        assert!(
                            !is_served && error.is_retryable() && error.to_string().contains("memory:1094"),
                            "{error}"
                        );
                    }
                }
                assert_eq!(house.engine.stat(&request("/f"), &caller()).await.is_ok(), is_served);
            }
            if is_served {
                assert_eq!(house.origin.stats(), 1, "an origin that does not answer is left alone for a while");
            }
            house.origin.script(|script| script.stat_error = None);
            assert!(read(&house.open("/f").await, WHOLE).await.unwrap() == content(0, WHOLE));
            assert_eq!(
                house.origin.asked().iter().map(|range| range.len()).sum::<u64>(),
                SIZE,
                "nothing is fetched again"
            );
            assert_eq!(house.origin.opens(), 1);
        });
    }
}

#[test]
fn a_check_that_takes_too_long_has_failed() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let decisions = DecisionOptions { check_time_max: Duration::from_millis(20), ..each_open() };
        let house = house(root.path(), decisions);
        keep(&house, "/f").await;
        house.origin.answer_opens(false);
        assert!(read(&house.open("/f").await, WHOLE).await.unwrap() == content(0, WHOLE));
        assert_eq!(house.engine.metrics().checks(CheckResult::FailedServedStale), 1);
        house.origin.answer_opens(true);
    });
}

#[test]
fn the_time_of_the_last_check_outlives_a_restart() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let hourly = || checked(ValidityCheck::Every(HOUR), Some(HOUR));
        let first = house(root.path(), hourly());
        keep(&first, "/f").await;
        first.engine.shutdown().await;
        let origin = first.origin.clone();
        drop(first);
        change_of(&origin, 1);
        let second = House::build_under(root.path(), origin.clone(), options(), hourly());
        assert!(
            read(&second.open("/f").await, WHOLE).await.unwrap() == content(0, WHOLE),
            "it was checked an hour ago at most"
        );
        assert_eq!(origin.stats(), 0);
        second.engine.shutdown().await;
        drop(second);
        let third = House::build_under(root.path(), origin.clone(), options(), each_open());
        assert!(read(&third.open("/f").await, WHOLE).await.unwrap() == content(1, WHOLE), "stale same-size change");
    });
}

fn change_of(origin: &MemoryOrigin, content: u8) {
    origin.script(|script| {
        script.content = content;
        script.mtime += 100;
    });
}

#[test]
fn a_checksum_tells_apart_what_size_and_time_do_not() {
    for compares_checksum in [false, true] {
        run(async {
            let root = tempfile::tempdir().unwrap();
            let mut decisions = each_open();
            decisions.forwarding_validity.compares_checksum = compares_checksum;
            let house = house(root.path(), decisions);
            house.origin.script(|script| script.adler32 = Some(adler32(&content(0, WHOLE))));
            keep(&house, "/f").await;
            keep(&house, "/f").await;
            house.origin.script(|script| {
                script.content = 1;
                script.adler32 = Some(adler32(&content(1, WHOLE)));
            });
            let bytes = read(&house.open("/f").await, WHOLE).await.unwrap();
            assert!(bytes == content(u8::from(compares_checksum), WHOLE));
            // The same content under another time: only the checksum says that nothing has changed.
            house.origin.script(|script| script.mtime += 100);
            drop(house.open("/f").await);
            assert_eq!(house.engine.metrics().checks(CheckResult::Changed), 1);
        });
    }
}

fn adler32(bytes: &[u8]) -> String {
    let (a, b) = bytes.iter().fold((1_u32, 0_u32), |(a, b), &byte| {
        let a = (a + u32::from(byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    format!("{:08x}", (b << 16) | a)
}

#[test]
fn an_origin_without_checksums_is_compared_without() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let mut decisions = each_open();
        decisions.forwarding_validity.compares_checksum = true;
        let house = house(root.path(), decisions);
        keep(&house, "/f").await;
        keep(&house, "/f").await;
        assert_eq!(house.engine.metrics().checks(CheckResult::Unchanged), 1);
        change(&house, 1);
        assert!(read(&house.open("/f").await, WHOLE).await.unwrap() == content(1, WHOLE));
    });
}

#[test]
fn a_stat_respects_validity() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), each_open());
        keep(&house, "/f").await;
        let stat = || async { house.engine.stat(&request("/f"), &caller()).await.unwrap() };
        assert!(stat().await.cached);
        let mtime = stat().await.mtime;
        // Each asks for the check, and for the attributes that concern writers.
        assert_eq!(house.origin.stats(), 4);
        change(&house, 1);
        assert_eq!(stat().await.mtime, mtime + 100);
        let open = house.open("/f").await;
        assert_eq!(stat().await.mtime, mtime + 100);
        drop(open);
    });
}

#[test]
fn a_missing_file_costs_one_question() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let negative_time = Duration::from_secs(600);
        let house = house(root.path(), DecisionOptions { negative_time, ..DecisionOptions::default() });
        house.origin.script(|script| {
            script.open_error = Some(MemoryOrigin::no_such_file());
            script.stat_error = Some(MemoryOrigin::no_such_file());
        });
        let opens: Vec<_> = (0..1000)
            .map(|_| {
                let engine = house.engine.clone();
                tokio::spawn(async move { engine.open(&request("/f"), &caller()).await })
            })
            .collect();
        for open in opens {
            assert!(matches!(open.await.unwrap(), Err(Error::Origin(error)) if error.is_not_found()));
        }
        assert!(house.engine.stat(&request("/f"), &caller()).await.is_err());
        assert_eq!((house.origin.opens(), house.origin.stats()), (1, 0));

        house.origin.script(|script| script.open_error = None);
        assert!(try_open(&house, "/f").await.is_err(), "it is remembered for a moment");
        house.engine.write_policy(&request("/f")).unwrap();
        assert!(try_open(&house, "/f").await.is_ok(), "who is sent to the origin to write makes it be forgotten");
    });
}

#[test]
fn only_the_answer_that_there_is_no_such_file_is_remembered() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), DecisionOptions::default());
        house.origin.script(|script| script.open_error = Some(unreachable()));
        for opens in 1..=3 {
            assert!(try_open(&house, "/f").await.is_err());
            assert_eq!(house.origin.opens(), opens);
        }
        house.origin.script(|script| script.open_error = None);
        assert!(try_open(&house, "/f").await.is_ok());
    });
}

#[test]
fn only_what_counts_as_cached_is_opened_for_those_who_want_nothing_else() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let cached = CachedCriteria { size_min: BLOCK, fraction_min: 0.5 };
        let house = house(root.path(), DecisionOptions { cached, ..each_open() });
        for prefix in ["", "/root:/memory:1094"] {
            let path = format!("{prefix}/f?only-if-cached");
            let is_refused = async || matches!(try_open(&house, &path).await, Err(Error::NotCached { .. }));
            assert!(is_refused().await, "{path} is not there");
            let handle = house.open(&format!("{prefix}/f")).await;
            let half = ByteRange::at(0, SIZE / 2);
            read(&handle, ByteRange::at(0, SIZE / 2 - BLOCK)).await.unwrap();
            assert!(is_refused().await, "{path} is there to less than a half");
            assert!(!handle.stat().cached);
            read(&handle, half).await.unwrap();
            until(|| handle.hit(half).is_some()).await;
            drop(handle);
            house.origin.script(|script| script.stat_error = Some(unreachable()));
            let asked = (house.origin.opens(), house.origin.stats());
            let handle = try_open(&house, &path).await.unwrap();
            assert!(handle.stat().cached && read(&handle, half).await.unwrap() == content(0, half));
            assert_eq!((house.origin.opens(), house.origin.stats()), asked, "the origin is not asked");
            house.origin.script(|script| script.stat_error = None);
        }
    });
}

#[test]
fn a_redirector_that_does_not_find_a_file_costs_no_copy() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), DecisionOptions { negative_time: Duration::ZERO, ..each_open() });
        keep(&house, "/f").await;
        house.origin.script(|script| {
            let kind = RefusalKind::NotFound;
            let text = "no server has it now".to_owned();
            let endpoint = "redirector:1094".parse().unwrap();
            script.stat_error = Some(OriginError::Refused { endpoint, kind, text });
        });
        assert!(matches!(try_open(&house, "/f").await, Err(Error::Origin(error)) if error.is_not_found()));
        house.origin.script(|script| script.stat_error = None);
        assert!(read(&house.open("/f").await, WHOLE).await.unwrap() == content(0, WHOLE));
        assert_eq!(house.origin.opens(), 1, "nothing is fetched again");
    });
}

#[test]
fn a_server_that_opens_what_others_have_open_does_not_hide_a_change() {
    run(async {
        let root = tempfile::tempdir().unwrap();
        let house = house(root.path(), each_open());
        keep(&house, "/f").await;
        house.origin.script(|script| script.opened_mtime = Some(script.mtime));
        change(&house, 1);
        assert!(read(&house.open("/f").await, WHOLE).await.unwrap() == content(1, WHOLE));
        assert_eq!(house.engine.metrics().checks(CheckResult::Changed), 1);
    });
}
