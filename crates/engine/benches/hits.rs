//! Instructions that the engine spends on a read of what is there, on planning one that goes through the claims, and on a note for the
//! index.

use divan::{Bencher, black_box};
use forebay_cache::{AllowList, CacheKey};
use forebay_engine::{Caller, Engine, Export, ExportSource, Handle, OpenRequest, Options, Routes, Writes};
use forebay_index::{Change, Facts, Generation};
use forebay_telemetry::Metrics;
use forebay_testkit::{FaultyDisk, MemoryOrigin};
use forebay_types::{ByteRange, Lfn};
use notes::Notes;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The notes themselves: their keeper is not a part of the crate's interface.
#[allow(dead_code, reason = "only what a read notes is measured")]
#[path = "../src/catalog/notes.rs"]
mod notes;

fn main() {
    divan::main();
}

const FILE_LEN: u64 = 16 << 20;

/// An open file, all of it in the cache, and what it needs to stay that.
struct Scene {
    handle: Handle,
    runtime: Runtime,
    _store: TempDir,
}

impl Scene {
    fn set_up() -> Self {
        let store = tempfile::tempdir().expect("a directory for the store");
        let runtime = Runtime::new().expect("a runtime");
        let handle = runtime.block_on(async {
            let (disk, _) = FaultyDisk::open(store.path()).expect("a fresh directory is a store");
            let engine = Engine::start(Options::default(), Some(disk), routes(), Metrics::new());
            let request = OpenRequest::of(Lfn::parse("/file").expect("the path is good"));
            let handle = engine.open(&request, &Caller::operator("bench")).await.expect("the origin has every file");
            let whole = ByteRange::at(0, FILE_LEN);
            while handle.hit(whole).is_none() {
                read(&handle, whole).await;
            }
            handle
        });
        Self { handle, runtime, _store: store }
    }
}

fn routes() -> Routes {
    let origin = Arc::new(MemoryOrigin::new(FILE_LEN));
    let source = ExportSource::Origin { origin: Arc::clone(&origin) as _, server: MemoryOrigin::endpoint().into() };
    let prefix = Lfn::parse("/").expect("a root");
    let export = Export {
        prefix,
        source,
        writes: Writes::Redirect,
        validity: Default::default(),
        authorizes_at_origin: false,
        service: forebay_engine::Service::default(),
    };
    let allowed = AllowList::parse::<&str>(&[]).expect("nothing is allowed");
    Routes::new(vec![export], allowed, Arc::new(move |_| Arc::clone(&origin) as _)).expect("one export")
}

async fn read(handle: &Handle, range: ByteRange) {
    for mut read in handle.read_many(&[range]) {
        while let Some(segment) = read.next().await {
            black_box(segment.expect("the origin gives every byte"));
        }
    }
}

#[divan::bench]
fn hit(bencher: Bencher<'_, '_>) {
    let scene = Scene::set_up();
    let _guard = scene.runtime.enter();
    bencher.bench_local(|| scene.handle.hit(black_box(ByteRange::at(4 << 20, 4096))).is_some());
}

#[divan::bench(args = [4 << 10, 1 << 20])]
fn read_through_the_claims(bencher: Bencher<'_, '_>, len: u64) {
    let scene = Scene::set_up();
    bencher.bench_local(|| scene.runtime.block_on(read(&scene.handle, black_box(ByteRange::at(4 << 20, len)))));
}

#[divan::bench]
fn note_for_the_index(bencher: Bencher<'_, '_>) {
    let mut notes = Notes::default();
    let key = CacheKey::from_text("/store/mc/NANOAODSIM/0A1B2C3D.root").expect("the key is good");
    let generation = Generation { inode: 1, created: 1 };
    bencher.bench_local(move || {
        notes.add(black_box(&key), Change::learnt(generation, Facts { validated: Some(1), ..Facts::default() }))
    });
}
