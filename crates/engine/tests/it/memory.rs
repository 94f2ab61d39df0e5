//! The memory budget: origins that hang, clients that are slow, and too little of it.

use crate::house::{House, caller, check, collect, options, request, run, run_virtual, until};
use forebay_cache::AllowList;
use forebay_engine::{Engine, Export, ExportSource, Handle, Options, OriginFactory, Read, Routes, Segment, Writes};
use forebay_telemetry::Metrics;
use forebay_testkit::{FaultyDisk, MemoryOrigin};
use forebay_types::{ByteRange, Endpoint, Lfn, Outcome};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::time::Instant;

const MIB: u64 = 1 << 20;
const HEALTHY: &str = "/healthy/f";

/// Of files at origins that hang.
const FILE_SIZE: u64 = 6 * MIB;

/// An engine with an origin under `/healthy` and under `/0`, `/1` and so on those that will hang.
fn start(root: &Path, healthy: &MemoryOrigin, hanging: &[MemoryOrigin], options: Options) -> Engine {
    let export = |prefix: &str, origin: &MemoryOrigin| Export {
        prefix: Lfn::parse(prefix).expect("a good path"),
        source: ExportSource::Origin {
            origin: Arc::new(origin.clone()),
            server: Endpoint::new(prefix.trim_start_matches('/'), 1094).into(),
        },
        writes: Writes::Redirect,
        validity: forebay_engine::DecisionOptions::default().forwarding_validity,
        authorizes_at_origin: false,
        service: forebay_engine::DecisionOptions::default().forwarding_service,
    };
    let mut exports = vec![export("/healthy", healthy)];
    exports.extend(hanging.iter().enumerate().map(|(number, origin)| export(&format!("/{number}"), origin)));
    let named = healthy.clone();
    let factory: OriginFactory = Arc::new(move |_| Arc::new(named.clone()));
    let routes = Routes::new(exports, AllowList::parse(&["memory"]).expect("a host name"), factory).expect("exports");
    let (disk, _) = FaultyDisk::open(root).expect("a fresh directory is a store");
    Engine::start(options, Some(disk), routes, Metrics::new())
}

async fn open(engine: &Engine, path: &str) -> Handle {
    engine.open(&request(path), &caller()).await.expect("the origin has every file")
}

fn used_bytes(engine: &Engine) -> u64 {
    engine.metrics().budget().1
}

/// Reads of the whole file at each of these origins, from handles of their own.
async fn read_all(engine: &Engine, origins: usize, files: usize) -> Vec<Read> {
    let mut reads = Vec::new();
    for (origin, file) in (0..origins).flat_map(|origin| (0..files).map(move |file| (origin, file))) {
        let handle = open(engine, &format!("/{origin}/{file}")).await;
        reads.extend(handle.read_many(&[ByteRange::at(0, handle.size())]));
    }
    reads
}

#[test]
fn origins_that_never_answer_a_read_delay_no_other_by_a_second() {
    for have_answered in [false, true] {
        run_virtual(async {
            let root = tempfile::tempdir().unwrap();
            let hanging: Vec<_> = (0..20).map(|_| MemoryOrigin::new(FILE_SIZE)).collect();
            let healthy = MemoryOrigin::new(4 * MIB);
            let engine = start(root.path(), &healthy, &hanging, Options { budget_bytes: 16 * MIB, ..options() });
            for (number, origin) in hanging.iter().enumerate() {
                if have_answered {
                    check(&open(&engine, &format!("/{number}/first")).await, ByteRange::at(0, 10)).await;
                }
                origin.let_through(0);
            }
            let reads = read_all(&engine, hanging.len(), 4).await;
            let waiting: Vec<_> = reads.into_iter().map(|read| tokio::spawn(collect(read))).collect();
            let begun = Instant::now();
            check(&open(&engine, HEALTHY).await, ByteRange::at(0, 4 * MIB)).await;
            assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
            // More readers of the same origins hold no memory either.
            let more = read_all(&engine, hanging.len(), 4).await;
            let begun = Instant::now();
            check(&open(&engine, "/healthy/g").await, ByteRange::at(0, 4 * MIB)).await;
            assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
            drop(more);
            // All get their bytes when the origins answer after all.
            hanging.iter().for_each(|origin| origin.let_through(u64::MAX));
            for read in waiting {
                assert_eq!(read.await.unwrap().unwrap().len() as u64, FILE_SIZE);
            }
        });
    }
}

