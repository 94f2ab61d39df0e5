//! Opens, and questions on names: stat, statx, dirlist, locate, query, prepare, set.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::site::{Peer, Site, impatient, open, run};
use forebay_origin::{OriginError, RefusalKind};
use forebay_proto::{
    DirlistOptions, ErrorCode, FileHandle, LocateOptions, OpenOptions, Params, QueryKind, Request, RequestCode, Status,
    StreamId,
    request::{Dirlist, Fattr, Locate, Prepare, Set, Sigver, Stat, Statx, Sync, Target},
    response::{Attention, DirlistDecoder, ErrorBody, Location, OpenReply, parse_stat},
};
use forebay_server::Options;
use forebay_testkit::MemoryOrigin;
use forebay_types::{DirEntry, FileKind};
use std::sync::atomic::Ordering;

fn stat(path: &str) -> Request<'_> {
    Request::Stat(Stat { target: Target::Path(path.as_bytes()), vfs: false })
}

fn stat_handle(handle: FileHandle) -> Request<'static> {
    Request::Stat(Stat { target: Target::Handle(handle), vfs: false })
}

fn dirlist(path: &str, options: u8) -> Request<'_> {
    Request::Dirlist(Dirlist { options: DirlistOptions(options), path: path.as_bytes() })
}

fn locate(path: &str) -> Request<'_> {
    Request::Locate(Locate { options: LocateOptions(0x0501), path: path.as_bytes() })
}

async fn site() -> (Site, Peer) {
    let site = Site::of_files().await;
    site.put("data/a b.bin", &[7; 5000]);
    site.put("data/ü%20", b"x");
    std::fs::create_dir(site.path().join("empty")).unwrap();
    let peer = site.login().await;
    (site, peer)
}

#[test]
fn the_reply_to_an_open_has_the_fields_that_were_asked_for() {
    run(async {
        let (_site, mut peer) = site().await;
        for (options, len) in [(0x0010, 4), (0x0000, 4), (0x0011, 12)] {
            assert_eq!(peer.call(open("/data/a b.bin", OpenOptions(options))).await.unwrap().len(), len);
        }
        let reply = peer.call(open("/data/a b.bin", OpenOptions(0x0450))).await.unwrap();
        assert_eq!(reply[4..12], [0; 8]);
        assert_eq!(reply.last(), Some(&0));
        assert_eq!(OpenReply::parse(&reply).unwrap().stat.unwrap().size, 5000);
    });
}

#[test]
fn paths_are_checked_before_anything_else() {
    run(async {
        let (_site, mut peer) = site().await;
        let long = format!("/{}", "n".repeat(256));
        for (path, code) in [
            ("data/a b.bin", ErrorCode::NOT_AUTHORIZED),
            ("/data/../x", ErrorCode::NOT_AUTHORIZED),
            ("/data/\0x", ErrorCode::ARG_INVALID),
            (&long, ErrorCode::ARG_TOO_LONG),
            ("", ErrorCode::ARG_MISSING),
            ("/none", ErrorCode::NOT_FOUND),
            ("/data", ErrorCode::IS_DIRECTORY),
        ] {
            assert_eq!(peer.error(open(path, OpenOptions::READ)).await, code, "{path}");
        }
        for path in ["//data/./a b.bin?&x=y", "/data/a b.bin\0", "/data/ü%20"] {
            peer.open(path).await;
        }
    });
}

#[test]
fn a_path_that_is_not_exported_is_disallowed() {
    run(async {
        let site = Site::of_origin(10, Options::default()).await;
        let mut peer = site.login().await;
        let (code, text) = peer.call(open("/elsewhere/f", OpenOptions::READ)).await.unwrap_err();
        assert_eq!(code, ErrorCode::NOT_AUTHORIZED);
        assert!(text.contains("disallowed"), "{text}");
        assert_eq!(peer.error(locate("*/elsewhere")).await, ErrorCode::NOT_AUTHORIZED);
    });
}

#[test]
fn an_origins_refusal_keeps_its_number_and_text() {
    run(async {
        let site = Site::of_origin(10, Options::default()).await;
        let mut peer = site.login().await;
        let endpoint = MemoryOrigin::endpoint();
        let refused =
            OriginError::Refused { endpoint, kind: RefusalKind::Locked, text: "somebody holds it".to_owned() };
        site.origin.script(|script| script.open_error = Some(refused));
        let answer = peer.call(open("/store/f", OpenOptions::READ)).await;
        assert_eq!(answer, Err((ErrorCode::FILE_LOCKED, "somebody holds it".to_owned())));
    });
}

