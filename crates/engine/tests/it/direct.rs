//! Clients that see the file system of the cache read complete files on their own.

use crate::house::{House, caller, check, options, request, run, until};
use forebay_cache::CacheKey;
use forebay_engine::{DecisionOptions, Evicted, Handle, Miss, Opening, Options, Redirects, Service};
use forebay_telemetry::Observers;
use forebay_testkit::{EventRecorder, MemoryOrigin, bytes_at};
use forebay_types::{ByteRange, Lfn};
use std::{
    fs,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

const SIZE: u64 = 300_000;
const NAMED: &str = "//root://memory//d/f";
const NAMED_LFN: &str = "/root:/memory/d/f";

fn house(root: &Path, lease: Duration) -> House {
    house_of(root, lease, Service { direct: true, ..Service::default() })
}

fn house_of(root: &Path, lease: Duration, service: Service) -> House {
    let decisions = DecisionOptions { forwarding_service: service, ..DecisionOptions::default() };
    let options = Options { direct_lease: lease, sync_interval: Duration::from_millis(20), ..options() };
    House::build_under(root, MemoryOrigin::new(SIZE), options, decisions)
}

fn key() -> CacheKey {
    CacheKey::forwarded(&MemoryOrigin::endpoint().into(), &Lfn::parse("/d/f").expect("a path")).expect("a key")
}

async fn open(house: &House, redirects: Redirects) -> Opening {
    let opened = house.engine.open_or_redirect(&request(NAMED), &caller(), redirects).await;
    opened.expect("the origin has every file")
}

async fn served(house: &House, redirects: Redirects) -> Handle {
    match open(house, redirects).await {
        Opening::File(handle) => handle,
        _ => panic!("{redirects:?}: not served"),
    }
}

/// Has the cache fetch all of the file; gives where it lies once it is left to clients.
async fn filled(house: &House) -> PathBuf {
    if let Opening::File(handle) = open(house, Redirects::ToFiles).await {
        check(&handle, ByteRange::at(0, SIZE)).await;
    }
    loop {
        if let Opening::Direct(path) = open(house, Redirects::ToFiles).await {
            return path;
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_complete_file_is_left_to_clients_that_see_it() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let house = house(root.path(), Duration::from_secs(60));
        let path = filled(&house).await;
        assert_eq!(fs::read(&path).unwrap(), bytes_at(0, usize::try_from(SIZE).unwrap()));
        for redirects in [Redirects::Never, Redirects::ToServers, Redirects::ToUrls] {
            assert!(matches!(open(&house, redirects).await, Opening::File(_)), "{redirects:?}");
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644, "opened to others");
        fs::rename(&path, path.with_extension("elsewhere")).unwrap();
        fs::write(&path, b"something else").unwrap();
        assert!(matches!(open(&house, Redirects::ToFiles).await, Opening::File(_)), "another file is in its place");
        house.engine.shutdown().await;
    });
}

#[test]
fn an_incomplete_file_is_served() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let house = house(root.path(), Duration::from_secs(60));
        for _ in 0..3 {
            let Opening::File(handle) = open(&house, Redirects::ToFiles).await else { panic!("it is not complete") };
            check(&handle, ByteRange::at(0, 1000)).await;
            let data = root.path().join("root:/memory:1094/d/f");
            if let Ok(metadata) = fs::metadata(&data) {
                assert_eq!(metadata.permissions().mode() & 0o077, 0, "no other process reads a part of it");
            }
        }
        house.engine.shutdown().await;
    });
}

#[test]
fn an_open_file_is_left_to_its_reader_once_it_is_complete() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let house = house(root.path(), Duration::from_secs(60));
        let able = served(&house, Redirects::ToFilesAmidReads).await;
        let others = [served(&house, Redirects::ToFiles).await, served(&house, Redirects::Never).await];
        check(&able, ByteRange::at(0, 100_000)).await;
        assert!(!able.may_switch(), "it is not complete");
        assert_eq!(able.switch().await, None);
        check(&able, ByteRange::at(100_000, 200_000)).await;
        until(|| able.may_switch()).await;
        assert!(others.iter().all(|other| !other.may_switch()), "who cannot follow is served");
        let path = able.switch().await.expect("it is complete");
        assert_eq!(fs::read(&path).unwrap(), bytes_at(0, usize::try_from(SIZE).unwrap()));
        assert_eq!(able.switch().await.as_ref(), Some(&path), "other reads under way get the same answer");
        check(&able, ByteRange::at(5, 1000)).await;
        drop((able, others));
        assert!(matches!(house.engine.evict(&key(), false).await, Ok(Evicted::Open)), "it counts as open");
        house.engine.shutdown().await;
    });
}

