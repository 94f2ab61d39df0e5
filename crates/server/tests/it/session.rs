//! Set-up and end of sessions, parallel streams, limits, and shutdown.

use crate::site;
use crate::site::{HANDSHAKE, Peer, Site, impatient, open, pgread_by, protocol, read, read_by, run};
use forebay_front::Options as Limits;
use forebay_proto::{
    ErrorCode, FileHandle, OpenOptions, ProtocolRequestFlags, Request, ServerFlags, SessionId, Status, StreamId,
    request::{Auth, Bind, EndSession, Expect, Protocol, Query, Set},
    response::{HandshakeReply, ProtocolReply},
};
use forebay_server::Options;
use forebay_testkit::bytes_at;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MIB: u64 = 1 << 20;

fn end(session_id: SessionId) -> Request<'static> {
    Request::EndSession(EndSession { session_id })
}

pub(crate) async fn bind(site: &Site, session_id: SessionId) -> (Peer, Result<Vec<u8>, ErrorCode>) {
    let mut stream = Peer::greet(site.address, Expect::BIND).await;
    let reply = stream.call(Request::Bind(Bind { session_id })).await.map_err(|(code, _)| code);
    (stream, reply)
}

#[test]
fn handshake_and_protocol_may_come_in_one_piece_or_byte_by_byte() {
    run(async {
        let site = Site::of_files().await;
        let mut bytes = HANDSHAKE.to_vec();
        Request::Protocol(protocol(Expect::LOGIN)).encode(StreamId::ZERO, &mut bytes);
        assert_eq!(bytes.len(), 44);
        for piece_len in [44, 1] {
            let mut peer = Peer::connect(site.address).await;
            for piece in bytes.chunks(piece_len) {
                peer.stream.write_all(piece).await.unwrap();
            }
            let mut replies = [0; 32];
            peer.stream.read_exact(&mut replies).await.unwrap();
            assert_eq!(replies[..16], [0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 5, 0x11, 0, 0, 0, 1]);
            assert!(HandshakeReply::parse(&replies[8..16]).unwrap().is_server);
            assert_eq!(replies[16..24], [0, 0, 0, 0, 0, 0, 0, 8]);
        }
    });
}

#[test]
fn a_cache_calls_itself_one_and_a_file_server_does_not() {
    run(async {
        let cache = Site::of_origin(1, Options::default()).await;
        let files = Site::of_files().await;
        let pages = ServerFlags::IS_SERVER.with(ServerFlags::SUPPORTS_PAGES);
        // Persistence on close is that of the origin, to which this cache redirects writers.
        let proxy = ServerFlags::ATTR_PROXY.with(ServerFlags::ATTR_CACHE);
        for (site, flags) in [(&cache, pages.with(proxy).with(ServerFlags::SUPPORTS_POSC)), (&files, pages)] {
            let mut peer = site.login().await;
            let reply = peer.call(Request::Protocol(protocol(Expect::NONE))).await.unwrap();
            assert_eq!(ProtocolReply::parse(&reply).unwrap().flags, flags);
            let ancient = Protocol { client_version: 0, flags: ProtocolRequestFlags(0), expect: Expect::NONE };
            let reply = peer.call(Request::Protocol(ancient)).await.unwrap();
            assert_eq!(ProtocolReply::parse(&reply).unwrap().flags, ServerFlags(1));
        }
    });
}

#[test]
fn whoever_does_not_speak_the_protocol_is_closed() {
    run(async {
        let site = Site::of_files().await;
        let mut peer = Peer::connect(site.address).await;
        peer.stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        assert!(peer.is_closed().await);
        let mut peer = Peer::greet(site.address, Expect::LOGIN).await;
        assert_eq!(peer.error(Request::Ping).await, ErrorCode::INVALID_REQUEST);
        assert!(peer.is_closed().await);
    });
}

#[test]
fn connections_beyond_the_limit_are_closed_and_a_place_becomes_free_again() {
    run(async {
        let site = Site::of_files_limited(Limits { connections_max: 1, ..Limits::default() }).await;
        let first = site.login().await;
        assert!(Peer::connect(site.address).await.is_closed().await);
        drop(first);
        connected(&site).await;
    });
}

