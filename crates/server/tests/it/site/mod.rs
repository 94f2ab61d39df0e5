//! A whole server in this process, and a client that speaks to it frame by frame.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod gated_origin;
mod peer;

#[allow(unused_imports, reason = "each test file uses its own part of this module")]
pub(crate) use peer::{Answer, Frame, HANDSHAKE, Peer, element, open, pgread, pgread_by, protocol, read, read_by};

use forebay_auth::{Conditions, Grant, Grants, PathTemplate, Right, Rights, ScopeUse};
use forebay_cache::{AllowList, Budget, PurgeRules, ValidityPolicy};
use forebay_engine::{Engine, Export, ExportSource, OriginFactory, PurgeOptions, Routes, Writes};
use forebay_front::Front;
use forebay_net::Listener;
use forebay_server::{Options, Server};
use forebay_telemetry::{Metrics, Observers, Readiness};
use forebay_testkit::{DiskFaults, EventRecorder, FaultyDisk, MemoryOrigin};
use forebay_trust::{Gate, GateFiles, SecurityOptions};
use forebay_types::Lfn;
use gated_origin::GatedOrigin;
use std::{
    future::Future,
    net::SocketAddr,
    path::Path,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
};

/// A server, and what stands behind it.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Engine,
    pub(crate) readiness: Readiness,
    pub(crate) origin: MemoryOrigin,
    /// Whether the origin opens files and lists directories.
    pub(crate) gate: watch::Sender<bool>,
    /// Listings that the origin was asked for.
    pub(crate) listings: Arc<AtomicUsize>,
    pub(crate) directory: TempDir,
    /// Of the cache's disk, if there is one.
    pub(crate) faults: Option<Arc<DiskFaults>>,
    /// What has happened to files.
    pub(crate) events: EventRecorder,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Site {
    /// A server of a directory's files.
    pub(crate) async fn of_files() -> Self {
        Self::of_files_with(Options::default()).await
    }

    /// A server of a directory's files, with limits for clients.
    pub(crate) async fn of_files_limited(limits: forebay_front::Options) -> Self {
        Self::serving_files(limits, Options::default(), Gate::wide_open())
    }

    /// A server of a directory's files, whose clients may read and list these paths only.
    pub(crate) async fn of_files_granted(path: &str) -> Self {
        let rights = Rights::NONE.with(Right::Read).with(Right::List);
        let path = PathTemplate::parse(path).unwrap();
        let (name, who, scopes) = (String::new(), Conditions::default(), ScopeUse::default());
        let grants = Grants::new(vec![Grant { name, who, path, rights, scopes }]).unwrap();
        let security = SecurityOptions { grants: Some(grants), ..SecurityOptions::default() };
        let gate = Gate::open(security, &GateFiles::default()).unwrap();
        Self::serving_files(forebay_front::Options::default(), Options::default(), gate)
    }

    /// A server of a directory's files, set up as `options` say.
    pub(crate) async fn of_files_with(options: Options) -> Self {
        Self::serving_files(forebay_front::Options::default(), options, Gate::wide_open())
    }

    fn serving_files(limits: forebay_front::Options, options: Options, gate: Gate) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let source = ExportSource::Directory(directory.path().to_owned());
        let origin = MemoryOrigin::new(0);
        let (gated, open) = GatedOrigin::new(origin.clone());
        Self::start(directory, source, (origin, gated.listings, open), limits, options, gate)
    }

    /// A cache before an origin in memory, whose file has `size` bytes under every path.
    pub(crate) async fn of_origin(size: u64, options: Options) -> Self {
        let (directory, origin) = (tempfile::tempdir().unwrap(), MemoryOrigin::new(size));
        let (gated, gate) = GatedOrigin::new(origin.clone());
        let listings = Arc::clone(&gated.listings);
        let source = ExportSource::Origin { origin: Arc::new(gated), server: MemoryOrigin::endpoint().into() };
        Self::start(
            directory,
            source,
            (origin, listings, gate),
            forebay_front::Options::default(),
            options,
            Gate::wide_open(),
        )
    }

    fn start(
        directory: TempDir,
        source: ExportSource,
        (origin, listings, gate): (MemoryOrigin, Arc<AtomicUsize>, watch::Sender<bool>),
        limits: forebay_front::Options,
        options: Options,
        clients: Gate,
    ) -> Self {
        let is_cache = matches!(source, ExportSource::Origin { .. });
        let writes = if is_cache { Writes::Redirect } else { Writes::Refuse };
        let prefix = if is_cache { "/store" } else { "/" };
        let export = Export {
            prefix: Lfn::parse(prefix).unwrap(),
            source,
            writes,
            validity: ValidityPolicy::default(),
            authorizes_at_origin: false,
            service: forebay_engine::Service::default(),
        };
        let named = origin.clone();
        let factory: OriginFactory = Arc::new(move |_| Arc::new(named.clone()));
        let allowed = AllowList::parse(if is_cache { &["memory"] } else { &[] }).unwrap();
        let routes = Routes::new(vec![export], allowed, factory).unwrap();
        let (disk, faults) = is_cache.then(|| FaultyDisk::open(directory.path()).unwrap()).unzip();
        let disk = disk.map(|disk| disk as Arc<dyn forebay_store::Disk>);
        // How full the machine's file system is decides nothing.
        let ample = Budget { total: Some(1 << 40), ..Budget::default() };
        let rules = PurgeRules { bytes: ample, inodes: ample, ..PurgeRules::default() };
        let purge = PurgeOptions { rules, ..PurgeOptions::default() };
        let recorder = EventRecorder::default();
        let events = Observers::default().with(Arc::new(recorder.clone()));
        let mut engine_options = forebay_engine::Options { purge, events, ..forebay_engine::Options::default() };
        engine_options.reads_by_ring = true;
        let engine = Engine::start(engine_options, disk, routes, Metrics::new());
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address();
        let readiness = Readiness::new();
        let front = Front::new(engine.clone(), Arc::new(clients), limits, readiness.clone());
        let server = Server::new(Arc::new(front), options);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            server.serve(listener, async { drop(stopped.await) }).await;
        });
        let events = recorder;
        Self { address, engine, readiness, origin, gate, listings, directory, faults, events, stop: Some(stop), task }
    }

    /// Puts a file into the served directory.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A client that has logged in.
    pub(crate) async fn login(&self) -> Peer {
        Peer::login(self.address, "tester").await
    }

    /// Tells the server to stop.
    pub(crate) fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits until the server has stopped.
    pub(crate) async fn stopped(self) {
        self.task.await.unwrap();
    }
}

/// Options with which a client is told to wait almost at once.
pub(crate) fn impatient() -> Options {
    Options { wait_response_after: Duration::from_millis(10), ..Options::default() }
}

/// Runs a test on a small multi-threaded runtime and fails after ten minutes: a busy machine takes its time.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(600), test).await }).unwrap();
}
