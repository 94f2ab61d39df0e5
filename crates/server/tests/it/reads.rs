//! Reads, vector reads and page reads: from disk, from the origin, at the end of the file.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::site::{Peer, Site, element, pgread, read, run};
use forebay_proto::page::{StatusFrame, decode_pages};
use forebay_proto::{ErrorCode, FileHandle, Request, Status, StreamId, request::Prereads};
use forebay_server::Options;
use forebay_testkit::bytes_at;
use tokio::io::AsyncWriteExt;

const MIB: u64 = 1 << 20;
const UNKNOWN: FileHandle = FileHandle([9; 4]);

/// Offsets and lengths on both sides of pages, buffers and limits.
const RANGES: [(u64, u32); 12] = [
    (0, 1),
    (0, 4096),
    (4095, 2),
    (100, 10_000),
    (0, (16 << 10) - 1),
    (0, 16 << 10),
    (1, (16 << 10) + 1),
    (4096, 128 << 10),
    (5000, 300_000),
    (0, 2 << 20),
    (3, (2 << 20) + 4096),
    (0, 5 << 20),
];

fn expected(offset: u64, len: u32, size: u64) -> Vec<u8> {
    let end = (offset + u64::from(len)).min(size);
    bytes_at(offset, usize::try_from(end.saturating_sub(offset)).unwrap())
}

async fn file_site(size: u64) -> (Site, Peer, FileHandle) {
    let site = Site::of_files().await;
    site.put("f", &bytes_at(0, usize::try_from(size).unwrap()));
    let mut peer = site.login().await;
    let handle = peer.open("/f").await;
    (site, peer, handle)
}

async fn origin_site(size: u64, options: Options) -> (Site, Peer, FileHandle) {
    let site = Site::of_origin(size, options).await;
    let mut peer = site.login().await;
    let handle = peer.open("/store/f").await;
    (site, peer, handle)
}

/// Reads every range by every kind of read.
async fn read_all_ways(peer: &mut Peer, handle: FileHandle, size: u64) {
    for (offset, len) in RANGES {
        let bytes = expected(offset, len, size);
        assert!(peer.read(handle, offset, len).await.unwrap() == bytes, "read of {len} at {offset}");
        assert!(peer.pgread(handle, offset, len).await.unwrap() == bytes, "pgread of {len} at {offset}");
        if len < 2_097_136 && offset + u64::from(len) <= size {
            let vector = [element(handle, offset, len), element(handle, 7, 0), element(handle, 1, 50)];
            let elements = peer.readv(&vector).await.unwrap();
            let (asked, data): (Vec<_>, Vec<_>) = elements.into_iter().unzip();
            assert_eq!(asked, vector);
            assert!(data == [bytes, Vec::new(), expected(1, 50, size)], "readv of {len} at {offset}");
        }
    }
}

#[test]
fn every_byte_of_a_file_on_disk_is_right_in_every_kind_of_read() {
    run(async {
        let size = 3 * MIB + 5;
        let (_site, mut peer, handle) = file_site(size).await;
        read_all_ways(&mut peer, handle, size).await;
    });
}

#[test]
fn every_byte_of_an_origins_file_is_right_while_the_cache_fills_and_after() {
    run(async {
        let size = 3 * MIB + 5;
        let (_site, mut peer, handle) = origin_site(size, Options::default()).await;
        read_all_ways(&mut peer, handle, size).await;
        read_all_ways(&mut peer, handle, size).await;
    });
}

#[test]
fn nothing_is_short_but_at_the_end_of_the_file() {
    run(async {
        for size in [0, 1, 65_535, 65_536, 65_537] {
            let (_site, mut peer, handle) = origin_site(size, Options::default()).await;
            for offset in [0, 65_530, 65_536, 70_000] {
                let bytes = expected(offset, 100_000, size);
                assert_eq!(peer.read(handle, offset, 100_000).await.unwrap(), bytes, "{size} {offset}");
                assert_eq!(peer.pgread(handle, offset, 100_000).await.unwrap(), bytes, "{size} {offset}");
            }
        }
    });
}

#[test]
fn behind_the_end_a_read_is_empty_and_a_vector_is_an_error() {
    run(async {
        let (_site, mut peer, handle) = file_site(1000).await;
        for (offset, len) in [(1000, 10), (5000, 10), (0, 0), (u64::MAX >> 1, 10)] {
            assert_eq!(peer.read(handle, offset, len).await, Ok(Vec::new()));
        }
        for offset in [1000, 5000] {
            peer.send(9, pgread(handle, offset, 10)).await;
            let frame = peer.frame().await;
            let status = StatusFrame::decode(StreamId::from(9), &frame.body).unwrap();
            assert_eq!((status.kind, status.offset), (forebay_proto::page::FrameKind::Final, offset));
            assert_eq!((frame.body.len(), frame.data.len()), (24, 0));
        }
        let (code, text) = peer.readv(&[element(handle, 0, 10), element(handle, 995, 6)]).await.unwrap_err();
        assert_eq!((code, text.as_str()), (ErrorCode::FS_ERROR, "readv past EOF"));
        assert_eq!(peer.readv(&[element(handle, 995, 5)]).await.unwrap()[0].1.len(), 5);
    });
}

