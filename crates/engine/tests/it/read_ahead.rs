//! Reading ahead: what is fetched before anybody asks for it, and what is not.

use crate::house::{BLOCK, House, check, collect, options, run_virtual, until};
use forebay_cache::ReadAheadSettings;
use forebay_engine::{Handle, Options, ReadAheadOptions, Workers};
use forebay_telemetry::ReadAheadEvent;
use forebay_testkit::MemoryOrigin;
use forebay_types::{ByteRange, Outcome};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Over a link of 50 ms and 100 MB/s.
fn far_origin(size: u64) -> MemoryOrigin {
    let origin = MemoryOrigin::new(size);
    origin.script(|script| {
        script.verifies_pages = false;
        (script.latency, script.bytes_per_s, script.chunk_len) =
            (Duration::from_millis(50), Some(100_000_000), 64 << 10);
    });
    origin
}

fn with(settings: ReadAheadSettings) -> Options {
    let read_ahead = ReadAheadOptions { settings, ..ReadAheadOptions::default() };
    Options { read_ahead, workers: Workers::Inline(Arc::new(|| Duration::ZERO)), ..options() }
}

fn far_house(root: &tempfile::TempDir, size: u64, settings: ReadAheadSettings) -> House {
    House::build_with(root.path(), far_origin(size), with(settings))
}

fn off() -> ReadAheadSettings {
    ReadAheadSettings { enabled: false, ..ReadAheadSettings::default() }
}

/// Reads as a front does: a hit, or a read.
async fn read(handle: &Handle, range: ByteRange) {
    if handle.hit(range).is_none() {
        check(handle, range).await;
    }
}

async fn read_vector(handle: &Handle, ranges: &[ByteRange]) {
    let missed: Vec<ByteRange> = ranges.iter().copied().skip_while(|range| handle.hit(*range).is_some()).collect();
    for read in handle.read_many(&missed) {
        collect(read).await.expect("the read succeeds");
    }
}

fn asked_bytes(house: &House) -> u64 {
    house.origin.asked().iter().map(|range| range.len()).sum()
}

fn ahead(house: &House, event: ReadAheadEvent) -> u64 {
    house.engine.metrics().read_ahead_bytes(event)
}

/// Virtual seconds that a reader of the whole file takes.
async fn seconds_of_sequential_read(house: &House, size: u64, read_len: u64) -> f64 {
    let handle = house.open("/f").await;
    let began = Instant::now();
    let mut offset = 0;
    while offset < size {
        read(&handle, ByteRange::at(offset, read_len).clipped_to(size)).await;
        offset += read_len;
    }
    began.elapsed().as_secs_f64()
}

#[test]
fn a_sequential_reader_of_a_far_origin_gets_the_rate_of_the_link() {
    const SIZE: u64 = 32 * MIB + 17;
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let without = far_house(&root, SIZE, off());
        let seconds_without = seconds_of_sequential_read(&without, SIZE, 256 * KIB).await;
        drop(without);
        let root = tempfile::tempdir().unwrap();
        let house = far_house(&root, SIZE, ReadAheadSettings::default());
        let seconds = seconds_of_sequential_read(&house, SIZE, 256 * KIB).await;
        assert!(seconds_without > 6.5, "a round trip for each read: {seconds_without} s");
        assert!(seconds < 1.0, "the link takes 0.34 s: {seconds} s");
        assert_eq!(asked_bytes(&house), SIZE, "nothing is asked for twice");
        assert_eq!(ahead(&house, ReadAheadEvent::Used), ahead(&house, ReadAheadEvent::Fetched));
        assert_eq!(house.bytes(Outcome::Hit), 0, "what was fetched ahead for a reader is no hit of it");
    });
}

#[test]
fn a_vector_that_is_longer_than_the_window_keeps_the_link_busy() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let window = 16 * MIB;
        let options = Options { read_window: window, ..with(off()) };
        let house = House::build_with(root.path(), far_origin(64 * MIB), options);
        let handle = house.open("/f").await;
        let elements: Vec<ByteRange> = (0..60).map(|element| ByteRange::at(element * MIB, MIB - KIB)).collect();
        let began = Instant::now();
        read_vector(&handle, &elements).await;
        let seconds = began.elapsed().as_secs_f64();
        assert!(
            seconds < 1.0,
            "the link takes 0.63 s; a round trip for each behind the window is 2 s more: {seconds} s"
        );
        assert!(house.origin.outstanding_max() <= window + MIB, "{}", house.origin.outstanding_max());
    });
}

/// A while that a client spends otherwise. Time passes on the paused clock only when all tasks wait for it.
async fn pass(time: Duration) {
    // sleep: on the paused clock it takes no time, and everything that is due meanwhile is done.
    tokio::time::sleep(time).await;
}

