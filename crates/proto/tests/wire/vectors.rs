//! Bytes as captured from clients and servers in the field.

use crate::frames::{frame, hex};
use forebay_proto::page::{FrameKind, StatusFrame, crc32c};
use forebay_proto::request::{Bind, EndSession, Expect, Open, PageRead, Protocol, Read, Stat, Target, Username};
use forebay_proto::response::{Attention, Checksum, ErrorBody, OpenReply, Redirect, RedirectTarget, Wait};
use forebay_proto::{
    Abilities, ErrorCode, FileHandle, OpenOptions, ProtocolRequestFlags, ReplyTo, Request, RequestCode, RequestHeader,
    Response, ResponseHeader, ServerFlags, SessionId, Status, StreamId,
};
use forebay_types::{Access, FileKind, FileStat};
use std::sync::Arc;

const FIRST: StreamId = StreamId([1, 0]);

/// Decodes captured bytes, and checks that the request is encoded to the same bytes.
fn request(bytes: &[u8]) -> (StreamId, Request<'_>) {
    let header = RequestHeader::decode(bytes.first_chunk().unwrap()).unwrap();
    let payload = &bytes[24..];
    assert_eq!(header.payload_len as usize, payload.len());
    let request = Request::decode(&header, payload).unwrap();
    let mut encoded = Vec::new();
    request.encode(header.stream_id, &mut encoded);
    assert_eq!(encoded, bytes);
    (header.stream_id, request)
}

fn response(bytes: &[u8]) -> (ResponseHeader, Vec<u8>) {
    frame(bytes)
}

#[test]
fn protocol_request() {
    let bytes = hex("0000 0bbe 00000511 0b 03 00000000000000000000 00000000");
    let flags = ProtocolRequestFlags(0x0b);
    let expected = Request::Protocol(Protocol { client_version: 0x511, flags, expect: Expect::LOGIN });
    assert_eq!(request(&bytes), (StreamId::ZERO, expected));
}

#[test]
fn login_request() {
    let mut bytes = hex("0000 0bbf 000038bb 726f6f7400000000 00 dd 85 00 0000004c");
    let cgi = format!("xrd.cc=us&xrd.tz=0&xrd.appname=xrdcp&xrd.info={}", "x".repeat(30));
    bytes.extend_from_slice(cgi.as_bytes());
    let (_, Request::Login(login)) = request(&bytes) else { panic!() };
    assert_eq!((login.pid, login.username), (0x38bb, Username::new("root")));
    assert_eq!(login.username.as_bytes(), b"root");
    assert!(login.ability.contains(Abilities::FULL_URL.with(Abilities::LOCAL_FILE).with(Abilities::READ_REDIRECT)));
    assert!(!login.ability.contains(Abilities::MULTI_PROTOCOL));
    assert_eq!((login.ability2, login.ability_version(), login.accepts_deferred_answers()), (0, 5, true));
    assert_eq!(login.cgi, cgi.as_bytes());
}

#[test]
fn login_reply() {
    let mut bytes = hex("0000 0000 00000010");
    bytes.extend_from_slice(&[0xa5; 16]);
    let mut encoded = Vec::new();
    ReplyTo::direct(StreamId::ZERO).login(SessionId([0xa5; 16]), &mut encoded);
    assert_eq!(encoded, bytes);
}

#[test]
fn open_request() {
    let mut bytes = hex("0100 0bc2 0000 0450 0000 000000000000 00000000 0000000d");
    bytes.extend_from_slice(b"/data/big.bin");
    let (stream_id, Request::Open(open)) = request(&bytes) else { panic!() };
    assert_eq!(stream_id, FIRST);
    let options = OpenOptions::READ.with(OpenOptions::ASYNC).with(OpenOptions::RETURN_STAT);
    assert_eq!(open, Open { mode: 0, options, options_extended: 0, path: b"/data/big.bin" });
    assert!(!open.options.is_write());
}

fn big_stat() -> FileStat {
    let (owner, group) = ("xrootd".to_owned(), "xrootd".to_owned());
    FileStat {
        id: 42_934_799_488_318_976,
        kind: FileKind::File,
        size: 20_000_000,
        mtime: 1_795_287_170,
        readable: true,
        executable: false,
        offline: false,
        cached: false,
        access: Some(Arc::new(Access { is_writable: true, mode: 0o644, owner, group })),
        validator: None,
    }
}

