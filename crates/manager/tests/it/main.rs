//! A manager in front of the engine that fills the store.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use forebay_cache::{AllowList, Budget, CacheKey, PurgeRules, ValidityCheck, ValidityPolicy};
use forebay_engine::{
    Caller, DecisionOptions, Engine, Error, Evicted, OpenRequest, Opening, OriginFactory, PurgeOptions, Redirects,
    Routes, Service,
};
use forebay_manager::{Manager, Options};
use forebay_origin::BoxFuture;
use forebay_store::LocalDisk;
use forebay_telemetry::{Metrics, Observers};
use forebay_testkit::MemoryOrigin;
use forebay_types::{ByteRange, Endpoint, Lfn, RequestPath};
use std::{
    fs::{self, File, FileTimes},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
    time::timeout,
};

const SIZE: u64 = 300_000;
const NAMED: &str = "//root://memory//d/f";

fn routes(check: ValidityCheck) -> Routes {
    let forwarding_service = Service { direct: true, ..Service::default() };
    let forwarding_validity = ValidityPolicy { check, ..ValidityPolicy::default() };
    let decisions = DecisionOptions { forwarding_service, forwarding_validity, ..DecisionOptions::default() };
    let factory: OriginFactory = Arc::new(move |_| Arc::new(MemoryOrigin::new(SIZE)));
    let allowed = AllowList::parse(&["memory"]).unwrap();
    Routes::new(Vec::new(), allowed, factory).unwrap().with_decisions(decisions)
}

fn filler(root: &Path) -> Engine {
    // How full the machine's file system is decides nothing.
    let ample = Budget { total: Some(1 << 40), ..Budget::default() };
    let rules = PurgeRules { bytes: ample, inodes: ample, ..PurgeRules::default() };
    let options = forebay_engine::Options {
        purge: PurgeOptions { rules, ..PurgeOptions::default() },
        direct_lease: Duration::from_secs(3600),
        sync_interval: Duration::from_millis(20),
        publishes_complete: true,
        honours_access_times: true,
        ..forebay_engine::Options::default()
    };
    let disk = Arc::new(LocalDisk::open(root).unwrap());
    Engine::start(options, Some(disk), routes(ValidityCheck::Never), Metrics::new())
}

/// The servers of these tests send 16 bytes to each connection.
fn ping(server: Endpoint, limit: Duration) -> BoxFuture<'static, Option<TcpStream>> {
    let answered = async move {
        let mut stream = TcpStream::connect((server.host(), server.port())).await.ok()?;
        stream.read_exact(&mut [0; 16]).await.ok()?;
        Some(stream)
    };
    Box::pin(async move { timeout(limit, answered).await.ok().flatten() })
}

fn manager(root: &Path, filler: Option<Endpoint>, check: ValidityCheck) -> Arc<Manager> {
    let roots = vec![root.to_owned()];
    let options = Options { roots, direct_mode: 0o644, filler, parts: None, ping, events: Observers::default() };
    Manager::start(options, routes(check), Metrics::new())
}

fn request(path: &str) -> OpenRequest {
    RequestPath::parse(path.as_bytes()).unwrap().into()
}

fn key() -> CacheKey {
    CacheKey::forwarded(&MemoryOrigin::endpoint().into(), &Lfn::parse("/d/f").expect("a path")).expect("a key")
}

/// Has the filler fetch all of the file; gives where it lies once it is open to others.
async fn filled(engine: &Engine) -> PathBuf {
    let handle = engine.open(&request(NAMED), &Caller::operator("tester")).await.unwrap();
    let mut read = handle.read_many(&[ByteRange::at(0, SIZE)]).pop().unwrap();
    while let Some(segment) = read.next().await {
        segment.unwrap();
    }
    drop((read, handle));
    let root = engine.volumes().first().map(|volume| volume.path.clone()).unwrap();
    let path = root.join(key().as_str().trim_start_matches('/'));
    until(|| path.metadata().is_ok_and(|file| file.permissions().mode() & 0o777 == 0o644)).await;
    path
}

/// Waits for a condition, without end: the time limit of the test is the bound.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

/// Runs a future on a small multi-threaded runtime and fails after ten minutes: a busy machine takes its time.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { timeout(Duration::from_secs(600), test).await }).unwrap();
}