#[test]
fn one_address_has_only_its_share_of_the_connections() {
    run(async {
        let limits = Limits { connections_per_address_max: Some(2), ..Limits::default() };
        let site = Site::of_files_limited(limits).await;
        let (_first, second) = (site.login().await, site.login().await);
        assert!(Peer::connect(site.address).await.is_closed().await);
        drop(second);
        connected(&site).await;
    });
}

#[test]
fn connections_before_their_login_have_a_limit_of_their_own() {
    run(async {
        let limits = Limits { logins_per_address_max: Some(1), ..Limits::default() };
        let site = Site::of_files_limited(limits).await;
        let (_first, second) = (site.login().await, site.login().await);
        let silent = Peer::greet(site.address, Expect::LOGIN).await;
        assert!(Peer::connect(site.address).await.is_closed().await);
        drop(silent);
        let mut bound = connected(&site).await;
        bound.call(Request::Bind(Bind { session_id: second.session_id })).await.unwrap();
        let _third = site.login().await;
    });
}

/// A connection that has shaken hands, as soon as the server takes another one.
async fn connected(site: &Site) -> Peer {
    loop {
        let mut peer = Peer::connect(site.address).await;
        if peer.stream.write_all(&HANDSHAKE).await.is_ok() && peer.try_frame().await.is_some() {
            return peer;
        }
    }
}

#[test]
fn authentication_that_nobody_asked_for_is_refused_and_the_session_goes_on() {
    run(async {
        let site = Site::of_files().await;
        let mut peer = site.login().await;
        for credential_type in [*b"gsi\0", *b"unix"] {
            let auth = Auth { credential_type, credentials: b"unix\0u" };
            assert_eq!(peer.error(Request::Auth(auth)).await, ErrorCode::INVALID_REQUEST);
        }
        peer.call(Request::Ping).await.unwrap();
    });
}

#[test]
fn the_end_of_an_unknown_session_is_ok_and_that_of_a_foreign_one_is_refused() {
    run(async {
        let site = Site::of_files().await;
        let mut other = Peer::login(site.address, "other").await;
        let mut peer = site.login().await;
        peer.call(end(SessionId([9; 16]))).await.unwrap();
        assert_eq!(peer.error(end(other.session_id)).await, ErrorCode::NOT_AUTHORIZED);
        other.call(Request::Ping).await.unwrap();
    });
}

#[test]
fn a_client_that_reconnects_ends_its_old_session() {
    run(async {
        let site = Site::of_files().await;
        let mut old = site.login().await;
        let mut new = site.login().await;
        new.call(end(old.session_id)).await.unwrap();
        assert!(old.is_closed().await);
        new.call(end(old.session_id)).await.unwrap();
    });
}

#[test]
fn a_session_that_ends_itself_is_answered_and_closed() {
    run(async {
        let site = Site::of_files().await;
        let mut peer = site.login().await;
        peer.call(end(peer.session_id)).await.unwrap();
        assert!(peer.is_closed().await);
    });
}

#[test]
fn stream_ids_are_echoed_whatever_they_are() {
    run(async {
        let site = Site::of_files().await;
        let mut peer = site.login().await;
        for id in [0xffff, 0, 7, 7, 0x0100] {
            peer.send(id, Request::Ping).await;
            assert_eq!(peer.frame().await.stream_id, StreamId::from(id));
        }
    });
}

#[test]
fn payloads_that_nobody_expects_are_dropped() {
    run(async {
        let site = Site::of_files().await;
        let mut peer = site.login().await;
        let mut bytes = Vec::new();
        Request::Ping.encode(StreamId::from(5), &mut bytes);
        bytes[23] = 3;
        bytes.extend_from_slice(b"abc");
        peer.stream.write_all(&bytes).await.unwrap();
        assert_eq!(peer.answer(5).await, Ok(Vec::new()));
        peer.call(Request::Ping).await.unwrap();
    });
}