/// A job that reads all of each 8 MiB at once, in two vectors, and works on them for a second; virtual seconds that it waits.
async fn seconds_waited_by_a_job(house: &House, bursts: u64) -> f64 {
    let handle = house.open("/f").await;
    let mut waited = Duration::ZERO;
    for burst in 0..bursts {
        let began = Instant::now();
        for half in 0..2 {
            let elements = |element| ByteRange::at((burst * 2 + half) * 4 * MIB + element * MIB, MIB - KIB);
            read_vector(&handle, &[0, 1, 2, 3].map(elements)).await;
        }
        waited += began.elapsed();
        pass(Duration::from_secs(1)).await;
    }
    waited.as_secs_f64()
}

#[test]
fn a_job_that_works_on_what_it_has_read_finds_the_next_of_it_fetched() {
    const SIZE: u64 = 256 * MIB;
    run_virtual(async {
        let mut waited = Vec::new();
        for settings in [off(), ReadAheadSettings::default()] {
            let root = tempfile::tempdir().unwrap();
            let house = far_house(&root, SIZE, settings);
            waited.push(seconds_waited_by_a_job(&house, 10).await);
            let asked = asked_bytes(&house);
            let fetched = ahead(&house, ReadAheadEvent::Fetched);
            assert_eq!(fetched > 0, settings.enabled);
            assert!(asked <= 80 * MIB + settings.window_max, "{asked}");
            pass(Duration::from_secs(60)).await;
            assert_eq!(asked_bytes(&house), asked, "nothing is fetched on for who has closed the file");
        }
        assert!(waited[0] > 1.8, "20 round trips and 80 MiB: {} s", waited[0]);
        assert!(waited[1] < 0.4, "those of the first 8 MiB: {} s", waited[1]);
    });
}

#[test]
fn jobs_share_the_spare_time_of_a_link() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = far_house(&root, 64 * MIB, ReadAheadSettings::default());
        let mut jobs = Vec::new();
        for path in ["/f", "/g", "/h"] {
            let job = house.open(path).await;
            for index in 0..8 {
                check(&job, ByteRange::at(index * MIB, MIB)).await;
            }
            jobs.push(job);
        }
        while asked_bytes(&house) < 3 * 39 * MIB {
            pass(Duration::from_millis(1)).await;
        }
        pass(Duration::from_secs(1)).await;
        assert!(asked_bytes(&house) <= 3 * 40 * MIB, "{}", asked_bytes(&house));
        for job in &jobs {
            let rest = ByteRange::between(8 * MIB, 39 * MIB);
            assert!(job.hit(rest).is_some(), "{} is fetched up to the limit of reading ahead", job.lfn());
        }
    });
}

#[test]
fn spare_time_ends_where_others_wait() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = far_house(&root, 256 * MIB, ReadAheadSettings::default());
        let job = house.open("/f").await;
        let other = house.open("/g").await;
        let other = tokio::spawn(async move { check(&other, ByteRange::at(0, 64 * MIB)).await });
        until(|| !house.origin.asked().is_empty()).await;
        for index in 0..2 {
            check(&job, ByteRange::at(index * MIB, MIB)).await;
        }
        let before = ahead(&house, ReadAheadEvent::Fetched);
        pass(Duration::from_millis(100)).await;
        assert!(!other.is_finished());
        assert_eq!(ahead(&house, ReadAheadEvent::Fetched), before);
        other.await.unwrap();
        while ahead(&house, ReadAheadEvent::Fetched) <= before + 4 * MIB {
            pass(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn a_random_reader_costs_no_more_than_its_blocks() {
    const SIZE: u64 = 256 * MIB;
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = far_house(&root, SIZE, ReadAheadSettings::default());
        let handle = house.open("/f").await;
        let mut random = 88_172_645_463_325_252_u64;
        let mut blocks = std::collections::BTreeSet::new();
        for _ in 0..500 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let range = ByteRange::at(random % (SIZE - 32 * KIB), 32 * KIB);
            blocks.extend(range.start() / BLOCK..=(range.end() - 1) / BLOCK);
            read(&handle, range).await;
        }
        assert_eq!(asked_bytes(&house), blocks.len() as u64 * BLOCK);
        assert_eq!(ahead(&house, ReadAheadEvent::Fetched), 0);
    });
}