#[test]
fn open_reply() {
    let mut bytes = hex("0100 0000 0000005e 00000000 00000000 00000000");
    bytes.extend_from_slice(b"42934799488318976 20000000 48 1795287170 1795287198 1795287170 0644 xrootd xrootd\0");
    let (header, body) = response(&bytes);
    assert_eq!((header.stream_id, header.status), (FIRST, Status::OK));
    assert_eq!(OpenReply::parse(&body), Ok(OpenReply { handle: FileHandle([0; 4]), stat: Some(big_stat()) }));
    // A missing NUL is tolerated.
    assert_eq!(OpenReply::parse(&body[..body.len() - 1]), OpenReply::parse(&body));
}

#[test]
fn read_request() {
    let bytes = hex("0100 0bc5 00000000 0000000000000000 0000012c 00000008 0000000000000000");
    let expected = Read { handle: FileHandle([0; 4]), offset: 0, len: 300, path_id: 0, prereads: Default::default() };
    assert_eq!(request(&bytes), (FIRST, Request::Read(expected)));
}

#[test]
fn page_read_request() {
    let bytes = hex("0100 0bd6 00000000 0000000000000000 00800000 00000002 0000");
    let expected = PageRead { handle: FileHandle([0; 4]), offset: 0, len: 8 << 20, path_id: 0, retry: false };
    assert_eq!(request(&bytes), (FIRST, Request::PageRead(expected)));
}

#[test]
fn status_frames() {
    use FrameKind::{Final, Partial};
    let page_read = RequestCode::PGREAD;
    for (bytes, stream_id, request, kind, data_len, offset) in [
        ("0100 0fa7 00000018 23e824a7 0100 1e 00 00000000 00001390 0000000000000000", FIRST, page_read, Final, 5008, 0),
        (
            "0100 0fa7 00000018 8737d312 0100 1e 01 00000000 00200800 0000000000000000",
            FIRST,
            page_read,
            Partial,
            2_099_200,
            0,
        ),
        (
            "001c 0fa7 00000018 c26ff8fd 001c 1e 00 00000000 00000000 0000000001312d00",
            StreamId([0, 0x1c]),
            page_read,
            Final,
            0,
            20_000_000,
        ),
        (
            "0100 0fa7 00000018 188c963d 0100 1a 00 00000000 00000000 0000000000000000",
            FIRST,
            RequestCode::PGWRITE,
            Final,
            0,
            0,
        ),
    ] {
        let frame = StatusFrame { stream_id, request, kind, offset, data_len };
        let bytes = hex(bytes);
        assert_eq!(frame.to_bytes().to_vec(), bytes);
        let (header, body) = response(&bytes);
        assert_eq!(Response::decode(&header, &body), Ok(Response::Status(frame)));
    }
}

#[test]
fn checksums() {
    for (data, crc) in
        [(&b"123456789"[..], 0xe306_9283), (b"a", 0xc1d0_4330), (&[0; 4096], 0x98f9_4189), (b"", 0x0000_0000)]
    {
        assert_eq!(crc32c(data), crc);
    }
    // The list of bad pages in the reply to a page write: one page of 4096 bytes at 4096.
    assert_eq!(crc32c(&hex("1000 1000 0000000000001000")), 0x8039_4ad3);
}

#[test]
fn errors() {
    let bytes = {
        let text = b"Unable to locate /data/nope; no such file or directory\0";
        [hex("0100 0fa3 0000003b 00000bc3"), text.to_vec()].concat()
    };
    let mut encoded = Vec::new();
    let text = "Unable to locate /data/nope; no such file or directory";
    ReplyTo::direct(FIRST).error(ErrorCode::NOT_FOUND, text, &mut encoded);
    assert_eq!(encoded, bytes);
    let (header, body) = response(&bytes);
    let expected = ErrorBody { code: ErrorCode::NOT_FOUND, text: text.to_owned() };
    assert_eq!(Response::decode(&header, &body), Ok(Response::Error(expected)));
}

#[test]
fn redirect_to_a_file() {
    let bytes = [hex("0100 0fa4 0000001c ffffffff"), b"file://localhost/cache/f".to_vec()].concat();
    let mut encoded = Vec::new();
    ReplyTo::direct(FIRST).redirect_to_url("file://localhost/cache/f", &mut encoded);
    assert_eq!(encoded, bytes);
    let (header, body) = response(&bytes);
    let target = RedirectTarget::LocalFile { path: "/cache/f".to_owned() };
    assert_eq!(Response::decode(&header, &body), Ok(Response::Redirect(Redirect { target, flags: 0 })));
}