#[test]
fn memory_and_fills_of_readers_that_left_a_hanging_origin_are_given_up() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let (healthy, hanging) = (MemoryOrigin::new(MIB), MemoryOrigin::new(64 * MIB));
        let engine = start(root.path(), &healthy, std::slice::from_ref(&hanging), options());
        hanging.let_through(0);
        let reads = read_all(&engine, 1, 1).await;
        until(|| !hanging.asked().is_empty()).await;
        assert!(used_bytes(&engine) > 0);
        drop(reads);
        // sleep: on the paused clock it takes no time.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(used_bytes(&engine), 0);
        let asked = hanging.asked().len();
        // sleep: on the paused clock it takes no time.
        tokio::time::sleep(Duration::from_secs(20)).await;
        hanging.let_through(u64::MAX);
        check(&open(&engine, "/0/0").await, ByteRange::at(0, MIB)).await;
        assert!(hanging.asked().len() > asked, "the earlier fill has ended: its blocks are requested again");
    });
}

#[test]
fn readers_without_memory_share_one_fetch_of_each_block() {
    run(async {
        // Again if a busy machine was silent for so long that fills lent their memory.
        while !share_one_fetch_of_each_block().await {}
    });
}

/// Whether no fill lent its memory meanwhile.
async fn share_one_fetch_of_each_block() -> bool {
    let root = tempfile::tempdir().expect("a directory");
    let budget_bytes = MIB;
    let small = Options { budget_bytes, fill_len_max: budget_bytes / 4, ..options() };
    let house = House::build_with(root.path(), MemoryOrigin::new(16 * MIB), small);
    let mut readers = Vec::new();
    for _ in 0..32 {
        let handle = house.open("/f").await;
        readers.push(tokio::spawn(async move { check(&handle, ByteRange::at(0, 16 * MIB)).await }));
    }
    for reader in readers {
        reader.await.expect("its bytes are right");
    }
    let metrics = house.engine.metrics().render().expect("metrics of one engine");
    if !metrics.contains("forebay_not_kept_total{reason=\"budget\"} 0\n") {
        return false;
    }
    let asked = house.origin.asked();
    assert_eq!(asked.iter().map(|range| range.len()).sum::<u64>(), 16 * MIB);
    assert_eq!(house.bytes(Outcome::Bypassed), 0);
    true
}

#[test]
fn readers_that_take_nothing_hold_a_part_of_the_memory() {
    run_virtual(async {
        let root = tempfile::tempdir().unwrap();
        let budget_bytes = 4 * MIB;
        let house = House::build_with(root.path(), MemoryOrigin::new(2 * MIB), Options { budget_bytes, ..options() });
        let mut held = Vec::new();
        for number in 0..64 {
            let handle = house.open(&format!("/{number}")).await;
            let mut read = handle.read_many(&[ByteRange::at(0, 2 * MIB)]).pop().unwrap();
            let mut bytes = 0;
            while bytes < MIB {
                let segment = read.next().await.unwrap().unwrap();
                bytes += segment.len();
                held.push(segment);
            }
        }
        let in_memory = |segment: &Segment| match segment {
            Segment::Memory(bytes) => bytes.len() as u64,
            Segment::File { .. } => 0,
        };
        assert!(held.iter().map(in_memory).sum::<u64>() <= budget_bytes / 4);
        check(&house.open("/other").await, ByteRange::at(0, 2 * MIB)).await;
        assert_eq!(house.bytes(Outcome::Bypassed), 0);
    });
}