#[test]
fn unknown_requests_are_refused_and_the_session_goes_on() {
    run(async {
        let site = Site::of_files().await;
        let mut peer = site.login().await;
        let mut bytes = Vec::new();
        Request::Set(Set { modifier: 0, text: b"abc" }).encode(StreamId::from(5), &mut bytes);
        bytes[2..4].copy_from_slice(&3099_u16.to_be_bytes());
        peer.stream.write_all(&bytes).await.unwrap();
        assert_eq!(peer.answer(5).await.unwrap_err().0, ErrorCode::INVALID_REQUEST);
        peer.call(Request::Ping).await.unwrap();
    });
}

#[test]
fn a_parallel_stream_carries_the_answers_to_requests_with_its_path_id() {
    run(async {
        let site = Site::of_files().await;
        let content = bytes_at(0, 3 << 20);
        site.put("f", &content);
        let mut main = site.login().await;
        let handle = main.open("/f").await;
        let (mut first, reply) = bind(&site, main.session_id).await;
        assert_eq!(reply, Ok(vec![1]));
        let (mut second, reply) = bind(&site, main.session_id).await;
        assert_eq!(reply, Ok(vec![2]));
        main.send(77, read_by(2, handle, 5, 2 << 20)).await;
        assert!(second.answer(77).await.unwrap() == content[5..5 + (2 << 20)]);
        main.send(78, pgread_by(1, handle, 5, 1 << 20)).await;
        assert!(first.pages(78, 5).await.unwrap() == content[5..5 + (1 << 20)]);
        main.send_readv(79, 1, &[site::element(handle, 9, 100)]).await;
        assert_eq!(first.answer(79).await.unwrap()[16..], content[9..109]);
        main.send(80, read_by(1, handle, 3 << 20, 10)).await;
        assert_eq!(first.answer(80).await, Ok(Vec::new()));
        main.call(Request::Ping).await.unwrap();
    });
}

#[test]
fn a_path_id_without_a_stream_is_refused_on_the_main_connection() {
    run(async {
        let site = Site::of_files().await;
        site.put("f", b"abc");
        let mut main = site.login().await;
        let handle = main.open("/f").await;
        assert_eq!(main.error(read_by(3, handle, 0, 1)).await, ErrorCode::ARG_INVALID);
        assert_eq!(main.error(pgread_by(200, handle, 0, 1)).await, ErrorCode::ARG_INVALID);
        assert_eq!(main.read(handle, 0, 3).await.unwrap(), b"abc");
    });
}

#[test]
fn binding_needs_a_session_and_a_free_place() {
    run(async {
        let site = Site::of_files().await;
        let main = site.login().await;
        assert_eq!(bind(&site, SessionId([1; 16])).await.1, Err(ErrorCode::NOT_FOUND));
        let mut streams = Vec::new();
        for path_id in 1..=15 {
            let (stream, reply) = bind(&site, main.session_id).await;
            assert_eq!(reply, Ok(vec![path_id]));
            streams.push(stream);
        }
        assert_eq!(bind(&site, main.session_id).await.1, Err(ErrorCode::NO_MEMORY));
        let request = Request::Query(Query {
            kind: forebay_proto::QueryKind::CONFIG,
            handle: FileHandle::default(),
            argument: b"role",
        });
        assert_eq!(streams[0].error(request).await, ErrorCode::INVALID_REQUEST);
    });
}

#[test]
fn streams_and_files_end_with_the_main_connection_only() {
    run(async {
        let site = Site::of_files().await;
        site.put("f", b"abc");
        let mut main = site.login().await;
        let handle = main.open("/f").await;
        let (stream, _) = bind(&site, main.session_id).await;
        drop(stream);
        assert_eq!(main.read(handle, 0, 3).await.unwrap(), b"abc");
        let (mut stream, _) = bind(&site, main.session_id).await;
        drop(main);
        assert!(stream.is_closed().await);
    });
}

#[test]
fn a_session_holds_only_so_many_files_open() {
    run(async {
        let site = Site::of_files_with(Options { handles_per_session_max: 2, ..Options::default() }).await;
        site.put("f", b"abc");
        let mut peer = site.login().await;
        let first = peer.open("/f").await;
        peer.open("/f").await;
        assert_eq!(peer.error(open("/f", OpenOptions::READ)).await, ErrorCode::OVERLOADED);
        peer.close(first).await.unwrap();
        peer.open("/f").await;
    });
}