#[test]
fn what_is_known_of_a_file_is_told_by_path_and_by_handle() {
    run(async {
        let (_site, mut peer) = site().await;
        let by_path = peer.call(stat("/data/a b.bin\0")).await.unwrap();
        let handle = peer.open("/data/a b.bin").await;
        assert_eq!(peer.call(stat_handle(handle)).await.unwrap(), by_path);
        let known = parse_stat(&by_path).unwrap();
        assert_eq!((known.kind, known.size, known.readable), (FileKind::File, 5000, true));
        let directory = parse_stat(&peer.call(stat("/data")).await.unwrap()).unwrap();
        assert_eq!(directory.kind, FileKind::Directory);
        assert_eq!(peer.error(stat("/none")).await, ErrorCode::NOT_FOUND);
        assert_eq!(peer.error(stat_handle(FileHandle([7; 4]))).await, ErrorCode::FILE_NOT_OPEN);
    });
}

#[test]
fn the_space_of_a_path_is_told_in_both_forms() {
    run(async {
        let (_site, mut peer) = site().await;
        let vfs = Request::Stat(Stat { target: Target::Path(b"/data"), vfs: true });
        let space = peer.call(vfs).await.unwrap();
        assert!(space.starts_with(b"1 ") && space.ends_with(b" 0 0 0\0"), "{space:?}");
        let text = peer.query(QueryKind::SPACE, "/data").await.unwrap();
        assert!(text.starts_with("oss.cgroup=public&oss.space="), "{text}");
        let attributes = peer.query(QueryKind::XATTR, "/data/a b.bin\0").await.unwrap();
        assert!(attributes.contains("oss.type=f&oss.used=5000&"), "{attributes}");
    });
}

#[test]
fn statx_tells_one_byte_for_each_path_and_fails_as_a_whole() {
    run(async {
        let (_site, mut peer) = site().await;
        let paths = Request::Statx(Statx { paths: b"/data/a b.bin\n/data\n" });
        assert_eq!(peer.call(paths).await.unwrap(), [0, 2]);
        let paths = Request::Statx(Statx { paths: b"/data\n/none" });
        assert_eq!(peer.error(paths).await, ErrorCode::NOT_FOUND);
    });
}

#[test]
fn listings_have_the_exact_form_that_clients_test_for() {
    run(async {
        let (_site, mut peer) = site().await;
        assert_eq!(peer.call(dirlist("/data", 0)).await.unwrap(), "a b.bin\nü%20\0".as_bytes());
        assert_eq!(peer.call(dirlist("/empty", 0)).await.unwrap(), b"");
        for options in [2, 4, 6, 8] {
            let listing = peer.call(dirlist("/data", options)).await.unwrap();
            assert!(listing.starts_with(b".\n0 0 0 0\na b.bin\n"));
            assert_eq!(listing.last(), Some(&0));
            assert_eq!(listing.ends_with(b" [ none:none ]\0"), options & 4 != 0);
        }
        assert_eq!(peer.error(dirlist("/none", 0)).await, ErrorCode::NOT_FOUND);
        assert_eq!(peer.error(dirlist("/data/a b.bin", 0)).await, ErrorCode::FS_ERROR);
    });
}

#[test]
fn a_large_directory_comes_in_frames_of_whole_entries() {
    run(async {
        let (site, mut peer) = site().await;
        for i in 0..3000 {
            site.put(&format!("many/file-with-a-rather-long-name-{i:04}"), b"");
        }
        peer.send(9, dirlist("/many", 2)).await;
        let (mut decoder, mut entries, mut frames): (_, Vec<DirEntry>, _) = (DirlistDecoder::new(), Vec::new(), 0);
        loop {
            let frame = peer.frame().await;
            frames += 1;
            assert_eq!(frame.body.last() == Some(&b'\n'), frame.status == Status::OKSOFAR);
            decoder.handle_frame(&frame.body, &mut entries).unwrap();
            if frame.status == Status::OK {
                break;
            }
        }
        decoder.finish(&mut entries).unwrap();
        entries.retain(|entry| entry.name != ".");
        assert!(frames > 2);
        assert_eq!(entries.len(), 3000);
    });
}