#[test]
fn vectors_that_repeat_are_fetched_ahead() {
    const SIZE: u64 = 256 * MIB;
    let elements = |index: u64| -> Vec<ByteRange> {
        (0..16).map(|element| ByteRange::at(index * 4 * MIB + element * 200 * KIB, 20 * KIB)).collect()
    };
    run_virtual(async {
        let mut seconds = Vec::new();
        for settings in [off(), ReadAheadSettings::default()] {
            let root = tempfile::tempdir().unwrap();
            let house = far_house(&root, SIZE, settings);
            let handle = house.open("/f").await;
            let began = Instant::now();
            for index in 0..50 {
                read_vector(&handle, &elements(index)).await;
            }
            seconds.push(began.elapsed().as_secs_f64());
            drop(handle);
            let wasted = ahead(&house, ReadAheadEvent::Wasted);
            assert!(wasted <= 16 * 16 * 2 * BLOCK, "the end of the pattern: {wasted}");
            let used = ahead(&house, ReadAheadEvent::Used);
            assert_eq!(settings.enabled, used > 40 * 16 * BLOCK, "{used}");
        }
        assert!(seconds[1] < seconds[0] / 2.0, "{seconds:?}");
    });
}

#[test]
fn strides_are_fetched_ahead() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = far_house(&root, 256 * MIB, ReadAheadSettings::default());
        let handle = house.open("/f").await;
        let began = Instant::now();
        for index in 0..200 {
            read(&handle, ByteRange::at(index * MIB, 50 * KIB)).await;
        }
        let seconds = began.elapsed().as_secs_f64();
        assert!(seconds < 2.5, "200 round trips are 10 s: {seconds} s");
        assert!(ahead(&house, ReadAheadEvent::Used) > 190 * BLOCK);
    });
}

#[test]
fn a_reader_that_leaves_what_was_fetched_is_left_alone() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = far_house(&root, 4096 * MIB, ReadAheadSettings::default());
        let handle = house.open("/f").await;
        let mut fetched = Vec::new();
        for index in 0..80 {
            for block in 0..4 {
                read(&handle, ByteRange::at(index * 20 * MIB + block * 4 * BLOCK, 4 * BLOCK)).await;
            }
            fetched.push(ahead(&house, ReadAheadEvent::Fetched));
        }
        assert!(fetched[3] > 0);
        let late = fetched[79] - fetched[39];
        assert!(late < 40 * 4 * 4 * BLOCK / 8, "of what it read at most an eighth more: {late}");
        drop(handle);
        let [fetched, used, wasted, failed] =
            [ReadAheadEvent::Fetched, ReadAheadEvent::Used, ReadAheadEvent::Wasted, ReadAheadEvent::Failed]
                .map(|event| ahead(&house, event));
        assert_eq!((fetched, failed), (used + wasted, 0), "each byte has one fate");
    });
}

#[test]
fn a_read_joins_what_is_being_fetched_ahead() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let house = far_house(&root, 16 * MIB, ReadAheadSettings::default());
        let handle = house.open("/f").await;
        for index in 0..3 {
            check(&handle, ByteRange::at(index * MIB, MIB)).await;
        }
        assert!(handle.bytes(Outcome::Coalesced) > 0);
        assert_eq!(Outcome::ALL.map(|outcome| handle.bytes(outcome)).iter().sum::<u64>(), 3 * MIB);
    });
}

#[test]
fn what_is_fetched_ahead_stays_within_its_limits() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let mut options = with(ReadAheadSettings::default());
        options.budget_bytes = 64 * MIB;
        options.read_ahead.origin_bytes_max = 2 * MIB;
        let house = Arc::new(House::build_with(root.path(), far_origin(8 * MIB), options));
        let readers: Vec<_> = (0..16)
            .map(|reader| {
                let house = Arc::clone(&house);
                tokio::spawn(async move {
                    let handle = house.open(&format!("/f{reader}")).await;
                    for index in 0..32 {
                        read(&handle, ByteRange::at(index * 256 * KIB, 256 * KIB)).await;
                    }
                })
            })
            .collect();
        for reader in readers {
            reader.await.unwrap();
        }
        let wanted_max = 16 * 256 * KIB;
        assert!(house.origin.outstanding_max() <= wanted_max + 2 * MIB, "{}", house.origin.outstanding_max());
        assert_eq!(asked_bytes(&house), 16 * 8 * MIB);
        assert_eq!(house.bytes(Outcome::Bypassed), 0, "no read had to go without memory");
        assert!(house.engine.metrics().render().unwrap().contains("forebay_not_read_ahead_total{reason=\"origin\"} "));
    });
}

#[test]
fn reads_come_before_reading_ahead_when_memory_is_short() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let mut options = with(ReadAheadSettings::default());
        options.budget_bytes = 2 * MIB;
        let house = House::build_with(root.path(), far_origin(16 * MIB), options);
        seconds_of_sequential_read(&house, 16 * MIB, MIB).await;
        assert_eq!(house.bytes(Outcome::Bypassed), 0);
        assert_eq!(asked_bytes(&house), 16 * MIB);
    });
}
