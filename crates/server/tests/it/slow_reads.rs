//! Reads whose bytes are late: answered in any order, as they arrive, put off, or failed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::site::{Peer, Site, element, impatient, pgread, read, run};
use forebay_origin::OriginError;
use forebay_proto::{
    ErrorCode, FileHandle, Request, Status, StreamId,
    response::{Attention, ErrorBody},
};
use forebay_server::Options;
use forebay_testkit::{MemoryOrigin, bytes_at};
use std::time::Duration;

const MIB: u64 = 1 << 20;

async fn origin_site(size: u64, options: Options) -> (Site, Peer, FileHandle) {
    let site = Site::of_origin(size, options).await;
    let mut peer = site.login().await;
    let handle = peer.open("/store/f").await;
    (site, peer, handle)
}

#[test]
fn a_hit_overtakes_a_miss_on_the_same_connection() {
    run(async {
        let (site, mut peer, handle) = origin_site(MIB, Options::default()).await;
        peer.read(handle, 0, 65_536).await.unwrap();
        while peer.call(read(handle, 0, 10)).await.is_err() {}
        site.origin.let_through(0);
        peer.send(500, read(handle, 500_000, 10)).await;
        peer.send(501, pgread(handle, 600_000, 10)).await;
        peer.send(502, read(handle, 0, 10)).await;
        assert_eq!(peer.frame().await.stream_id, StreamId::from(502));
        site.origin.let_through(u64::MAX);
        let mut late = [peer.frame().await.stream_id, peer.frame().await.stream_id];
        late.sort_by_key(|id| u16::from(*id));
        assert_eq!(late, [StreamId::from(500), StreamId::from(501)]);
    });
}

#[test]
fn bytes_reach_the_client_as_they_arrive() {
    run(async {
        let (site, mut peer, handle) = origin_site(MIB, Options::default()).await;
        site.origin.let_through(30_000);
        peer.send(9, read(handle, 0, 60_000)).await;
        let mut received = Vec::new();
        while received.len() < 30_000 {
            let frame = peer.frame().await;
            assert_eq!(frame.status, Status::OKSOFAR);
            received.extend(frame.body);
        }
        site.origin.let_through(u64::MAX);
        received.extend(peer.answer(9).await.unwrap());
        assert!(received == bytes_at(0, 60_000));
    });
}

#[test]
fn a_closed_file_is_not_found_but_reads_under_way_end_well() {
    run(async {
        let (site, mut peer, handle) = origin_site(MIB, Options::default()).await;
        site.origin.let_through(0);
        peer.send(9, read(handle, 0, 100_000)).await;
        peer.close(handle).await.unwrap();
        assert_eq!(peer.error(read(handle, 0, 1)).await, ErrorCode::FILE_NOT_OPEN);
        assert_eq!(peer.close(handle).await.unwrap_err().0, ErrorCode::FILE_NOT_OPEN);
        let again = peer.open("/store/f").await;
        assert_ne!(again, handle);
        site.origin.let_through(u64::MAX);
        assert!(peer.answer(9).await.unwrap() == bytes_at(0, 100_000));
    });
}

#[test]
fn a_slow_read_is_put_off_and_then_answered_in_one_message() {
    run(async {
        let (site, mut peer, handle) = origin_site(MIB, impatient()).await;
        site.origin.let_through(0);
        peer.send(9, read(handle, 10, 200_000)).await;
        let promise = peer.frame().await;
        assert_eq!((promise.stream_id, promise.status), (StreamId::from(9), Status::WAITRESP));
        assert_eq!(promise.body, 1800_u32.to_be_bytes());
        site.origin.let_through(u64::MAX);
        let message = peer.frame().await;
        assert_eq!((message.stream_id, message.status), (StreamId::ZERO, Status::ATTN));
        let Attention::Deferred { header, body } = Attention::parse(&message.body).unwrap() else { panic!() };
        assert_eq!((header.stream_id, header.status), (StreamId::from(9), Status::OK));
        assert!(body == bytes_at(10, 200_000));
        peer.call(Request::Ping).await.unwrap();
    });
}