#[test]
fn locate_names_this_server_by_an_address_that_the_client_reaches() {
    run(async {
        let (site, mut peer) = site().await;
        for path in ["/data/a b.bin", "*", "*\0", "*/data", "/data"] {
            let locations = Location::parse_all(&peer.call(locate(path)).await.unwrap()).unwrap();
            let [location] = locations.as_slice() else { panic!("{locations:?}") };
            assert_eq!(location.endpoint.to_string(), site.address.to_string());
        }
        assert_eq!(peer.error(locate("/none")).await, ErrorCode::NOT_FOUND);
    });
}

#[test]
fn locate_tells_the_configured_name_to_clients_that_prefer_names() {
    run(async {
        let options = Options { host_name: Some("cache.example".to_owned()), ..Options::default() };
        let site = Site::of_files_with(options).await;
        let mut peer = site.login().await;
        let reply = peer.call(locate("*")).await.unwrap();
        assert_eq!(reply, format!("Srcache.example:{}\0", site.address.port()).as_bytes());
    });
}

#[test]
fn configuration_values_come_one_a_line_and_unknown_names_are_echoed() {
    run(async {
        let (_site, mut peer) = site().await;
        let names = "readv_ior_max readv_iov_max bind_max pio_max chksum role tpc sitename nonsense fattr\nversion";
        let values = peer.query(QueryKind::CONFIG, names).await.unwrap();
        let expected = "2097136\n1024\n15\n5\n0:adler32,1:crc32c\nserver\ntpc\nsitename\nnonsense\n0 0\n";
        assert_eq!(values, expected);
        assert!(peer.query(QueryKind::CONFIG, "version\0").await.unwrap().starts_with("forebay-"));
        assert_eq!(peer.query(QueryKind::CONFIG, "cmsd").await.unwrap(), "\n");
    });
}

#[test]
fn a_checksum_is_of_the_kind_that_was_asked_for() {
    run(async {
        let (site, mut peer) = site().await;
        site.put("check", b"123456789");
        assert_eq!(peer.query(QueryKind::CHECKSUM, "/check").await.unwrap(), "adler32 091e01de\0");
        assert_eq!(peer.query(QueryKind::CHECKSUM, "/check?cks.type=CRC32C").await.unwrap(), "crc32c e3069283\0");
        assert_eq!(peer.query(QueryKind::CHECKSUM, "/check?cks.type=foo").await, Err(ErrorCode::SERVER_ERROR));
        assert_eq!(peer.query(QueryKind::CHECKSUM, "/none").await, Err(ErrorCode::NOT_FOUND));
    });
}

#[test]
fn other_queries_are_answered_or_refused_by_number() {
    run(async {
        let (_site, mut peer) = site().await;
        let statistics = peer.query(QueryKind::STATS, "a").await.unwrap();
        assert!(statistics.starts_with("<statistics tod=") && statistics.ends_with("</statistics>\0"));
        assert_eq!(peer.query(QueryKind::CHECKSUM_CANCEL, "/data").await.unwrap(), "");
        for kind in [2, 8, 9, 10, 16, 32, 64] {
            assert_eq!(peer.query(QueryKind(kind), "/data").await, Err(ErrorCode::UNSUPPORTED), "{kind}");
        }
        assert_eq!(peer.query(QueryKind(99), "/data").await, Err(ErrorCode::ARG_INVALID));
    });
}

#[test]
fn settings_are_taken_note_of() {
    run(async {
        let (_site, mut peer) = site().await;
        for (text, answer) in [
            ("appid test", Ok(vec![])),
            ("monitor on test", Ok(vec![])),
            ("monitor info hello", Ok(vec![0; 4])),
            ("cache evict /f", Err(ErrorCode::UNSUPPORTED)),
            ("clttl 5", Err(ErrorCode::ARG_INVALID)),
            ("", Err(ErrorCode::ARG_INVALID)),
        ] {
            let reply = peer.call(Request::Set(Set { modifier: 0, text: text.as_bytes() })).await;
            assert_eq!(reply.map_err(|(code, _)| code), answer, "{text}");
        }
    });
}