#[test]
fn waits() {
    let bytes = hex("0100 0fa5 00000004 00000005");
    let mut encoded = Vec::new();
    ReplyTo::direct(FIRST).wait(5, "", &mut encoded);
    assert_eq!(encoded, bytes);
    let (header, body) = response(&bytes);
    assert_eq!(Response::decode(&header, &body), Ok(Response::Wait(Wait { seconds: 5, text: String::new() })));

    let bytes = [hex("0100 0fa6 00000012 00000258"), b"Job scheduled.".to_vec()].concat();
    let (header, body) = response(&bytes);
    let expected = Wait { seconds: 600, text: "Job scheduled.".to_owned() };
    assert_eq!(Response::decode(&header, &body), Ok(Response::WaitResponse(expected)));
}

#[test]
fn deferred_answer() {
    let text = b"crc32c 883d229f\0";
    let bytes = [hex("0000 0fa1 00000020 00001390 00000000 0100 0000 00000010"), text.to_vec()].concat();
    let checksum = Checksum::new("crc32c", "883d229f");
    let mut encoded = Vec::new();
    ReplyTo::deferred(FIRST).checksum(&checksum, &mut encoded);
    assert_eq!(encoded, bytes);
    let (outer, body) = response(&bytes);
    let Ok(Response::Attention(Attention::Deferred { header, body })) = Response::decode(&outer, &body) else {
        panic!()
    };
    assert_eq!(header, ResponseHeader { stream_id: FIRST, status: Status::OK, body_len: 16 });
    assert_eq!(Checksum::parse(body), Ok(checksum));
}

#[test]
fn file_attributes_are_recognised() {
    let payload = b"/data/small.bin\0\0\0a\0\0\0\0\x01b";
    let mut bytes = hex("0100 0bcc 00000000 03 01 00 000000000000000000");
    bytes.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(payload);
    let (_, Request::Fattr(fattr)) = request(&bytes) else { panic!() };
    assert_eq!((fattr.params.field::<4, 3>(), fattr.payload), ([3, 1, 0], &payload[..]));
}

#[test]
fn renaming() {
    let payload = b"/data/up.bin /data/a/b/u";
    let header = hex("0100 0bc1 0000000000000000000000000000 000c 00000018");
    let bytes = [header.clone(), payload.to_vec()].concat();
    let (_, Request::Change(change)) = request(&bytes) else { panic!() };
    assert_eq!((change.code, change.target), (RequestCode::MV, Target::Path(b"/data/up.bin")));
    // Without a length, the first blank separates the names.
    let bytes = [hex("0100 0bc1 00000000000000000000000000000000 00000018"), payload.to_vec()].concat();
    let (_, Request::Change(change)) = request(&bytes) else { panic!() };
    assert_eq!(change.target, Target::Path(b"/data/up.bin"));
}

#[test]
fn session_ids_fill_the_parameters() {
    let session_id = SessionId(std::array::from_fn(|at| u8::try_from(at).unwrap()));
    let bytes = hex("0100 0bcf 000102030405060708090a0b0c0d0e0f 00000000");
    assert_eq!(request(&bytes).1, Request::EndSession(EndSession { session_id }));
    let bytes = hex("0100 0bd0 000102030405060708090a0b0c0d0e0f 00000000");
    assert_eq!(request(&bytes).1, Request::Bind(Bind { session_id }));
    let mut encoded = Vec::new();
    ReplyTo::direct(FIRST).bind(1, &mut encoded);
    assert_eq!(encoded, hex("0100 0000 00000001 01"));
}

#[test]
fn stat_is_about_a_handle_when_it_names_no_path() {
    let bytes = hex("0100 0bc9 0000000000000000 00000000 00000007 00000000");
    let target = Target::Handle(FileHandle([0, 0, 0, 7]));
    assert_eq!(request(&bytes).1, Request::Stat(Stat { target, vfs: false }));
}

#[test]
fn server_flags_of_a_caching_proxy() {
    let flags = forebay_proto::ServerOptions::CACHE.flags;
    assert_eq!(flags.without(ServerFlags::SUPPORTS_PAGES), ServerFlags(0x281));
}
