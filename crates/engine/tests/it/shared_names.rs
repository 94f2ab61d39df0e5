//! One entry for a Rucio file that several origins have.

use crate::house::{caller, check, collect, options, request, run};
use forebay_auth::{Credentials, Token};
use forebay_cache::{AllowList, ValidityCheck, ValidityPolicy};
use forebay_engine::{
    Caller, Checksum, DecisionOptions, Delegation, Engine, Error, Handle, ListDetail, OriginFactory, Routes,
};
use forebay_origin::{Origin, OriginError, OriginFile, OriginFuture, OriginPath};
use forebay_telemetry::Metrics;
use forebay_testkit::{FaultyDisk, MemoryOrigin};
use forebay_types::{ByteRange, DirEntry, FileStat};
use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

const SIZE: u64 = 300_000;
const ONE: &str = "//root://one//site/rucio/mc/3f/a0/f.root";
const TWO: &str = "//root://two//other/place/rucio/mc/3f/a0/f.root";

fn origin(size: u64, adler32: Option<&str>) -> MemoryOrigin {
    let origin = MemoryOrigin::new(size);
    origin.script(|script| script.adler32 = adler32.map(str::to_owned));
    origin
}

/// A cache whose clients name the origins `one` and `two`.
fn cache(root: &Path, one: &MemoryOrigin, two: &MemoryOrigin, shares_rucio_files: bool) -> Engine {
    cache_under(root, one, two, DecisionOptions { shares_rucio_files, ..DecisionOptions::default() })
}

fn sharing() -> DecisionOptions {
    DecisionOptions { shares_rucio_files: true, ..DecisionOptions::default() }
}

fn cache_under(root: &Path, one: &MemoryOrigin, two: &MemoryOrigin, decisions: DecisionOptions) -> Engine {
    let origins = (one.clone(), two.clone());
    let factory: OriginFactory = Arc::new(move |id| {
        let (one, two) = origins.clone();
        Arc::new(if id.endpoint.host() == "one" { one } else { two })
    });
    cache_of(root, factory, decisions)
}

fn cache_of(root: &Path, factory: OriginFactory, decisions: DecisionOptions) -> Engine {
    let allowed = AllowList::parse(&["one", "two"]).expect("host names");
    let routes = Routes::new(Vec::new(), allowed, factory).expect("no export").with_decisions(decisions);
    let (disk, _) = FaultyDisk::open(root).expect("a fresh directory is a store");
    Engine::start(options(), Some(disk), routes, Metrics::new())
}

async fn read(engine: &Engine, path: &str) {
    let handle = engine.open(&request(path), &caller()).await.expect("the origin has every file");
    check(&handle, ByteRange::at(0, SIZE)).await;
}

#[test]
fn the_same_file_of_another_origin_is_in_the_cache() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let (one, two) = (origin(SIZE, Some("0a1b2c3d")), origin(SIZE, Some("0a1b2c3d")));
        let engine = cache(root.path(), &one, &two, true);
        read(&engine, ONE).await;
        read(&engine, TWO).await;
        assert!(two.asked().is_empty());
        // Once for each origin, whatever is opened later.
        read(&engine, TWO).await;
        assert_eq!((one.checksums(), two.checksums()), (1, 1));
    });
}

#[test]
fn the_copy_is_served_while_its_origin_is_silent() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let (one, two) = (origin(SIZE, Some("0a1b2c3d")), origin(SIZE, Some("0a1b2c3d")));
        let stale_max = Some(Duration::from_secs(3600));
        let forwarding_validity =
            ValidityPolicy { check: ValidityCheck::EachOpen, stale_max, compares_checksum: false };
        let decisions = DecisionOptions { shares_rucio_files: true, forwarding_validity, ..DecisionOptions::default() };
        let engine = cache_under(root.path(), &one, &two, decisions);
        read(&engine, ONE).await;
        let asked = one.asked().len();
        one.script(|script| {
            let reason = "injected".to_owned();
            script.stat_error = Some(OriginError::Unreachable { endpoint: MemoryOrigin::endpoint(), reason });
        });
        read(&engine, ONE).await;
        assert_eq!((one.asked().len(), one.opens()), (asked, 1));
    });
}

#[test]
fn other_contents_missing_checksums_and_the_setting_keep_files_apart() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let same = Some("0a1b2c3d");
        for (number, (size, adler32, shares)) in
            [(SIZE + 1, same, true), (SIZE, Some("0a1b2c3e"), true), (SIZE, None, true), (SIZE, same, false)]
                .into_iter()
                .enumerate()
        {
            let (one, two) = (origin(SIZE, same), origin(size, adler32));
            let root = root.path().join(number.to_string());
            std::fs::create_dir(&root).unwrap();
            let engine = cache(&root, &one, &two, shares);
            read(&engine, ONE).await;
            read(&engine, TWO).await;
            assert!(!two.asked().is_empty(), "case {number}");
        }
    });
}

