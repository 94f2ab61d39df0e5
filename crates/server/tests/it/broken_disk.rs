//! What clients get when the disk does not give back what it holds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::site::{Peer, Site, element, run};
use forebay_proto::FileHandle;
use forebay_server::Options;
use forebay_testkit::bytes_at;
use forebay_types::Outcome;
use std::sync::atomic::Ordering::SeqCst;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 4 * MIB;
const LEN: u32 = 1 << 20;

/// A file that the cache holds, on a disk that gives nothing any more.
async fn broken_site() -> (Site, Peer, FileHandle) {
    let site = Site::of_origin(SIZE, Options::default()).await;
    let mut peer = site.login().await;
    let handle = peer.open("/store/f").await;
    while site.engine.metrics().client_bytes(Outcome::Hit) < SIZE {
        let before = site.engine.metrics().client_bytes(Outcome::Hit);
        peer.read(handle, 0, u32::try_from(SIZE).unwrap()).await.unwrap();
        if site.engine.metrics().client_bytes(Outcome::Hit) - before == SIZE {
            break;
        }
    }
    site.faults.as_ref().unwrap().broken.store(true, SeqCst);
    (site, peer, handle)
}

/// Bytes given to clients, under whatever outcome.
fn accounted(site: &Site) -> u64 {
    Outcome::ALL.iter().map(|outcome| site.engine.metrics().client_bytes(*outcome)).sum()
}

#[test]
fn reads_are_answered_from_the_origin() {
    run(async {
        let (site, mut peer, handle) = broken_site().await;
        let (accounted_before, asked_before) = (accounted(&site), site.origin.asked().len());
        assert!(peer.read(handle, 5, LEN).await.unwrap() == bytes_at(5, 1 << 20));
        assert!(peer.read(handle, 5, 10).await.unwrap() == bytes_at(5, 10));
        assert!(site.origin.asked().len() > asked_before);
        assert_eq!(accounted(&site) - accounted_before, u64::from(LEN) + 10, "each byte counts once");
    });
}

#[test]
fn page_reads_are_answered_from_the_origin() {
    run(async {
        let (_site, mut peer, handle) = broken_site().await;
        assert!(peer.pgread(handle, 4096, LEN).await.unwrap() == bytes_at(4096, 1 << 20));
        assert!(peer.pgread(handle, 100, 10).await.unwrap() == bytes_at(100, 10));
    });
}

#[test]
fn vectors_are_answered_from_the_origin() {
    run(async {
        let (_site, mut peer, handle) = broken_site().await;
        let elements = [element(handle, 0, 1000), element(handle, MIB, 70_000), element(handle, 3 * MIB, 1)];
        let parts = peer.readv(&elements).await.unwrap();
        assert_eq!(parts.len(), elements.len());
        for (element, part) in parts {
            assert!(part == bytes_at(element.offset, usize::try_from(element.len).unwrap()), "at {}", element.offset);
        }
    });
}