#[test]
fn who_goes_on_reading_is_served() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let house = house(root.path(), Duration::from_secs(60));
        let handle = served(&house, Redirects::ToFilesAmidReads).await;
        check(&handle, ByteRange::at(0, SIZE)).await;
        until(|| handle.may_switch()).await;
        let mut redirects = 0;
        while handle.may_switch() {
            redirects += u32::from(handle.switch().await.is_some());
        }
        assert_eq!(redirects, 16);
        assert!(handle.hit(ByteRange::at(0, SIZE)).is_some());
        house.engine.shutdown().await;
    });
}

#[test]
fn an_open_file_that_is_not_in_its_place_is_served() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let house = house(root.path(), Duration::from_secs(60));
        let handle = served(&house, Redirects::ToFilesAmidReads).await;
        check(&handle, ByteRange::at(0, SIZE)).await;
        until(|| handle.may_switch()).await;
        let path = root.path().join("root:/memory:1094/d/f");
        fs::rename(&path, path.with_extension("elsewhere")).unwrap();
        fs::write(&path, b"something else").unwrap();
        assert_eq!(handle.switch().await, None);
        house.engine.shutdown().await;
    });
}

#[test]
fn a_client_that_leaves_while_it_is_looked_for_the_file_has_closed_it() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let house = house(root.path(), Duration::ZERO);
        let handle = served(&house, Redirects::Never).await;
        check(&handle, ByteRange::at(0, SIZE)).await;
        filled(&house).await;
        for _ in 0..20 {
            let mut opening = pin!(open(&house, Redirects::ToFiles));
            let _ = opening.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
        drop(handle);
        while matches!(house.engine.evict(&key(), false).await, Ok(Evicted::Open)) {
            tokio::task::yield_now().await;
        }
        house.engine.shutdown().await;
    });
}

#[test]
fn a_file_that_was_left_to_a_client_is_not_removed_until_its_lease_ends() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let house = house(root.path(), Duration::from_secs(3));
        let path = filled(&house).await;
        let mut reader = fs::File::open(&path).unwrap();
        assert!(matches!(house.engine.evict(&key(), false).await, Ok(Evicted::Open)));
        assert!(path.exists());
        while matches!(house.engine.evict(&key(), false).await, Ok(Evicted::Open)) {
            tokio::task::yield_now().await;
        }
        assert!(!path.exists());
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, SIZE, "who has it open reads on");
        house.engine.shutdown().await;
    });
}

#[test]
fn who_comes_too_early_is_sent_to_the_origin_while_the_cache_fetches_the_file() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let service = Service { miss: Miss::Redirect, ..Service::default() };
        let recorder = EventRecorder::default();
        let decisions = DecisionOptions { forwarding_service: service, ..DecisionOptions::default() };
        let events = Observers::new(vec![Arc::new(recorder.clone())]);
        let house =
            House::build_under(root.path(), MemoryOrigin::new(SIZE), Options { events, ..options() }, decisions);
        let mut named = None;
        let mut redirects = 0;
        house.origin.let_through(0);
        for _ in 0..10 {
            if let Opening::Redirect(redirect) = open(&house, Redirects::ToUrls).await {
                named = redirect.url;
                redirects += 1;
            }
        }
        assert_eq!(named.as_deref(), Some("root://memory:1094//d/f"), "none of the first can find it complete");
        house.origin.let_through(u64::MAX);
        let served = loop {
            match open(&house, Redirects::ToUrls).await {
                Opening::File(handle) => break handle,
                Opening::Redirect(_) => redirects += 1,
                Opening::Direct(_) => panic!("not for this client"),
            }
            tokio::task::yield_now().await;
        };
        check(&served, ByteRange::at(0, SIZE)).await;
        let asked: u64 = house.origin.asked().iter().map(|range| range.len()).sum();
        assert_eq!(asked, SIZE, "fetched once, however many came");
        assert_eq!(house.engine.metrics().miss_redirects(), redirects);
        let reported =
            recorder.lines().iter().filter(|line| line.starts_with("redirect ")).cloned().collect::<Vec<_>>();
        assert_eq!(reported.len() as u64, redirects, "each of them is reported");
        assert!(reported[0].ends_with(&format!("{NAMED_LFN} memory:1094 Some({SIZE})")), "{}", reported[0]);
        house.engine.shutdown().await;
    });
}

#[test]
fn who_cannot_be_sent_to_the_origin_reads_through_the_cache() {
    let root = tempfile::tempdir().unwrap();
    run(async {
        let service = Service { miss: Miss::Redirect, ..Service::default() };
        let house = house_of(root.path(), Duration::ZERO, service);
        for redirects in [Redirects::Never, Redirects::ToServers] {
            let handle = served(&house, redirects).await;
            check(&handle, ByteRange::at(0, 1000)).await;
        }
        let back = request("//root://memory//d/g?tried=memory&triedrc=ioerr");
        let able = Redirects::ToUrls;
        let opened = house.engine.open_or_redirect(&back, &caller(), able).await;
        assert!(matches!(opened, Ok(Opening::File(_))), "it has been there");
        drop(opened);
        house.engine.shutdown().await;
    });
}
