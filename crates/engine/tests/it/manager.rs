//! A manager in front of the engine that fills the store.

use crate::house::{House, caller, check, options, request, run, until};
use forebay_cache::{AllowList, CacheKey, ValidityCheck, ValidityPolicy};
use forebay_engine::{
    DecisionOptions, Engine, Error, Evicted, ManagerOptions, Opening, Options, OriginFactory, Redirects, Routes,
    Service,
};
use forebay_origin::BoxFuture;
use forebay_telemetry::Metrics;
use forebay_testkit::MemoryOrigin;
use forebay_types::{ByteRange, Endpoint, Lfn};
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

fn decisions(check: ValidityCheck) -> DecisionOptions {
    let forwarding_service = Service { direct: true, ..Service::default() };
    let forwarding_validity = ValidityPolicy { check, ..ValidityPolicy::default() };
    DecisionOptions { forwarding_service, forwarding_validity, ..DecisionOptions::default() }
}

fn filler(root: &Path) -> House {
    let options = Options {
        direct_lease: Duration::from_secs(3600),
        sync_interval: Duration::from_millis(20),
        publishes_complete: true,
        honours_access_times: true,
        ..options()
    };
    House::build_under(root, MemoryOrigin::new(SIZE), options, decisions(ValidityCheck::Never))
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

fn manager(root: &Path, filler: Option<Endpoint>, check: ValidityCheck) -> Engine {
    let factory: OriginFactory = Arc::new(move |_| Arc::new(MemoryOrigin::new(SIZE)));
    let allowed = AllowList::parse(&["memory"]).expect("a host name");
    let routes = Routes::new(Vec::new(), allowed, factory).expect("no export").with_decisions(decisions(check));
    let manager = Some(ManagerOptions { roots: vec![root.to_owned()], filler, ping });
    Engine::start(Options { manager, ..options() }, None, routes, Metrics::new())
}

fn key() -> CacheKey {
    CacheKey::forwarded(&MemoryOrigin::endpoint().into(), &Lfn::parse("/d/f").expect("a path")).expect("a key")
}

/// Has the filler fetch all of the file; gives where it lies once it is open to others.
async fn filled(house: &House) -> PathBuf {
    let handle = house.open(NAMED).await;
    check(&handle, ByteRange::at(0, SIZE)).await;
    drop(handle);
    let root = house.engine.volumes().first().map(|volume| volume.path.clone()).expect("one disk");
    let path = root.join(key().as_str().trim_start_matches('/'));
    until(|| path.metadata().is_ok_and(|file| file.permissions().mode() & 0o777 == 0o644)).await;
    path
}

async fn sent(manager: &Engine, path: &str, redirects: Redirects) -> Result<String, Error> {
    Ok(match manager.open_or_redirect(&request(path), &caller(), redirects).await? {
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
        let house = filler(root.path());
        let path = filled(&house).await;
        let manager = manager(root.path(), None, ValidityCheck::Never);
        last_used_long_ago(&path);
        assert_eq!(sent(&manager, NAMED, Redirects::ToFiles).await.unwrap(), path.display().to_string());
        assert_eq!(house.engine.evict(&key(), false).await.unwrap(), Evicted::Open, "a client may read it");
        house.engine.purge_to(0.0).await.unwrap();
        assert!(path.exists());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644, "still open to others");

        loop {
            // The filler itself may read the file once more, to make its checksums.
            last_used_long_ago(&path);
            if let Evicted::Removed { .. } = house.engine.evict(&key(), false).await.unwrap() {
                break;
            }
        }
        assert_ne!(sent(&manager, NAMED, Redirects::ToFiles).await.unwrap(), path.display().to_string());
        house.engine.shutdown().await;
        manager.shutdown().await;
    });
}

#[test]
fn a_file_that_is_open_at_the_filler_stays_open_to_others() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let house = filler(root.path());
        let path = filled(&house).await;
        let handle = house.open(NAMED).await;
        last_used_long_ago(&path);
        assert_eq!(house.engine.evict(&key(), false).await.unwrap(), Evicted::Open);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
        drop(handle);
        house.engine.shutdown().await;
    });
}

#[test]
fn a_purge_takes_what_nobody_has_read_for_the_time_of_a_lease() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let house = filler(root.path());
        let path = filled(&house).await;
        while path.exists() {
            last_used_long_ago(&path);
            house.engine.purge_to(0.0).await.unwrap();
        }
        house.engine.shutdown().await;
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
        manager.shutdown().await;
    });
}

#[test]
fn a_filler_that_answers_gets_all_that_is_no_complete_and_valid_file() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let house = filler(root.path());
        let path = filled(&house).await;
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
        until(|| [&never, &each].iter().all(|engine| engine.filler().is_some_and(|filler| filler.is_alive))).await;
        let filler = there.to_string();
        for (manager, cgi, redirects, expected) in [
            (&never, "", Redirects::ToFiles, path.to_str().unwrap()),
            (&never, "", Redirects::ToUrls, &filler),
            (&never, "", Redirects::ToServers, &filler),
            (&each, "", Redirects::ToFiles, &filler),
            (&each, "tried=127.0.0.1&triedrc=ioerr", Redirects::ToFiles, "root://memory:1094//d/f"),
        ] {
            let to = sent(manager, &format!("{NAMED}?{cgi}"), redirects).await.unwrap();
            assert_eq!(to, expected, "{cgi} {redirects:?}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(sent(&never, NAMED, Redirects::ToFiles).await.unwrap(), filler, "it was closed to others");
        answering.abort();
        let _ = answering.await;
        until(|| never.filler().is_some_and(|filler| !filler.is_alive)).await;
        assert_eq!(sent(&never, NAMED, Redirects::ToUrls).await.unwrap(), "root://memory:1094//d/f");
        house.engine.shutdown().await;
        never.shutdown().await;
        each.shutdown().await;
    });
}