async fn sent(manager: &Manager, path: &str, redirects: Redirects) -> Result<String, Error> {
    Ok(match manager.open(&request(path), &Caller::operator("tester"), redirects).await? {
        Opening::Direct(path) => path.display().to_string(),
        Opening::Redirect(redirect) => redirect.url.unwrap_or_else(|| redirect.server.to_string()),
        Opening::File(_) => panic!("a manager serves nothing"),
    })
}

fn last_used_long_ago(path: &Path) {
    let times = FileTimes::new().set_accessed(SystemTime::UNIX_EPOCH);
    File::open(path).and_then(|file| file.set_times(times)).expect("the file is ours");
}

#[test]
fn what_the_filler_has_opened_to_others_is_left_to_clients_for_a_lease() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let engine = filler(root.path());
        let path = filled(&engine).await;
        let manager = manager(root.path(), None, ValidityCheck::Never);
        last_used_long_ago(&path);
        assert_eq!(sent(&manager, NAMED, Redirects::ToFiles).await.unwrap(), path.display().to_string());
        assert_eq!(engine.evict(&key(), false).await.unwrap(), Evicted::Open, "a client may read it");
        engine.purge_to(0.0, false).await.unwrap();
        assert!(path.exists());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644, "still open to others");

        loop {
            // The filler itself may read the file once more, to make its checksums.
            last_used_long_ago(&path);
            if let Evicted::Removed { .. } = engine.evict(&key(), false).await.unwrap() {
                break;
            }
        }
        assert_ne!(sent(&manager, NAMED, Redirects::ToFiles).await.unwrap(), path.display().to_string());
        engine.shutdown().await;
    });
}

#[test]
fn without_a_filler_clients_go_to_the_origin_and_never_in_a_circle() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let manager = manager(root.path(), None, ValidityCheck::Never);
        let origin = "root://memory:1094//d/f";
        assert_eq!(sent(&manager, NAMED, Redirects::ToUrls).await.unwrap(), origin);
        let refused = |cgi: &'static str, redirects| {
            let manager = &manager;
            async move { sent(manager, &format!("{NAMED}?{cgi}"), redirects).await.unwrap_err() }
        };
        assert!(matches!(refused("", Redirects::ToServers).await, Error::NoServer { .. }), "it cannot follow");
        assert!(matches!(refused("tried=memory", Redirects::ToUrls).await, Error::NoServer { .. }));
        let missing = refused("tried=memory&triedrc=enoent", Redirects::ToUrls).await;
        assert!(matches!(missing, Error::NotFound { .. }));
        assert!(matches!(refused("only-if-cached", Redirects::ToUrls).await, Error::NotCached { .. }));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "a manager writes nothing");
    });
}

#[test]
fn a_filler_that_answers_gets_all_that_is_no_complete_and_valid_file() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let engine = filler(root.path());
        let path = filled(&engine).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = Endpoint::new("127.0.0.1", listener.local_addr().unwrap().port());
        let answering = tokio::spawn(async move {
            let mut connected = Vec::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.writable().await.unwrap();
                stream.try_write(&[0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 5, 0x11, 0, 0, 0, 1]).unwrap();
                connected.push(stream);
            }
        });
        let never = manager(root.path(), Some(there.clone()), ValidityCheck::Never);
        let each = manager(root.path(), Some(there.clone()), ValidityCheck::EachOpen);
        until(|| [&never, &each].iter().all(|manager| manager.filler().is_alive)).await;
        let filler = there.to_string();
        for (manager, cgi, redirects, expected) in [
            (&never, "", Redirects::ToFiles, path.to_str().unwrap()),
            (&never, "", Redirects::ToUrls, &filler),
            (&never, "", Redirects::ToServers, &filler),
            (&each, "", Redirects::ToFiles, &filler),
            (&each, "tried=127.0.0.1&triedrc=ioerr", Redirects::ToFiles, "root://memory:1094//d/f"),
        ] {
            // Again: a busy machine may have kept the filler from answering meanwhile.
            until(|| manager.filler().is_alive).await;
            let to = sent(manager, &format!("{NAMED}?{cgi}"), redirects).await.unwrap();
            assert_eq!(to, expected, "{cgi} {redirects:?}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(sent(&never, NAMED, Redirects::ToFiles).await.unwrap(), filler, "it was closed to others");
        answering.abort();
        let _ = answering.await;
        until(|| !never.filler().is_alive).await;
        assert_eq!(sent(&never, NAMED, Redirects::ToUrls).await.unwrap(), "root://memory:1094//d/f");
        engine.shutdown().await;
    });
}
