//! Opens and closes of different cached files by many threads at once: the time of each, and how often a thread had to wait for another.
//!
//! A thread that waits for a lock sleeps, which the system counts as a voluntary switch; nothing else in an open of a file that was closed
//! a moment ago does. With few processors a lock is contended when its holder is interrupted, which is rare; so compare builds, not
//! figures. `strace -f -c -e futex` counts the calls.

use forebay_cache::AllowList;
use forebay_engine::{Caller, Engine, Export, ExportSource, OpenRequest, Options, Routes, Writes};
use forebay_store::LocalDisk;
use forebay_telemetry::{Activity, ActivityOptions, Metrics, Observers};
use forebay_testkit::MemoryOrigin;
use forebay_types::{ByteRange, Lfn};
use std::{
    fs,
    sync::{Arc, Barrier},
    time::Duration,
};
use tokio::runtime::Runtime;

const FILES: usize = 2000;
const FILE_LEN: u64 = 4096;

/// Opens of each thread in one run.
const OPENS: usize = 4000;

fn main() {
    let store = tempfile::tempdir_in("/dev/shm").expect("a directory for the store");
    let runtime = Runtime::new().expect("a runtime");
    let engine = runtime.block_on(start(store.path()));
    println!("threads   ns per open and close   waits per 1000");
    for threads in [1, 4, 16, 64] {
        let (time, waits) = run(&runtime, &engine, threads);
        let opens = threads * OPENS;
        println!("{threads:7} {:23} {:16.2}", time.as_nanos() / opens as u128, waits as f64 * 1000.0 / opens as f64);
    }
    runtime.block_on(engine.shutdown());
}

/// An engine that holds all files.
async fn start(store: &std::path::Path) -> Engine {
    let metrics = Metrics::new();
    let activity = Activity::new(ActivityOptions::default(), (forebay_net::clock::monotonic(), 0), &metrics);
    let events = Observers::new(vec![Arc::new(activity)]);
    let disk = LocalDisk::open(store).expect("a fresh directory is a store");
    let engine = Engine::start(Options { events, ..Options::default() }, Some(Arc::new(disk)), routes(), metrics);
    for number in 0..FILES {
        let handle =
            engine.open(&request(number), &Caller::operator("bench")).await.expect("the origin has every file");
        let whole = ByteRange::at(0, FILE_LEN);
        while handle.hit(whole).is_none() {
            for mut read in handle.read_many(&[whole]) {
                while read.next().await.is_some() {}
            }
        }
    }
    engine
}

fn routes() -> Routes {
    let origin = Arc::new(MemoryOrigin::new(FILE_LEN));
    let source = ExportSource::Origin { origin: Arc::clone(&origin) as _, server: MemoryOrigin::endpoint().into() };
    let export = Export {
        prefix: Lfn::parse("/").expect("a root"),
        source,
        writes: Writes::Redirect,
        validity: Default::default(),
        authorizes_at_origin: false,
        service: forebay_engine::Service::default(),
    };
    let allowed = AllowList::parse::<&str>(&[]).expect("nothing is allowed");
    Routes::new(vec![export], allowed, Arc::new(move |_| Arc::clone(&origin) as _)).expect("one export")
}

fn request(number: usize) -> OpenRequest {
    OpenRequest::of(
        Lfn::parse(&format!("/store/mc/Era/TTbar/AODSIM/v1/00/{number:04}.root")).expect("the path is good"),
    )
}

/// Time of the run, and the waits of all its threads.
fn run(runtime: &Runtime, engine: &Engine, threads: usize) -> (Duration, u64) {
    let barrier = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let work = |thread: usize| {
            let barrier = &barrier;
            move || {
                let _guard = runtime.enter();
                let caller = Caller::operator("bench");
                let requests: Vec<_> = (0..FILES).map(request).collect();
                barrier.wait();
                let before = waits();
                // Each thread begins elsewhere: no two have the same file open for long.
                for request in requests.iter().cycle().skip(thread * FILES / threads).take(OPENS) {
                    drop(runtime.block_on(engine.open(request, &caller)).expect("the file is there"));
                }
                waits() - before
            }
        };
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(work(thread))).collect();
        barrier.wait();
        let start = forebay_net::clock::monotonic();
        let waits = running.into_iter().map(|thread| thread.join().expect("no thread panics")).sum();
        (forebay_net::clock::monotonic() - start, waits)
    })
}

/// Times that this thread has slept.
fn waits() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").expect("the system has it");
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).expect("the system counts them")
}
