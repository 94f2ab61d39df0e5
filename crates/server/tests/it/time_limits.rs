//! Times after which the server closes a connection.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::session::bind;
use crate::site::{Peer, Site, open, read, run};
use forebay_proto::{FileHandle, OpenOptions, Request, StreamId, request::Expect};
use forebay_server::Options;
use std::time::Duration;
use tokio::{io::AsyncWriteExt as _, time::Instant};

const MIB: u64 = 1 << 20;

#[test]
fn whoever_does_not_log_in_in_time_is_closed() {
    run(async {
        let options = Options { login_time_max: Duration::from_millis(20), ..Options::default() };
        let site = Site::of_files_with(options).await;
        let mut silent = Peer::connect(site.address).await;
        // Again if a busy machine has not answered in that time.
        let mut half = loop {
            if let Some(half) = Peer::try_greet(site.address, Expect::LOGIN).await {
                break half;
            }
        };
        assert!(silent.is_closed().await);
        assert!(half.is_closed().await);
    });
}

#[test]
fn a_session_that_is_idle_for_too_long_is_closed_unless_a_file_is_open() {
    run(async {
        let options = Options { idle_time_max: Duration::from_millis(50), ..Options::default() };
        let site = Site::of_files_with(options).await;
        site.put("f", b"x");
        // Again if a busy machine was idle for so long in between.
        let (mut reader, handle) = loop {
            let mut reader = site.login().await;
            if let Some(handle) = reader.try_open("/f").await {
                break (reader, handle);
            }
        };
        let mut idle = site.login().await;
        assert!(idle.is_closed().await);
        assert_eq!(reader.read(handle, 0, 1).await.unwrap(), b"x");
    });
}

#[test]
fn requests_keep_a_session_from_being_idle() {
    run(async {
        let idle_time_max = Duration::from_secs(1);
        let site = Site::of_files_with(Options { idle_time_max, ..Options::default() }).await;
        let mut busy = loop {
            if let Some(busy) = kept_busy(&site, idle_time_max).await {
                break busy;
            }
        };
        assert!(busy.is_closed().await);
    });
}

/// A session that has sent requests for longer than it may be idle; `None` when a busy machine made it idle for so long.
async fn kept_busy(site: &Site, idle_time_max: Duration) -> Option<Peer> {
    let begun = Instant::now();
    let mut last_sent = begun;
    let mut busy = site.login().await;
    while begun.elapsed() < idle_time_max * 3 / 2 {
        let sent = Instant::now();
        let Some(answer) = busy.try_call(Request::Ping).await else {
            assert!(last_sent.elapsed() >= idle_time_max, "closed though it was not idle");
            return None;
        };
        answer.unwrap();
        last_sent = sent;
    }
    Some(busy)
}

#[test]
fn a_request_that_is_not_completed_in_time_ends_its_connection() {
    run(async {
        let options = Options { request_time_max: Duration::from_millis(100), ..Options::default() };
        let site = Site::of_files_with(options).await;
        site.put("f", b"x");
        let mut stat = Vec::new();
        open("/f", OpenOptions::READ).encode(StreamId::from(5), &mut stat);
        let mut write = Vec::new();
        let handle = FileHandle::default();
        Request::Read(forebay_proto::request::Read {
            handle,
            offset: 0,
            len: 0,
            path_id: 0,
            prereads: Default::default(),
        })
        .encode(StreamId::from(6), &mut write);
        // A write, whose payload is dropped as it comes.
        write[2..4].copy_from_slice(&3019_u16.to_be_bytes());
        write[20..24].copy_from_slice(&1000_u32.to_be_bytes());
        write.push(0);
        for begun in [&stat[..1], &stat[..24], &stat[..stat.len() - 1], &write[..24], &write[..]] {
            let mut reader = site.login().await;
            // An open file does not save it.
            reader.open("/f").await;
            reader.stream.write_all(begun).await.unwrap();
            assert!(reader.is_closed().await, "{} bytes", begun.len());
        }
        let main = site.login().await;
        let (mut stream, _) = bind(&site, main.session_id).await;
        stream.stream.write_all(&stat[..1]).await.unwrap();
        assert!(stream.is_closed().await);
    });
}

#[test]
fn a_client_that_sends_byte_by_byte_does_not_hold_its_connection_longer() {
    run(async {
        let options = Options { request_time_max: Duration::from_millis(200), ..Options::default() };
        let site = Site::of_files_with(options).await;
        let mut peer = site.login().await;
        let mut stat = Vec::new();
        // At this pace it takes ten seconds.
        open(&format!("/{}", "f".repeat(500)), OpenOptions::READ).encode(StreamId::from(5), &mut stat);
        let mut pieces = tokio::time::interval(Duration::from_millis(20));
        let mut is_closed = false;
        for byte in stat {
            pieces.tick().await;
            is_closed = peer.stream.write_all(&[byte]).await.is_err();
            if is_closed {
                break;
            }
        }
        assert!(is_closed, "the whole request was accepted");
    });
}

#[test]
fn a_request_in_two_pieces_is_answered_though_a_slow_one_is_in_progress() {
    run(async {
        let options = Options { request_time_max: REQUEST_TIME_MAX, ..Options::default() };
        let site = Site::of_origin(MIB, options).await;
        site.origin.let_through(0);
        let mut reader = loop {
            if let Some(reader) = sends_in_two_pieces(&site).await {
                break reader;
            }
        };
        // sleep: longer than the limit, which must not end the connection.
        tokio::time::sleep(REQUEST_TIME_MAX + Duration::from_millis(200)).await;
        site.origin.let_through(u64::MAX);
        assert!(reader.answer(9).await.is_ok());
    });
}

const REQUEST_TIME_MAX: Duration = Duration::from_secs(1);

/// A client that waits for answer 9 and had a request answered whose pieces came apart; `None` when a busy machine kept them apart
/// for too long.
async fn sends_in_two_pieces(site: &Site) -> Option<Peer> {
    let mut reader = site.login().await;
    let handle = reader.open("/store/f").await;
    reader.send(9, read(handle, 0, 100)).await;
    // sleep: longer than the limit, which must not end the connection.
    tokio::time::sleep(REQUEST_TIME_MAX + Duration::from_millis(200)).await;
    let mut bytes = Vec::new();
    Request::Ping.encode(StreamId::from(5), &mut bytes);
    let begun = Instant::now();
    reader.stream.write_all(&bytes[..10]).await.unwrap();
    // sleep: pieces that arrive apart.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let sent = reader.stream.write_all(&bytes[10..]).await;
    let answer = if sent.is_ok() { reader.try_answer(5).await } else { None };
    let Some(answer) = answer else {
        assert!(begun.elapsed() >= REQUEST_TIME_MAX, "closed too early");
        return None;
    };
    assert_eq!(answer, Ok(Vec::new()));
    Some(reader)
}
