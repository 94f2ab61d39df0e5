//! Responses in both directions, and the odd forms that servers in the field send.

use crate::frames::frame;
use forebay_proto::page::{FrameKind, StatusFrame};
use forebay_proto::response::{
    Attention, Checksum, ConfigValues, ErrorBody, Location, LocationKind, LoginReply, OpenReply, ProtocolReply,
    Redirect, RedirectTarget, VectorData, Wait, element_header, parse_stat,
};
use forebay_proto::{
    ErrorCode, FileHandle, OpenOptions, ReplyTo, RequestCode, Response, ResponseError, ResponseHeader, ServerFlags,
    SessionId, Status, StreamId,
};
use forebay_types::{Endpoint, FileKind, FileStat};

const REPLY_TO: ReplyTo = ReplyTo::direct(StreamId([1, 0]));

const STAT: FileStat = FileStat {
    id: 9,
    kind: FileKind::File,
    size: 10,
    mtime: 11,
    readable: true,
    executable: false,
    offline: false,
    cached: true,
    access: None,
    validator: None,
};

fn body(build: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![0xee; 3];
    build(&mut out);
    assert_eq!(out[..3], [0xee; 3], "what was in the buffer stays");
    frame(&out[3..]).1
}

#[test]
fn errors_always_have_a_nul() {
    assert_eq!(body(|out| REPLY_TO.error(ErrorCode::IO_ERROR, "", out)), [0, 0, 0x0b, 0xbf, 0]);
    assert_eq!(body(|out| REPLY_TO.error(ErrorCode::IO_ERROR, "a\0b", out)), b"\0\0\x0b\xbfab\0");
    assert_eq!(ErrorBody::parse(&[0, 0, 0x0b, 0xbf]).unwrap().text, "");
    assert_eq!(ErrorBody::parse(b"\0\0\0\x01 no NUL "), Ok(ErrorBody { code: ErrorCode(1), text: "no NUL".into() }));
    assert!(ErrorBody::parse(&[0, 0, 0]).is_err());
}

#[test]
fn the_text_of_an_error_is_cut_at_its_limit() {
    let text = |len: usize| body(|out| REPLY_TO.error(ErrorCode::IO_ERROR, &"x".repeat(len), out)).len() - 5;
    assert_eq!((text(8192), text(8193)), (8192, 8192));
}

#[test]
fn a_wait_is_never_zero() {
    assert_eq!(body(|out| REPLY_TO.wait(0, "busy", out)), b"\0\0\0\x01busy");
    assert_eq!(Wait::parse(b"\0\0\0\x05x\0").unwrap().text, "x");
    assert!(Wait::parse(&[0x80, 0, 0, 0]).is_err());
    assert!(Wait::parse(&[]).is_err());
    assert_eq!(body(|out| REPLY_TO.wait_response(u32::MAX, out)), [0x7f, 0xff, 0xff, 0xff]);
}

