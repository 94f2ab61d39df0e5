//! What a read-only server does with writes and changes of the name space.

use crate::site::{Peer, Site, open, run};
use forebay_proto::{
    ErrorCode, FileHandle, OpenOptions, Params, Request, RequestCode, Status, StreamId,
    request::{Change, Target},
    response::{Redirect, RedirectTarget},
};
use forebay_server::Options;
use forebay_testkit::MemoryOrigin;
use tokio::io::AsyncWriteExt;

fn change(code: RequestCode, payload: &'static [u8]) -> Request<'static> {
    let target = if payload.is_empty() { Target::Handle(FileHandle::default()) } else { Target::Path(payload) };
    Request::Change(Change { code, target, params: Params::default(), payload })
}

async fn site() -> (Site, Peer) {
    let site = Site::of_files().await;
    site.put("data/a b.bin", &[7; 5000]);
    let peer = site.login().await;
    (site, peer)
}

#[test]
fn writes_are_refused_and_their_data_is_dropped() {
    run(async {
        let (_site, mut peer) = site().await;
        let handle = peer.open("/data/a b.bin").await;
        assert_eq!(handle, FileHandle::default());
        for options in [0x0462, 0x1462, 0x8000, 0x0200, 0x0008] {
            assert_eq!(peer.error(open("/new", OpenOptions(options))).await, ErrorCode::FS_READ_ONLY);
        }
        for (code, payload) in [
            (RequestCode::MKDIR, b"/data/d".as_slice()),
            (RequestCode::RM, b"/data/a b.bin"),
            (RequestCode::RMDIR, b"/empty"),
            (RequestCode::MV, b"/empty /full"),
            (RequestCode::CHMOD, b"/empty"),
            (RequestCode::TRUNCATE, b"/data/a b.bin"),
            (RequestCode::TRUNCATE, b""),
        ] {
            assert_eq!(peer.error(change(code, payload)).await, ErrorCode::FS_READ_ONLY, "{code}");
        }
        for code in [RequestCode::WRITE, RequestCode::PGWRITE] {
            let mut bytes = Vec::new();
            Request::Ping.encode(StreamId::from(4), &mut bytes);
            bytes[2..4].copy_from_slice(&code.0.to_be_bytes());
            bytes[20..24].copy_from_slice(&300_000_u32.to_be_bytes());
            bytes.extend_from_slice(&vec![0xff; 300_000]);
            peer.stream.write_all(&bytes).await.unwrap();
            assert_eq!(peer.answer(4).await.unwrap_err().0, ErrorCode::FS_READ_ONLY);
        }
        peer.call(Request::Ping).await.unwrap();
    });
}

#[test]
fn the_data_of_a_vector_write_lies_outside_its_length_and_is_dropped_too() {
    run(async {
        let (_site, mut peer) = site().await;
        peer.open("/data/a b.bin").await;
        let mut bytes = Vec::new();
        Request::Ping.encode(StreamId::from(4), &mut bytes);
        bytes[2..4].copy_from_slice(&RequestCode::WRITEV.0.to_be_bytes());
        bytes[20..24].copy_from_slice(&16_u32.to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&[0xff; 4096]);
        peer.stream.write_all(&bytes).await.unwrap();
        assert_eq!(peer.answer(4).await.unwrap_err().0, ErrorCode::FS_READ_ONLY);
        peer.call(Request::Ping).await.unwrap();
    });
}

#[test]
fn writers_are_sent_to_the_origin_when_the_export_says_so() {
    run(async {
        let site = Site::of_origin(10, Options::default()).await;
        let mut peer = site.login().await;
        for request in [open("/store/new", OpenOptions(0x0462)), change(RequestCode::RM, b"/store/f")] {
            peer.send(3, request).await;
            let frame = peer.frame().await;
            assert_eq!(frame.status, Status::REDIRECT);
            let RedirectTarget::Host { endpoint, .. } = Redirect::parse(&frame.body).unwrap().target else { panic!() };
            assert_eq!(endpoint, MemoryOrigin::endpoint());
        }
    });
}
