//! A whole engine around an origin in memory and a real, breakable disk.

use forebay_cache::{AllowList, Budget, PurgeRules};
use forebay_engine::{
    Caller, DecisionOptions, Engine, Export, ExportSource, Handle, OpenRequest, Options, OriginFactory, PurgeOptions,
    Read, Routes, Segment, Writes,
};
use forebay_store::{Disk, StoreError};
use forebay_telemetry::Metrics;
use forebay_testkit::{DiskFaults, FaultyDisk, MemoryOrigin, bytes_at};
use forebay_types::{BlockSize, ByteRange, Lfn, Outcome, RequestPath};
use std::{future::Future, os::unix::fs::FileExt, path::Path, sync::Arc, time::Duration};

/// An engine and what stands behind it.
pub(crate) struct House {
    pub(crate) engine: Engine,
    pub(crate) origin: MemoryOrigin,
    pub(crate) faults: Arc<DiskFaults>,
}

pub(crate) const BLOCK: u64 = 64 << 10;

/// Small numbers, so that every limit is met. How full the machine's file system is decides nothing.
pub(crate) fn options() -> Options {
    let ample = Budget { total: Some(1 << 40), ..Budget::default() };
    let rules = PurgeRules { bytes: ample, inodes: ample, ..PurgeRules::default() };
    Options {
        purge: PurgeOptions { rules, ..PurgeOptions::default() },
        block_size: BlockSize::DEFAULT,
        budget_bytes: 64 << 20,
        fill_len_max: 1 << 20,
        read_window: 4 << 20,
        disk_pause: Duration::from_millis(200),
        ..Options::default()
    }
}

impl House {
    pub(crate) fn build(root: &Path, size: u64) -> Self {
        Self::build_with(root, MemoryOrigin::new(size), options())
    }

    pub(crate) fn build_with(root: &Path, origin: MemoryOrigin, options: Options) -> Self {
        Self::build_under(root, origin, options, DecisionOptions::default())
    }

    /// A house under other decisions; its export is as forwarded origins are.
    pub(crate) fn build_under(root: &Path, origin: MemoryOrigin, options: Options, decisions: DecisionOptions) -> Self {
        let (disk, faults) = open_disk(root);
        Self::build_on(disk, faults, origin, options, decisions)
    }

    /// A house on a disk that was made elsewhere.
    pub(crate) fn build_on(
        disk: Arc<dyn Disk>,
        faults: Arc<DiskFaults>,
        origin: MemoryOrigin,
        options: Options,
        decisions: DecisionOptions,
    ) -> Self {
        let validity = decisions.forwarding_validity;
        let service = decisions.forwarding_service;
        let source = ExportSource::Origin { origin: Arc::new(origin.clone()), server: MemoryOrigin::endpoint().into() };
        let export = Export {
            prefix: Lfn::parse("/").expect("a root"),
            source,
            writes: Writes::Redirect,
            validity,
            authorizes_at_origin: false,
            service,
        };
        let named = origin.clone();
        let factory: OriginFactory = Arc::new(move |_| Arc::new(named.clone()));
        let allowed = AllowList::parse(&["memory"]).expect("a host name");
        let routes = Routes::new(vec![export], allowed, factory).expect("one export").with_decisions(decisions);
        Self { engine: Engine::start(options, Some(disk), routes, Metrics::new()), origin, faults }
    }

    pub(crate) async fn open(&self, path: &str) -> Handle {
        self.engine.open(&request(path), &caller()).await.expect("the origin has every file")
    }

    /// Waits until no fill is under way: a read joins a fill also for blocks that it has already written.
    pub(crate) async fn filled(&self) {
        let is_idle = || {
            let metrics = self.engine.metrics().render().expect("metrics of one engine");
            metrics.contains("forebay_budget_used_bytes 0\n")
        };
        until(is_idle).await;
    }

    /// Bytes given to clients so far under `outcome`.
    pub(crate) fn bytes(&self, outcome: Outcome) -> u64 {
        self.engine.metrics().client_bytes(outcome)
    }
}

/// Opens the store, waiting for the lock that a last task of an earlier engine may still hold.
fn open_disk(root: &Path) -> (Arc<FaultyDisk<DiskFaults>>, Arc<DiskFaults>) {
    loop {
        match FaultyDisk::open(root) {
            Err(StoreError::Locked { .. }) => std::thread::yield_now(),
            opened => return opened.expect("a fresh directory is a store"),
        }
    }
}

pub(crate) fn request(path: &str) -> OpenRequest {
    RequestPath::parse(path.as_bytes()).expect("a good path").into()
}

pub(crate) fn caller() -> Arc<Caller> {
    Caller::operator("tester")
}

/// Reads a range to its end and checks every byte.
pub(crate) async fn check(handle: &Handle, range: ByteRange) {
    let read = handle.read_many(&[range]).pop().expect("one read for one range");
    let bytes = collect(read).await.expect("the read succeeds");
    assert!(bytes == bytes_at(range.start(), bytes.len()), "wrong bytes in {range}");
    assert_eq!(bytes.len() as u64, range.len());
}

pub(crate) async fn collect(mut read: Read) -> Result<Vec<u8>, forebay_engine::Error> {
    let mut bytes = Vec::new();
    while let Some(segment) = read.next().await {
        bytes.extend(segment_bytes(segment?));
    }
    Ok(bytes)
}

pub(crate) fn segment_bytes(segment: Segment) -> Vec<u8> {
    match segment {
        Segment::Memory(bytes) => bytes.to_vec(),
        Segment::File { file, range } => {
            let mut bytes = vec![0; usize::try_from(range.len()).expect("small")];
            file.read_exact_at(&mut bytes, range.start()).expect("present bytes can be read");
            bytes
        }
    }
}

/// Data files below `root` that this process has open.
pub(crate) fn open_data_files(root: &Path) -> usize {
    let links = std::fs::read_dir("/proc/self/fd").expect("Linux lists the open files");
    let files = links.filter_map(|link| std::fs::read_link(link.ok()?.path()).ok());
    files.filter(|file| file.starts_with(root) && !file.starts_with(root.join(".forebay")) && !file.is_dir()).count()
}

/// Waits for a condition, without end: the test runner's time limit is the bound.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

/// Runs a future on a small multi-threaded runtime and fails after ten minutes: a busy machine takes its time.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let bounded = async { tokio::time::timeout(Duration::from_secs(600), test).await };
    runtime.block_on(bounded).expect("the test ends within ten minutes");
}

/// Runs a future on one thread with a virtual clock: time passes when all tasks wait for it.
pub(crate) fn run_virtual(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let bounded = async { tokio::time::timeout(Duration::from_secs(3600), test).await };
    runtime.block_on(bounded).expect("the test ends within a virtual hour");
}