#[test]
fn an_open_answers_the_request() {
    let reply = |options| body(|out| REPLY_TO.open(FileHandle([1, 2, 3, 4]), OpenOptions(options), &STAT, out));
    assert_eq!(reply(0x0010), [1, 2, 3, 4]);
    assert_eq!(reply(0x0011), [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
    let with_stat = reply(0x0450);
    assert_eq!(with_stat[12..], *b"9 10 528 11 11 11 0444 * *\0");
    assert_eq!(OpenReply::parse(&with_stat).unwrap().stat, Some(STAT));
    assert_eq!(OpenReply::parse(&reply(0x0010)).unwrap().stat, None);
    assert_eq!(OpenReply::parse(&reply(0x0011)).unwrap().stat, None);
    assert!(OpenReply::parse(&[1, 2, 3]).is_err());
    assert!(OpenReply::parse(b"hand compressxx").is_err());
}

#[test]
fn stat_texts_of_all_lengths_are_understood() {
    let short = parse_stat(b"1 2 51 4").unwrap();
    assert_eq!((short.size, short.mtime, short.kind, short.executable), (2, 4, FileKind::Directory, true));
    assert!(parse_stat(b"-1 2 16 -4\0garbage").unwrap().mtime == -4);
    assert_eq!(parse_stat(b"99999999999999999999999 2 28 4\n").unwrap().id, 0);
    assert_eq!(parse_stat(b"1 2 4 4").unwrap().kind, FileKind::Other);
    for text in [&b""[..], b"1 2 3", b"1 x 3 4", b"1 -2 3 4", b"1 2 3 \xff"] {
        assert!(parse_stat(text).is_err());
    }
    let text = body(|out| REPLY_TO.stat(&FileStat { kind: FileKind::Directory, executable: true, ..STAT }, out));
    assert_eq!(text, b"9 10 531 11 11 11 0555 * *\0");
}

#[test]
fn statx_tells_one_byte_a_path() {
    let stats = [
        STAT,
        FileStat { kind: FileKind::Directory, ..STAT },
        FileStat { offline: true, ..STAT },
        FileStat { kind: FileKind::Other, ..STAT },
    ];
    assert_eq!(body(|out| REPLY_TO.statx(&stats, out)), [0, 2, 8, 4]);
}

#[test]
fn spaces_are_texts() {
    assert_eq!(body(|out| REPLY_TO.vfs_stat(79_005, 69, out)), b"1 79005 69 0 0 0\0");
    assert_eq!(
        body(|out| REPLY_TO.space(4, 3, out)),
        b"oss.cgroup=public&oss.space=4&oss.free=3&oss.maxf=3&oss.used=1&oss.quota=-1\0"
    );
    assert!(body(|out| REPLY_TO.xattr(&STAT, out)).starts_with(b"oss.cgroup=public&oss.type=f&oss.used=10&oss.mt=11&"));
}

#[test]
fn locations_round_trip() {
    let locations = [
        Location { kind: LocationKind::Server, is_writable: true, endpoint: Endpoint::new("::127.0.0.1", 11094) },
        Location { kind: LocationKind::PendingManager, is_writable: false, endpoint: Endpoint::new("m.example", 1) },
    ];
    let text = body(|out| REPLY_TO.locate(&locations, out));
    assert_eq!(text, b"Sw[::127.0.0.1]:11094 mrm.example:1\0");
    assert_eq!(Location::parse_all(&text), Ok(locations.to_vec()));
    for text in [&b""[..], b"\0", b"Xr host:1\0", b"Sxhost:1\0", b"Sr\0", b"S"] {
        assert!(Location::parse_all(text).is_err());
    }
}

#[test]
fn checksums_are_brought_to_normal_form() {
    let parsed = |text: &str| Checksum::parse(text.as_bytes()).map(|c| (c.algorithm, c.value));
    assert_eq!(parsed("adler32 1AB8D3\0"), Ok(("adler32".into(), "001ab8d3".into())));
    assert_eq!(parsed("MD5 ab"), Ok(("md5".into(), "ab".into())));
    for text in ["", "adler32", "adler32 xyz", "adler32 1 2"] {
        assert!(parsed(text).is_err());
    }
}

#[test]
fn unknown_configuration_names_are_their_own_values() {
    let text = body(|out| REPLY_TO.config(["2097136", "bogus"], out));
    assert_eq!(text, b"2097136\nbogus\n");
    let values = ConfigValues::parse(&text).unwrap();
    assert_eq!(values.value(0, "readv_ior_max"), Some("2097136"));
    assert_eq!(values.value(1, "bogus"), None);
    assert_eq!(values.value(2, "missing"), None);
    assert!(ConfigValues::parse(b"\xff").is_err());
}

#[test]
fn redirects_come_in_all_forms() {
    let parse = |port: i32, text: &str| Redirect::parse(&[&port.to_be_bytes()[..], text.as_bytes()].concat());
    let host = |endpoint: Endpoint, cgi: &str, token: &str| RedirectTarget::Host {
        endpoint,
        cgi: cgi.to_owned(),
        token: token.to_owned(),
    };
    for (port, text, target) in [
        (1094, "pool.example", host(Endpoint::new("pool.example", 1094), "", "")),
        (20000, "pool?&org.dcache.uuid=1&a=b", host(Endpoint::new("pool", 20000), "org.dcache.uuid=1&a=b", "")),
        (11, "eos?cap.sym=x==?token?more", host(Endpoint::new("eos", 11), "cap.sym=x==", "token?more")),
        (0, "pool", host(Endpoint::new("pool", 1094), "", "")),
        (5, "user@[::1]", host(Endpoint::new("::1", 5), "", "")),
        (5, "::ffff:10.0.0.1", host(Endpoint::new("::ffff:10.0.0.1", 5), "", "")),
        (5, "[::ffff:10.0.0.1]\0", host(Endpoint::new("::ffff:10.0.0.1", 5), "", "")),
    ] {
        assert_eq!(parse(port, text), Ok(Redirect { target, flags: 0 }), "{text}");
    }
    let url = |tls, endpoint, path: &str, cgi: &str| RedirectTarget::Url {
        tls,
        endpoint,
        path: path.to_owned(),
        cgi: cgi.to_owned(),
    };
    for (port, text, target, flags) in [
        (-1, "root://u@h:2//store/f?a=1?b", url(false, Endpoint::new("h", 2), "/store/f", "a=1?b"), 0),
        (-1, "xroots://[::1]/x", url(true, Endpoint::new("::1", 1094), "x", ""), 0),
        (!0x3000, "roots://h", url(true, Endpoint::new("h", 1094), "", ""), 0x3000),
        (-1, "root://h?&a=1", url(false, Endpoint::new("h", 1094), "", "a=1"), 0),
        (-1, "file:///cache/f", RedirectTarget::LocalFile { path: "/cache/f".into() }, 0),
        (-1, "https://h/f", RedirectTarget::Foreign { scheme: "https".into() }, 0),
    ] {
        assert_eq!(parse(port, text), Ok(Redirect { target, flags }), "{text}");
    }
    for (port, text) in
        [(1094, ""), (70000, "host"), (1094, "a b"), (-1, ""), (-1, "host"), (-1, "://h/f"), (-1, "file://other/f")]
    {
        assert!(parse(port, text).is_err(), "{port} {text}");
    }
    assert!(Redirect::parse(&[0, 0, 0]).is_err());
    assert!(Redirect::parse(b"\0\0\x04\x46\xff").is_err());
}

#[test]
fn redirects_that_we_send_are_understood() {
    let endpoint = Endpoint::new("::1", 2094);
    let text = body(|out| REPLY_TO.redirect_to_host(&endpoint, "a=b", out));
    assert_eq!(text, b"\0\0\x08\x2e[::1]?a=b");
    let expected = RedirectTarget::Host { endpoint, cgi: "a=b".into(), token: String::new() };
    assert_eq!(Redirect::parse(&text).unwrap().target, expected);
}

#[test]
fn session_replies_tolerate_unknown_parts() {
    let flags = ServerFlags::IS_SERVER.with(ServerFlags::SUPPORTS_PAGES);
    let reply = ProtocolReply { version: 0x511, flags };
    let mut text = body(|out| REPLY_TO.protocol(reply, out));
    assert_eq!(ProtocolReply::parse(&text), Ok(reply));
    text.extend_from_slice(b"S\0\0\0\0\0");
    assert_eq!(ProtocolReply::parse(&text), Ok(reply));
    assert!(ProtocolReply::parse(&text[..7]).is_err());

    assert_eq!(LoginReply::parse(b"").unwrap().session_id, None);
    assert!(LoginReply::parse(&[1; 15]).is_err());
    let reply = LoginReply::parse(b"0123456789abcdef&P=ztn,0:4096:&P=gsi,v:10600,c:ssl\0").unwrap();
    assert_eq!(reply.session_id, Some(SessionId(*b"0123456789abcdef")));
    assert_eq!(reply.security_protocols().collect::<Vec<_>>(), ["ztn", "gsi"]);
}

#[test]
fn vector_data_ends_after_the_first_error() {
    let element = forebay_proto::request::ReadElement { handle: FileHandle([0, 0, 0, 1]), offset: 4096, len: 3 };
    let one = [&element_header(&element)[..], b"abc"].concat();
    let two = [one.clone(), one.clone()].concat();
    assert_eq!(VectorData::new(&two).collect::<Vec<_>>(), [Ok((element, &b"abc"[..])); 2]);
    for cut in 1..one.len() {
        let results: Vec<_> = VectorData::new(&two[..one.len() + cut]).collect();
        assert_eq!(results.len(), 2);
        assert!(matches!(results[1], Err(ResponseError::Truncated { .. })));
    }
    let negative = forebay_proto::request::ReadElement { len: 0x8000_0000, ..element };
    assert!(VectorData::new(&element_header(&negative)).next().unwrap().is_err());
}

#[test]
fn unsolicited_messages() {
    assert_eq!(Attention::parse(b"\0\0\x13\x8ahello"), Ok(Attention::Message(b"hello")));
    assert_eq!(Attention::parse(b"\0\0\x13\x88"), Ok(Attention::Other(5000)));
    assert!(Attention::parse(b"\0\0\x13\x90\0\0\0\0\x01\0\0\0\0\0\0").is_err());
    assert!(Attention::parse(b"\0\0\x13\x90\0\0\0\0\x01\0\0\0\x80\0\0\0").is_err());
    assert!(Attention::parse(b"\0").is_err());
}

#[test]
fn damaged_status_frames_are_refused() {
    let id = StreamId([1, 0]);
    let frame =
        StatusFrame { stream_id: id, request: RequestCode::PGREAD, kind: FrameKind::Final, offset: 5, data_len: 9 };
    let bytes = frame.to_bytes();
    assert_eq!(StatusFrame::decode(id, &bytes[8..]), Ok(frame));
    for at in 8..bytes.len() {
        let mut damaged = bytes;
        damaged[at] ^= 0x10;
        let error = StatusFrame::decode(id, &damaged[8..]).unwrap_err();
        assert!(error.is_retryable(), "byte {at}");
    }
    assert!(!StatusFrame::decode(StreamId([2, 0]), &bytes[8..]).unwrap_err().is_retryable());
    for len in 0..24 {
        assert!(StatusFrame::decode(id, &bytes[8..8 + len]).is_err());
    }
}

#[test]
fn unknown_status_is_an_error() {
    let header = ResponseHeader { stream_id: StreamId::ZERO, status: Status(4008), body_len: 0 };
    assert!(Response::decode(&header, &[]).is_err());
}