#[test]
fn reads_of_unknown_handles_and_of_nothing_are_refused() {
    run(async {
        let (_site, mut peer, handle) = file_site(1000).await;
        assert_eq!(peer.error(read(UNKNOWN, 0, 1)).await, ErrorCode::FILE_NOT_OPEN);
        assert_eq!(peer.error(pgread(UNKNOWN, 0, 1)).await, ErrorCode::FILE_NOT_OPEN);
        assert_eq!(peer.error(pgread(handle, 0, 0)).await, ErrorCode::ARG_INVALID);
        let vector = [element(handle, 0, 1), element(UNKNOWN, 0, 1)];
        assert_eq!(peer.readv(&vector).await.unwrap_err().0, ErrorCode::FILE_NOT_OPEN);
        for (len, code) in [(2_097_136, ErrorCode::FS_ERROR), (2_097_137, ErrorCode::NO_MEMORY)] {
            assert_eq!(peer.readv(&[element(handle, 0, len)]).await.unwrap_err().0, code);
        }
        let many = vec![element(handle, 0, 1); 1025];
        assert_eq!(peer.readv(&many).await.unwrap_err().0, ErrorCode::ARG_TOO_LONG);
        assert_eq!(peer.readv(&many[1..]).await.unwrap().len(), 1024);
        peer.call(Request::Ping).await.unwrap();
    });
}

#[test]
fn hints_for_later_reads_must_name_open_files() {
    run(async {
        let (_site, mut peer, handle) = file_site(1000).await;
        for (hinted, answer) in [(handle, Status::OK), (UNKNOWN, Status::ERROR)] {
            let mut bytes = Vec::new();
            Request::Read(forebay_proto::request::Read {
                handle,
                offset: 0,
                len: 4,
                path_id: 0,
                prereads: Prereads::default(),
            })
            .encode(StreamId::from(3), &mut bytes);
            bytes[20..24].copy_from_slice(&24_u32.to_be_bytes());
            bytes.extend_from_slice(&hinted.0);
            bytes.extend_from_slice(&[0; 12]);
            peer.stream.write_all(&bytes).await.unwrap();
            assert_eq!(peer.frame().await.status, answer);
        }
    });
}

#[test]
fn pipelined_requests_are_all_answered() {
    run(async {
        let (_site, mut peer, handle) = file_site(100_000).await;
        let mut bytes = Vec::new();
        let ids: Vec<u16> = (1000..1500).collect();
        for id in &ids {
            read(handle, u64::from(*id), 50).encode(StreamId::from(*id), &mut bytes);
        }
        peer.stream.write_all(&bytes).await.unwrap();
        for (id, answer) in peer.answers(&ids).await {
            assert_eq!(answer.unwrap(), bytes_at(u64::from(id), 50));
        }
    });
}

#[test]
fn one_request_may_name_several_files() {
    run(async {
        let (_site, mut peer, first) = origin_site(MIB, Options::default()).await;
        let second = peer.open("/store/g").await;
        peer.read(first, 0, 100_000).await.unwrap();
        let vector: Vec<_> =
            (0..40).map(|i| element(if i % 2 == 0 { first } else { second }, i * 20_000, 15_000)).collect();
        for _ in 0..2 {
            for ((element, data), asked) in peer.readv(&vector).await.unwrap().into_iter().zip(&vector) {
                assert_eq!(element, *asked);
                assert!(data == bytes_at(element.offset, 15_000));
            }
        }
    });
}

#[test]
fn bytes_that_left_the_page_cache_are_read_from_the_disk_by_many_requests_at_once() {
    run(async {
        let size = 40 * MIB;
        let (site, mut peer, handle) = file_site(size).await;
        let file = std::fs::File::open(site.path().join("f")).unwrap();
        file.sync_all().unwrap();
        let evict = || rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        evict();
        let offsets: [u64; 5] = std::array::from_fn(|i| i as u64 * 8 * MIB);
        for (id, offset) in (100..).zip(offsets) {
            peer.send(id, read(handle, offset, 8 << 20)).await;
        }
        for (id, answer) in peer.answers(&[100, 101, 102, 103, 104]).await {
            assert!(answer.unwrap() == bytes_at(offsets[usize::from(id - 100)], 8 << 20));
        }
        evict();
        for (id, offset) in (200..).zip(offsets) {
            let vector: Vec<_> = (0..8).map(|i| element(handle, offset + i * MIB, 1 << 20)).collect();
            peer.send_readv(id, 0, &vector).await;
        }
        for (_, answer) in peer.answers(&[200, 201, 202, 203, 204]).await {
            let body = answer.unwrap();
            let mut elements = forebay_proto::response::VectorData::new(&body).map(Result::unwrap);
            assert!(elements.all(|(element, data)| *data == bytes_at(element.offset, 1 << 20)));
        }
    });
}

#[test]
fn many_page_reads_of_one_connection_are_answered_while_the_disk_is_waited_for() {
    run(async {
        let (site, mut peer, handle) = file_site(40 * MIB).await;
        let file = std::fs::File::open(site.path().join("f")).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let mut received = [0_u64; 5];
        for i in 0..5 {
            peer.send(i, pgread(handle, u64::from(i) * 8 * MIB, 8 << 20)).await;
        }
        while received.iter().sum::<u64>() < 40 * MIB {
            let frame = peer.frame().await;
            let status = StatusFrame::decode(frame.stream_id, &frame.body).unwrap();
            let id = u16::from(frame.stream_id);
            let expected = u64::from(id) * 8 * MIB + received[usize::from(id)];
            assert_eq!(status.offset, expected, "the pages of one answer come in order");
            for page in decode_pages(status.offset, &frame.data).unwrap() {
                assert!(page.is_intact && *page.data == bytes_at(page.offset, page.data.len()));
                received[usize::from(id)] += page.data.len() as u64;
            }
        }
    });
}