fn unreachable() -> OriginError {
    OriginError::Unreachable { endpoint: MemoryOrigin::endpoint(), reason: "injected".to_owned() }
}

#[test]
fn reads_continue_at_an_origin_that_another_client_has_named() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let (one, two) = (origin(SIZE, Some("0a1b2c3d")), origin(SIZE, Some("0a1b2c3d")));
        let engine = cache(root.path(), &one, &two, true);
        let first = engine.open(&request(ONE), &caller()).await.unwrap();
        check(&first, ByteRange::at(0, 1000)).await;
        let second = engine.open(&request(TWO), &caller()).await.unwrap();
        one.script(|script| {
            script.read_error = Some((0, unreachable()));
            script.open_error = Some(unreachable());
        });
        until_read(&second).await;
        check(&second, ByteRange::at(0, SIZE)).await;
        check(&first, ByteRange::at(0, SIZE)).await;
        assert!(!two.asked().is_empty());
    });
}

#[test]
fn a_replica_that_was_replaced_takes_nothing_from_the_cache() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let (one, two) = (origin(SIZE, Some("0a1b2c3d")), origin(SIZE, Some("0a1b2c3d")));
        let engine = cache(root.path(), &one, &two, true);
        let first = engine.open(&request(ONE), &caller()).await.unwrap();
        let _second = engine.open(&request(TWO), &caller()).await.unwrap();
        two.script(|script| script.size = SIZE + 1);
        one.script(|script| {
            script.read_error = Some((0, unreachable()));
            script.open_error = Some(unreachable());
        });
        let read = first.read_many(&[ByteRange::at(0, SIZE)]).pop().expect("one read for one range");
        assert!(matches!(collect(read).await, Err(Error::Origin(OriginError::Unreachable { .. }))));
        one.script(|script| (script.read_error, script.open_error) = (None, None));
        until_read(&first).await;
        assert!(two.asked().is_empty());
    });
}

/// Reads the file, again if a fill was under way, which ends with its origin.
async fn until_read(handle: &Handle) {
    let read = || handle.read_many(&[ByteRange::at(0, SIZE)]).pop().expect("one read for one range");
    while collect(read()).await.is_err() {
        tokio::task::yield_now().await;
    }
}

/// An origin that remembers whose credentials it was shown at opens.
struct Recording {
    files: MemoryOrigin,
    shown: Mutex<BTreeSet<String>>,
}

impl Recording {
    fn new() -> Arc<Self> {
        Arc::new(Self { files: origin(SIZE, Some("0a1b2c3d")), shown: Mutex::default() })
    }

    fn shown(&self) -> Vec<String> {
        self.shown.lock().expect("no panic").iter().cloned().collect()
    }
}

impl Origin for Recording {
    fn label(&self) -> &str {
        "recording"
    }

    fn acts_for_clients(&self) -> bool {
        true
    }

    fn open<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, Arc<dyn OriginFile>> {
        if let Some(token) = path.delegation.credentials().as_ref().and_then(|shown| shown.token_for(true, false)) {
            self.shown.lock().expect("no panic").insert(token.expose().to_owned());
        }
        self.files.open(path)
    }

    fn stat<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, FileStat> {
        self.files.stat(path)
    }

    fn list<'a>(&'a self, path: &'a OriginPath, detail: ListDetail) -> OriginFuture<'a, Vec<DirEntry>> {
        self.files.list(path, detail)
    }

    fn checksum<'a>(&'a self, path: &'a OriginPath, algorithm: Option<&'a str>) -> OriginFuture<'a, Checksum> {
        self.files.checksum(path, algorithm)
    }
}

fn client(token: &str) -> Arc<Caller> {
    let credentials = Credentials::of_client().with_token(Token::parse(token.as_bytes()).expect("a token"));
    let caller = Caller::operator("tester").as_ref().clone();
    Arc::new(Caller { delegation: Delegation::Client(Some(Arc::new(credentials))), ..caller })
}

#[test]
fn credentials_for_one_origin_are_not_shown_to_another() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let (one, two) = (Recording::new(), Recording::new());
        let origins = (Arc::clone(&one), Arc::clone(&two));
        let factory: OriginFactory = Arc::new(move |id| {
            let (one, two) = &origins;
            if id.endpoint.host() == "one" { Arc::clone(one) as _ } else { Arc::clone(two) as _ }
        });
        let engine = cache_of(root.path(), factory, sharing());
        let first = engine.open(&request(ONE), &client("of-one")).await.unwrap();
        let second = engine.open(&request(TWO), &client("of-two")).await.unwrap();
        check(&first, ByteRange::at(0, SIZE / 2)).await;
        one.files.script(|script| script.read_error = Some((0, unreachable())));
        until_read(&second).await;
        assert_eq!((one.shown(), two.shown()), (vec!["of-one".to_owned()], vec!["of-two".to_owned()]));
    });
}