#[test]
fn prepare_gives_an_id_without_a_nul_for_files_to_be_staged() {
    run(async {
        let (_site, mut peer) = site().await;
        let prepare = |options, paths| Prepare { options, priority: 0, port: 0, options_extended: 0, paths };
        let id = peer.call(Request::Prepare(prepare(8, b"/data/a b.bin\n/data/b".as_slice()))).await.unwrap();
        assert!(!id.is_empty() && !id.contains(&0));
        assert_eq!(peer.call(Request::Prepare(prepare(1, &id))).await, Ok(vec![]));
        assert_eq!(peer.error(Request::Prepare(prepare(8, b"relative"))).await, ErrorCode::NOT_AUTHORIZED);
    });
}

#[test]
fn attributes_are_not_supported_and_syncs_are_harmless() {
    run(async {
        let (_site, mut peer) = site().await;
        let attributes = Request::Fattr(Fattr { params: Params::default(), payload: b"/data\0\0\0a\0" });
        assert_eq!(peer.error(attributes).await, ErrorCode::UNSUPPORTED);
        let handle = peer.open("/data/a b.bin").await;
        peer.call(Request::Sync(Sync { handle })).await.unwrap();
        assert_eq!(peer.error(Request::Sync(Sync { handle: FileHandle([8; 4]) })).await, ErrorCode::FILE_NOT_OPEN);
    });
}

#[test]
fn a_signature_that_nobody_asked_for_changes_nothing() {
    run(async {
        let (_site, mut peer) = site().await;
        let signed = RequestCode::STAT;
        let signature = Sigver { signed, version: 0, flags: 0, sequence: 1, crypto: 1, signature: &[5; 32] };
        peer.send(40, Request::Sigver(signature)).await;
        peer.send(40, stat("/data")).await;
        let frame = peer.frame().await;
        assert_eq!((frame.stream_id, frame.status), (StreamId::from(40), Status::OK));
    });
}

#[test]
fn a_slow_open_is_put_off_and_then_answered_in_one_message() {
    run(async {
        let site = Site::of_origin(10, impatient()).await;
        let mut peer = site.login().await;
        site.gate.send_replace(false);
        peer.send(3, open("/store/f", OpenOptions(0x0450))).await;
        assert_eq!(peer.frame().await.status, Status::WAITRESP);
        site.gate.send_replace(true);
        let message = peer.frame().await;
        let Attention::Deferred { header, body } = Attention::parse(&message.body).unwrap() else { panic!() };
        assert_eq!((header.stream_id, header.status), (StreamId::from(3), Status::OK));
        let handle = OpenReply::parse(body).unwrap().handle;
        assert_eq!(peer.call(stat_handle(handle)).await.unwrap(), body[12..]);
    });
}

#[test]
fn a_slow_refusal_is_told_in_one_message() {
    run(async {
        let site = Site::of_origin(10, impatient()).await;
        let error = OriginError::Unreachable { endpoint: MemoryOrigin::endpoint(), reason: "no route".to_owned() };
        site.origin.script(|script| script.open_error = Some(error));
        site.gate.send_replace(false);
        let mut peer = site.login().await;
        peer.send(3, open("/store/f", OpenOptions::READ)).await;
        assert_eq!(peer.frame().await.status, Status::WAITRESP);
        site.gate.send_replace(true);
        let message = peer.frame().await;
        let Attention::Deferred { header, body } = Attention::parse(&message.body).unwrap() else { panic!() };
        assert_eq!(header.status, Status::ERROR);
        assert_eq!(ErrorBody::parse(body).unwrap().code, ErrorCode::NO_SERVER);
    });
}

#[test]
fn one_connection_has_only_so_many_listings_made_at_once() {
    run(async {
        let site = Site::of_origin(1, impatient()).await;
        let mut peer = site.login().await;
        site.gate.send_replace(false);
        for id in 0..6_u16 {
            peer.send(id, dirlist("/store/d", 0)).await;
        }
        for _ in 0..6 {
            assert_eq!(peer.frame().await.status, Status::WAITRESP);
        }
        assert_eq!(site.listings.load(Ordering::Relaxed), 4);
        site.gate.send_replace(true);
        for (_, listing) in peer.answers(&[0, 1, 2, 3, 4, 5]).await {
            assert_eq!(listing.unwrap(), b"");
        }
        assert_eq!(site.listings.load(Ordering::Relaxed), 6);
    });
}