#[test]
fn a_slow_vector_is_put_off_and_then_answered_in_one_message() {
    run(async {
        let (site, mut peer, handle) = origin_site(4 * MIB, impatient()).await;
        peer.read(handle, 0, 10).await.unwrap();
        site.origin.let_through(0);
        let vector: Vec<_> = (0..30).map(|i| element(handle, i * 100_000, 50_000)).collect();
        peer.send_readv(9, 0, &vector).await;
        assert_eq!(peer.frame().await.status, Status::WAITRESP);
        site.origin.let_through(u64::MAX);
        let message = peer.frame().await;
        let Attention::Deferred { header, body } = Attention::parse(&message.body).unwrap() else { panic!() };
        assert_eq!(header.status, Status::OK);
        let elements: Vec<_> = forebay_proto::response::VectorData::new(body).map(Result::unwrap).collect();
        assert_eq!(elements.len(), vector.len());
        assert!(elements.iter().all(|(element, data)| *data == bytes_at(element.offset, 50_000)));
    });
}

#[test]
fn slow_pages_are_put_off_and_then_come_in_their_own_frames() {
    run(async {
        let (site, mut peer, handle) = origin_site(MIB, impatient()).await;
        site.origin.let_through(0);
        peer.send(9, pgread(handle, 10, 600_000)).await;
        assert_eq!(peer.frame().await.status, Status::WAITRESP);
        site.origin.let_through(u64::MAX);
        assert!(peer.pages(9, 10).await.unwrap() == bytes_at(10, 600_000));
    });
}

#[test]
fn requests_that_wait_for_each_others_room_are_put_off_too() {
    run(async {
        const LEN: u64 = 4 * MIB;
        let (site, mut peer, handle) = origin_site(6 * LEN, impatient()).await;
        site.origin.let_through(0);
        for id in 0..6_u16 {
            peer.send(id, pgread(handle, u64::from(id) * LEN, u32::try_from(LEN).unwrap())).await;
        }
        for _ in 0..6 {
            assert_eq!(peer.frame().await.status, Status::WAITRESP);
        }
    });
}

#[test]
fn a_vector_that_is_put_off_while_it_waits_for_room_comes_in_one_message() {
    run(async {
        const LEN: u32 = 2 << 20;
        let (site, mut peer, handle) = origin_site(20 * MIB, impatient()).await;
        site.origin.let_through(0);
        for id in 0..4_u16 {
            peer.send(id, pgread(handle, u64::from(id) * 4 * MIB, 2 * LEN)).await;
        }
        // The empty element is there at once, the other one long enough for a frame of its own.
        peer.send_readv(9, 0, &[element(handle, 7, 0), element(handle, 17 * MIB, LEN / 2)]).await;
        for _ in 0..5 {
            assert_eq!(peer.frame().await.status, Status::WAITRESP);
        }
        site.origin.let_through(u64::MAX);
        loop {
            let message = peer.frame().await;
            if message.status == Status::ATTN {
                let Attention::Deferred { header, body } = Attention::parse(&message.body).unwrap() else { panic!() };
                assert_eq!((header.stream_id, header.status), (StreamId::from(9), Status::OK));
                assert_eq!(body.len(), 2 * 16 + LEN as usize / 2);
                break;
            }
        }
    });
}

#[test]
fn an_answer_that_stops_half_way_is_put_off_once_and_goes_on_in_frames() {
    run(async {
        let options = Options { wait_response_after: Duration::from_millis(300), ..Options::default() };
        let (site, mut peer, mut handle) = origin_site(4 * MIB, options).await;
        // Again if a busy machine has put it off before its first part came.
        let mut received = loop {
            site.origin.let_through(600_000);
            peer.send(9, read(handle, 0, 800_000)).await;
            let received = until_put_off(&mut peer).await;
            if !received.is_empty() {
                break received;
            }
            site.origin.let_through(u64::MAX);
            peer = site.login().await;
            handle = peer.open(&format!("/store/{}", site.origin.opens())).await;
        };
        site.origin.let_through(u64::MAX);
        while received.len() < 800_000 {
            let frame = peer.frame().await;
            assert_ne!(frame.status, Status::WAITRESP);
            received.extend(frame.body);
        }
        assert!(received == bytes_at(0, 800_000));
    });
}

/// The bytes of answer 9 that come before it is put off.
async fn until_put_off(peer: &mut Peer) -> Vec<u8> {
    let mut received = Vec::new();
    loop {
        let frame = peer.frame().await;
        assert_eq!(frame.stream_id, StreamId::from(9));
        if frame.status == Status::WAITRESP {
            return received;
        }
        assert_eq!(frame.status, Status::OKSOFAR);
        received.extend(frame.body);
    }
}

