//! The seams: a second front and a second origin, of less than a hundred lines each, need nothing of `root://`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod line_front;
mod map_origin;

use forebay_auth::{Conditions, Grant, Grants, PathTemplate, Right, Rights, ScopeUse};
use forebay_cache::{AllowList, Budget, PurgeRules, ValidityPolicy};
use forebay_engine::{Engine, Export, ExportSource, OriginFactory, PurgeOptions, Routes, Service, Writes};
use forebay_front::Front;
use forebay_store::LocalDisk;
use forebay_telemetry::{Metrics, Observers, Readiness};
use forebay_testkit::{EventRecorder, bytes_at};
use forebay_trust::{Gate, GateFiles, SecurityOptions};
use forebay_types::Lfn;
use map_origin::MapOrigin;
use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream},
    net::{TcpListener, TcpStream},
};

const SIZE: usize = 200_000;

#[test]
fn a_second_front_serves_the_files_of_a_second_origin_from_the_cache() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bounded = async { tokio::time::timeout(Duration::from_secs(600), read_through_both()).await };
    runtime.block_on(bounded).unwrap();
}

async fn read_through_both() {
    let directory = tempfile::tempdir().unwrap();
    let file = || bytes_at(0, SIZE).into();
    let files = [("/public/f".to_owned(), file()), ("/private/f".to_owned(), file())].into();
    let origin = MapOrigin { files, ..MapOrigin::default() };
    let events = EventRecorder::default();
    let address = start(directory.path(), &origin, &events).await;
    let mut client = BufStream::new(TcpStream::connect(address).await.unwrap());

    let cold = get(&mut client, &format!("/public/f 0 {SIZE}")).await.unwrap();
    assert!(cold == bytes_at(0, SIZE), "wrong bytes from the origin");
    let from_origin = origin.reads.lock().clone();
    assert!(!from_origin.is_empty());

    // The bytes reach the disk after the client; until then they come from memory.
    while !events.lines().iter().any(|line| line.starts_with("Read") && line.ends_with("+200000 hit")) {
        let warm = get(&mut client, &format!("/public/f 0 {SIZE}")).await.unwrap();
        assert!(warm == bytes_at(0, SIZE), "wrong bytes from the cache");
    }
    assert_eq!(get(&mut client, "/public/f 70000 999999").await.unwrap(), bytes_at(70_000, SIZE - 70_000));
    let lines = events.lines();
    assert!(lines[lines.len() - 2].ends_with(" 70000+130000 hit"), "{lines:?}");
    assert!(lines[lines.len() - 1].ends_with(" hit=130000 missed=0 coalesced=0 bypassed=0"), "{lines:?}");
    assert_eq!(*origin.reads.lock(), from_origin, "the origin was asked once");
    let data_file = std::fs::read(directory.path().join("public/f")).unwrap();
    assert!(data_file == bytes_at(0, SIZE), "wrong bytes on disk");
    assert_eq!(get(&mut client, "/public/f 999999 10").await.unwrap(), b"");

    let refused = get(&mut client, "/private/f 0 10").await.unwrap_err();
    assert_eq!(refused, "ERROR not_authorized read /private/f: not authorized\n");
    let missing = get(&mut client, "/public/none 0 10").await.unwrap_err();
    assert_eq!(missing, "ERROR origin_refused no such file\n");
    let malformed = get(&mut client, "/public/f").await.unwrap_err();
    assert_eq!(malformed, "ERROR invalid expected GET PATH OFFSET LEN\n");

    let lines = events.lines();
    assert_eq!(lines[..2], ["login 1 line", "open 1 line /public/f 200000"]);
    assert_eq!(lines[2], "Read 1 0+200000 missed");
    assert_eq!(lines[3], "close 1 hit=0 missed=200000 coalesced=0 bypassed=0");
    let expected = ["refused line /private/f not_authorized", "failed open line /public/none origin origin_refused"];
    assert_eq!(lines[lines.len() - 2..], expected);
}

/// A cache of `origin` in `directory`, whose clients may read the files below `/public` only.
async fn start(directory: &Path, origin: &MapOrigin, events: &EventRecorder) -> SocketAddr {
    let export = Export {
        prefix: Lfn::parse("/").unwrap(),
        source: ExportSource::Origin { origin: Arc::new(origin.clone()), server: MapOrigin::endpoint().into() },
        writes: Writes::Refuse,
        validity: ValidityPolicy::default(),
        authorizes_at_origin: false,
        service: Service::default(),
    };
    let named = origin.clone();
    let factory: OriginFactory = Arc::new(move |_| Arc::new(named.clone()));
    let routes = Routes::new(vec![export], AllowList::parse::<&str>(&[]).unwrap(), factory).unwrap();
    // How full the machine's file system is decides nothing.
    let ample = Budget { total: Some(1 << 40), ..Budget::default() };
    let rules = PurgeRules { bytes: ample, inodes: ample, ..PurgeRules::default() };
    let options = forebay_engine::Options {
        purge: PurgeOptions { rules, ..PurgeOptions::default() },
        events: Observers::default().with(Arc::new(events.clone())),
        ..forebay_engine::Options::default()
    };
    let disk = Arc::new(LocalDisk::open(directory).unwrap());
    let engine = Engine::start(options, Some(disk), routes, Metrics::new());

    let (name, who, scopes) = (String::new(), Conditions::default(), ScopeUse::default());
    let (path, rights) = (PathTemplate::parse("/public").unwrap(), Rights::NONE.with(Right::Read));
    let grants = Grants::new(vec![Grant { name, who, path, rights, scopes }]).unwrap();
    let security = SecurityOptions { grants: Some(grants), ..SecurityOptions::default() };
    let gate = Gate::open(security, &GateFiles::default()).unwrap();
    let front = Front::new(engine, Arc::new(gate), forebay_front::Options::default(), Readiness::new());

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(line_front::serve(Arc::new(front), listener));
    address
}

/// The bytes that answer a request, or the line that refuses it.
async fn get(client: &mut BufStream<TcpStream>, request: &str) -> Result<Vec<u8>, String> {
    client.write_all(format!("GET {request}\n").as_bytes()).await.unwrap();
    client.flush().await.unwrap();
    let mut line = String::new();
    client.read_line(&mut line).await.unwrap();
    let Some(len) = line.strip_prefix("OK ") else { return Err(line) };
    let mut bytes = vec![0; len.trim_end().parse().unwrap()];
    client.read_exact(&mut bytes).await.unwrap();
    Ok(bytes)
}