#[test]
fn all_sessions_of_an_address_share_its_open_files() {
    run(async {
        let limits = Limits { open_files_max: 12, ..Limits::default() };
        let site = Site::of_files_limited(limits).await;
        site.put("f", b"abc");
        let mut sessions = [site.login().await, site.login().await, site.login().await];
        let mut first = None;
        for session in &mut sessions {
            first = Some(session.open("/f").await);
        }
        for session in &mut sessions {
            let (code, text) = session.call(open("/f", OpenOptions::READ)).await.unwrap_err();
            assert_eq!(code, ErrorCode::OVERLOADED);
            assert!(text.contains("try again"), "{text}");
            session.call(Request::Ping).await.unwrap();
        }
        // An open that fails leaves no trace.
        sessions[2].close(first.unwrap()).await.unwrap();
        assert_eq!(sessions[0].error(open("/none", OpenOptions::READ)).await, ErrorCode::NOT_FOUND);
        // Its place is free a moment after its answer.
        while sessions[0].call(open("/f", OpenOptions::READ)).await.is_err() {}
        let [gone, mut left, _] = sessions;
        drop(gone);
        while left.call(open("/f", OpenOptions::READ)).await.is_err() {}
    });
}

#[test]
fn a_server_that_stops_finishes_what_is_under_way_and_takes_no_more() {
    run(async {
        let mut site = Site::of_origin(MIB, Options::default()).await;
        let mut idle = site.login().await;
        let mut reader = site.login().await;
        let handle = reader.open("/store/f").await;
        site.origin.let_through(0);
        reader.send(9, read(handle, 0, 100_000)).await;
        while site.origin.asked().is_empty() {
            tokio::task::yield_now().await;
        }
        site.stop();
        assert!(idle.is_closed().await);
        site.origin.let_through(u64::MAX);
        assert!(reader.answer(9).await.unwrap() == bytes_at(0, 100_000));
        assert!(reader.is_closed().await);
        let address = site.address;
        site.stopped().await;
        assert!(tokio::net::TcpStream::connect(address).await.is_err());
    });
}

/// After its login it can reconnect at once; before, stock clients wait for minutes.
#[test]
fn a_client_that_has_just_connected_logs_in_although_the_server_stops() {
    run(async {
        let first_request_time_max = Duration::from_secs(600);
        let limits = Limits { first_request_time_max, ..Limits::default() };
        let mut site = Site::of_files_limited(limits).await;
        let mut greeted = Peer::greet(site.address, Expect::LOGIN).await;
        let mut idle = site.login().await;
        site.stop();
        assert!(idle.is_closed().await);
        greeted.prove("late", 5).await;
        assert!(greeted.is_closed().await);
        site.stopped().await;
    });
}

#[test]
fn a_client_that_does_not_log_in_delays_a_stop_for_a_moment_only() {
    run(async {
        let first_request_time_max = Duration::from_millis(10);
        let limits = Limits { first_request_time_max, ..Limits::default() };
        let mut site = Site::of_files_limited(limits).await;
        let mut greeted = Peer::greet(site.address, Expect::LOGIN).await;
        site.stop();
        assert!(greeted.is_closed().await);
        site.stopped().await;
    });
}

#[test]
fn a_client_without_the_ability_is_not_told_to_wait() {
    run(async {
        let site = Site::of_origin(MIB, impatient()).await;
        let mut old = Peer::login_as(site.address, "old", 5).await;
        let mut new = site.login().await;
        let (old_handle, new_handle) = (old.open("/store/f").await, new.open("/store/f").await);
        site.origin.let_through(0);
        old.send(8, read(old_handle, 0, 100)).await;
        new.send(9, read(new_handle, 0, 100)).await;
        assert_eq!(new.frame().await.status, Status::WAITRESP);
        site.origin.let_through(u64::MAX);
        assert_eq!(old.frame().await.status, Status::OK);
    });
}