#[test]
fn a_read_too_long_for_one_message_is_put_off_and_then_answered_in_frames() {
    run(async {
        let size = 20 * MIB;
        let (site, mut peer, handle) = origin_site(size, impatient()).await;
        site.origin.let_through(0);
        peer.send(9, read(handle, 0, u32::try_from(size).unwrap())).await;
        assert_eq!(peer.frame().await.status, Status::WAITRESP);
        site.origin.let_through(u64::MAX);
        let first = peer.frame().await;
        assert_eq!((first.stream_id, first.status), (StreamId::from(9), Status::OKSOFAR));
        let received = [first.body, peer.answer(9).await.unwrap()].concat();
        assert!(received == bytes_at(0, received.len()));
        assert_eq!(received.len() as u64, size);
    });
}

#[test]
fn an_origin_that_fails_half_way_is_an_error_and_never_a_short_answer() {
    run(async {
        let (site, mut peer, handle) = origin_site(MIB, Options::default()).await;
        let error = OriginError::Lost {
            endpoint: MemoryOrigin::endpoint(),
            doing: "reading",
            reason: "connection reset".to_owned(),
        };
        site.origin.script(|script| script.read_error = Some((100_000, error)));
        assert_eq!(peer.error(read(handle, 0, 200_000)).await, ErrorCode::IO_ERROR);
        assert_eq!(peer.pgread(handle, 0, 200_000).await.unwrap_err().0, ErrorCode::IO_ERROR);
        assert_eq!(
            peer.readv(&[element(handle, 0, 10), element(handle, 150_000, 10)]).await.unwrap_err().0,
            ErrorCode::IO_ERROR
        );
        assert!(peer.read(handle, 0, 50_000).await.unwrap() == bytes_at(0, 50_000));
    });
}

#[test]
fn a_slow_error_is_an_error_too() {
    run(async {
        let (site, mut peer, handle) = origin_site(MIB, impatient()).await;
        let error = OriginError::Corrupt { endpoint: MemoryOrigin::endpoint(), offset: 0 };
        site.origin.script(|script| script.read_error = Some((0, error)));
        for request in [read(handle, 0, 10), pgread(handle, 200_000, 10)] {
            site.origin.let_through(0);
            peer.send(9, request).await;
            assert_eq!(peer.frame().await.status, Status::WAITRESP);
            site.origin.let_through(1);
            let message = peer.frame().await;
            let Attention::Deferred { header, body } = Attention::parse(&message.body).unwrap() else { panic!() };
            assert_eq!((header.stream_id, header.status), (StreamId::from(9), Status::ERROR));
            assert_eq!(ErrorBody::parse(body).unwrap().code, ErrorCode::CHECKSUM_ERROR);
        }
    });
}

#[test]
fn many_slow_requests_of_one_connection_are_all_answered() {
    run(async {
        let options = Options { requests_outstanding_max: 3, ..Options::default() };
        let (site, mut peer, handle) = origin_site(4 * MIB, options).await;
        site.origin.let_through(0);
        let ids: Vec<u16> = (1000..1040).collect();
        for id in &ids {
            peer.send(*id, read(handle, u64::from(id - 1000) * 100_000, 1000)).await;
        }
        while site.origin.asked().len() < 3 {
            tokio::task::yield_now().await;
        }
        site.origin.let_through(u64::MAX);
        for (id, answer) in peer.answers(&ids).await {
            assert!(answer.unwrap() == bytes_at(u64::from(id - 1000) * 100_000, 1000));
        }
    });
}

#[test]
fn a_client_that_leaves_does_not_disturb_others() {
    run(async {
        let (site, mut leaving, handle) = origin_site(MIB, Options::default()).await;
        let mut staying = site.login().await;
        let other = staying.open("/store/f").await;
        site.origin.let_through(0);
        leaving.send(9, read(handle, 0, 100_000)).await;
        staying.send(9, read(other, 0, 100_000)).await;
        while site.origin.asked().is_empty() {
            tokio::task::yield_now().await;
        }
        drop(leaving);
        site.origin.let_through(u64::MAX);
        assert!(staying.answer(9).await.unwrap() == bytes_at(0, 100_000));
    });
}
