//! Whatever is encoded is decoded to the same.

use crate::frames::{frame, frames};
use forebay_proto::page::{
    FrameKind, PAGE_LEN, StatusFrame, data_len, decode_pages, encode_pages, encoded_len, page_count, pages, seal_pages,
};
use forebay_proto::request::{
    Auth, Bind, Change, Close, Dirlist, EndSession, Expect, Fattr, Locate, Login, Open, PageRead, Prepare, Protocol,
    Query, ReadElement, ReadElements, Set, Sigver, Stat, Statx, Sync, Target, Username, encode_read_vector,
};
use forebay_proto::response::{
    Checksum, DirlistDecoder, DirlistEncoder, DirlistForm, ErrorBody, Location, LocationKind, OpenReply, Redirect,
    RedirectTarget, VectorData, Wait, element_header, parse_stat,
};
use forebay_proto::{
    Abilities, DirlistOptions, ErrorCode, FileHandle, LocateOptions, OpenOptions, Params, ProtocolRequestFlags,
    QueryKind, ReplyTo, Request, RequestCode, RequestHeader, Response, SessionId, StreamId,
};
use forebay_types::{Access, ByteRange, DirEntry, Endpoint, FileKind, FileStat};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

/// Encodes `request`, decodes it, and expects it back.
fn round_trip(stream_id: StreamId, request: Request<'_>) -> Result<(), TestCaseError> {
    let mut bytes = Vec::new();
    request.encode(stream_id, &mut bytes);
    let header = RequestHeader::decode(bytes.first_chunk().unwrap()).unwrap();
    prop_assert_eq!(header.stream_id, stream_id);
    prop_assert_eq!(header.code, request.code());
    prop_assert_eq!(header.payload_len as usize, bytes.len() - 24);
    prop_assert_eq!(Request::decode(&header, &bytes[24..]), Ok(request));
    Ok(())
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![0..=i64::MAX.unsigned_abs(), 0..1_000_000u64]
}

/// Text without NUL, at least one byte.
fn argument() -> impl Strategy<Value = Vec<u8>> {
    vec(1..=255u8, 1..300)
}

proptest! {
    #[test]
    fn requests_of_set_up(
        id: [u8; 2], number: u32, bits: [u8; 4], name in "[a-z]{0,8}", session: [u8; 16], text in argument(),
    ) {
        let id = StreamId(id);
        let [a, b, c, d] = bits;
        let flags = ProtocolRequestFlags(a);
        round_trip(id, Request::Protocol(Protocol { client_version: number, flags, expect: Expect(b & 15) }))?;
        let username = Username::new(&name);
        prop_assert_eq!(username.as_bytes(), name.as_bytes());
        let login = Login { pid: number, username, ability2: a, ability: Abilities(b), capver: c, cgi: &text };
        round_trip(id, Request::Login(login))?;
        round_trip(id, Request::Auth(Auth { credential_type: bits, credentials: &text }))?;
        round_trip(id, Request::Bind(Bind { session_id: SessionId(session) }))?;
        round_trip(id, Request::EndSession(EndSession { session_id: SessionId(session) }))?;
        round_trip(id, Request::Ping)?;
        round_trip(id, Request::Set(Set { modifier: a, text: &text }))?;
        let signed = RequestCode(u16::from_be_bytes([a, b]));
        let sequence = u64::from(number) << 13;
        let sigver = Sigver { signed, version: b, flags: c, sequence, crypto: d, signature: &text };
        round_trip(id, Request::Sigver(sigver))?;
    }

    #[test]
    fn requests_on_files(id: [u8; 2], handle: [u8; 4], mode: u16, bits: u16, more: u16, text in argument()) {
        let (id, handle) = (StreamId(id), FileHandle(handle));
        let open = Open { mode, options: OpenOptions(bits), options_extended: more, path: &text };
        round_trip(id, Request::Open(open))?;
        round_trip(id, Request::Close(Close { handle }))?;
        round_trip(id, Request::Sync(Sync { handle }))?;
        round_trip(id, Request::Query(Query { kind: QueryKind(bits), handle, argument: &text }))?;
    }

    #[test]
    fn requests_on_names(id: [u8; 2], handle: [u8; 4], bits: [u8; 2], number: u16, text in argument(), vfs: bool) {
        let (id, handle) = (StreamId(id), FileHandle(handle));
        round_trip(id, Request::Stat(Stat { target: Target::Path(&text), vfs }))?;
        round_trip(id, Request::Stat(Stat { target: Target::Handle(handle), vfs: false }))?;
        round_trip(id, Request::Statx(Statx { paths: &text }))?;
        round_trip(id, Request::Dirlist(Dirlist { options: DirlistOptions(bits[0]), path: &text }))?;
        round_trip(id, Request::Locate(Locate { options: LocateOptions(number), path: &text }))?;
        let prepare =
            Prepare { options: bits[0], priority: bits[1], port: number, options_extended: !number, paths: &text };
        round_trip(id, Request::Prepare(prepare))?;
        let mut params = Params::default().with::<0, 4>(handle.0);
        round_trip(id, Request::Fattr(Fattr { params, payload: &text }))?;
        for code in [RequestCode::MKDIR, RequestCode::RM, RequestCode::RMDIR, RequestCode::CHMOD, RequestCode::TRUNCATE]
        {
            let change = Change { code, target: Target::Path(&text), params, payload: &text };
            round_trip(id, Request::Change(change))?;
        }
        for code in [RequestCode::WRITE, RequestCode::PGWRITE, RequestCode::CHKPOINT, RequestCode::CLONE] {
            let change = Change { code, target: Target::Handle(handle), params, payload: &text };
            round_trip(id, Request::Change(change))?;
        }
        let names = [&text[..], b" ", &text[..]].concat();
        params = Params::default().with::<14, 2>(u16::try_from(text.len()).unwrap().to_be_bytes());
        let change = Change { code: RequestCode::MV, target: Target::Path(&text), params, payload: &names };
        round_trip(id, Request::Change(change))?;
    }

    #[test]
    fn reads(
        id: [u8; 2], handle: [u8; 4], offset in offset(), len in 1..=i32::MAX.unsigned_abs(), path_id: u8, retry: bool,
        hints in vec(any::<[u8; 16]>(), 0..20),
    ) {
        let (id, handle) = (StreamId(id), FileHandle(handle));
        round_trip(id, Request::PageRead(PageRead { handle, offset, len, path_id, retry }))?;
        // Hints come from decoding only: no caller builds them.
        let payload = [&[path_id, 0, 0, 0, 0, 0, 0, 0][..], hints.as_flattened()].concat();
        let params =
            Params::default().with::<0, 4>(handle.0).with::<4, 8>(offset.to_be_bytes()).with::<12, 4>(len.to_be_bytes());
        let payload_len = u32::try_from(payload.len()).unwrap();
        let header = RequestHeader { stream_id: id, code: RequestCode::READ, params, payload_len };
        let request = Request::decode(&header, &payload).unwrap();
        let Request::Read(read) = request else { panic!() };
        prop_assert_eq!((read.handle, read.offset, read.len, read.path_id), (handle, offset, len, path_id));
        prop_assert_eq!(read.prereads.iter().count(), hints.len());
        round_trip(id, request)?;
    }

    #[test]
    fn vector_reads(
        id: [u8; 2], path_id: u8,
        elements in vec((any::<[u8; 4]>(), offset(), 0..=2_097_136u32), 1..=64),
    ) {
        let elements: Vec<ReadElement> = elements
            .into_iter()
            .map(|(handle, offset, len)| ReadElement { handle: FileHandle(handle), offset, len })
            .collect();
        let mut bytes = Vec::new();
        encode_read_vector(StreamId(id), path_id, &elements, &mut bytes);
        let header = RequestHeader::decode(bytes.first_chunk().unwrap()).unwrap();
        let Ok(Request::ReadVector(vector)) = Request::decode(&header, &bytes[24..]) else { panic!() };
        prop_assert_eq!(vector.path_id, path_id);
        prop_assert_eq!(vector.elements.iter().collect::<Vec<_>>(), elements.clone());
        prop_assert_eq!(vector.elements.len(), elements.len());
        prop_assert_eq!(vector.elements.data_len(), elements.iter().map(|e| u64::from(e.len)).sum::<u64>());
        prop_assert!(ReadElements::parse(&bytes[24..]).is_ok());
        round_trip(StreamId(id), Request::ReadVector(vector))?;
    }

    #[test]
    fn vector_data(elements in vec((any::<[u8; 4]>(), offset(), vec(any::<u8>(), 0..50)), 0..10)) {
        let mut body = Vec::new();
        let mut expected = Vec::new();
        for (handle, offset, data) in &elements {
            let len = u32::try_from(data.len()).unwrap();
            let element = ReadElement { handle: FileHandle(*handle), offset: *offset, len };
            body.extend_from_slice(&element_header(&element));
            body.extend_from_slice(data);
            expected.push(Ok((element, data.as_slice())));
        }
        prop_assert_eq!(VectorData::new(&body).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn stats_and_opens(stat in file_stat(), handle: [u8; 4], deferred: bool) {
        let mut out = Vec::new();
        let reply_to = ReplyTo { stream_id: StreamId([1, 2]), is_deferred: deferred };
        reply_to.stat(&stat, &mut out);
        prop_assert_eq!(parse_stat(&out[reply_to.header_len()..]), Ok(stat.clone()));
        out.clear();
        reply_to.open(FileHandle(handle), OpenOptions(0x450), &stat, &mut out);
        let expected = OpenReply { handle: FileHandle(handle), stat: Some(stat) };
        prop_assert_eq!(OpenReply::parse(&out[reply_to.header_len()..]), Ok(expected));
    }

    #[test]
    fn failures_and_waits(code: u32, text in "[!-~][ -~]{0,40}[!-~]", seconds in 1..=i32::MAX.unsigned_abs()) {
        let reply_to = ReplyTo::direct(StreamId([1, 2]));
        let mut out = Vec::new();
        reply_to.error(ErrorCode(code), &text, &mut out);
        let (header, body) = frame(&out);
        let expected = ErrorBody { code: ErrorCode(code), text: text.clone() };
        prop_assert_eq!(Response::decode(&header, &body), Ok(Response::Error(expected)));
        out.clear();
        reply_to.wait(seconds, &text, &mut out);
        let (header, body) = frame(&out);
        prop_assert_eq!(Response::decode(&header, &body), Ok(Response::Wait(Wait { seconds, text })));
        out.clear();
        reply_to.wait_response(seconds, &mut out);
        let (header, body) = frame(&out);
        let expected = Wait { seconds, text: String::new() };
        prop_assert_eq!(Response::decode(&header, &body), Ok(Response::WaitResponse(expected)));
    }

    #[test]
    fn places(host in "[a-z][a-z0-9.-]{0,30}|[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}", port in 1..=u16::MAX,
              cgi in "([a-z]=[!-%'->@-~]{0,20})?", writable: bool) {
        let reply_to = ReplyTo::direct(StreamId([1, 2]));
        let endpoint = Endpoint::new(&host, port);
        let mut out = Vec::new();
        reply_to.redirect_to_host(&endpoint, &cgi, &mut out);
        let (header, body) = frame(&out);
        let target = RedirectTarget::Host { endpoint: endpoint.clone(), cgi: cgi.clone(), token: String::new() };
        prop_assert_eq!(Response::decode(&header, &body), Ok(Response::Redirect(Redirect { target, flags: 0 })));
        out.clear();
        let question_mark = if cgi.is_empty() { "" } else { "?" };
        reply_to.redirect_to_url(&format!("roots://{endpoint}//a/b{question_mark}{cgi}"), &mut out);
        let target = RedirectTarget::Url { tls: true, endpoint: endpoint.clone(), path: "/a/b".into(), cgi };
        prop_assert_eq!(Redirect::parse(&frame(&out).1), Ok(Redirect { target, flags: 0 }));
        out.clear();
        let location = Location { kind: LocationKind::Server, is_writable: writable, endpoint };
        reply_to.locate(std::slice::from_ref(&location), &mut out);
        prop_assert_eq!(Location::parse_all(&frame(&out).1), Ok(vec![location]));
    }

    #[test]
    fn listings(entries in vec(dir_entry(), 0..200), form in 0..3usize, cut in 1..50usize) {
        let form = [DirlistForm::Names, DirlistForm::Stats, DirlistForm::Checksums][form];
        let entries: Vec<DirEntry> = entries
            .into_iter()
            .map(|entry| DirEntry {
                stat: if form == DirlistForm::Names { None } else { entry.stat },
                checksum: if form == DirlistForm::Checksums { entry.checksum } else { None },
                ..entry
            })
            .collect();
        let mut out = Vec::new();
        let mut encoder = DirlistEncoder::new(ReplyTo::direct(StreamId::ZERO), form);
        for entry in &entries {
            encoder.push(entry, &mut out);
        }
        encoder.finish(&mut out);
        let (mut decoder, mut decoded) = (DirlistDecoder::new(), Vec::new());
        for (_, body) in frames(&out) {
            for piece in body.chunks(cut) {
                decoder.handle_frame(piece, &mut decoded).unwrap();
            }
        }
        decoder.finish(&mut decoded).unwrap();
        prop_assert_eq!(decoded, entries);
    }

    #[test]
    fn status_frames(id: [u8; 2], request in 3000..3256u16, partial: bool, offset in offset(), data_len in 0..1u32 << 31) {
        let kind = if partial { FrameKind::Partial } else { FrameKind::Final };
        let frame =
            StatusFrame { stream_id: StreamId(id), request: RequestCode(request), kind, offset, data_len };
        prop_assert_eq!(StatusFrame::decode(StreamId(id), &frame.to_bytes()[8..]), Ok(frame));
    }

    #[test]
    fn page_layout(offset in 0..3 * PAGE_LEN, data in vec(any::<u8>(), 0..20_000), flip: prop::sample::Index) {
        let range = ByteRange::at(offset, data.len() as u64);
        let mut encoded = Vec::new();
        encode_pages(offset, &data, &mut encoded);
        prop_assert_eq!(encoded.len() as u64, encoded_len(range));
        prop_assert_eq!(data_len(offset, encoded.len() as u64), Some(data.len() as u64));
        prop_assert_eq!(pages(range).count() as u64, page_count(range));

        let mut gaps = encoded.clone();
        let mut at = 0;
        for page in pages(range) {
            gaps[at..at + 4].fill(0);
            at += 4 + usize::try_from(page.len()).unwrap();
        }
        seal_pages(offset, &mut gaps);
        prop_assert_eq!(&gaps, &encoded);

        let decoded: Vec<_> = decode_pages(offset, &encoded).unwrap().collect();
        prop_assert!(decoded.iter().all(|page| page.is_intact));
        prop_assert!(decoded.iter().zip(pages(range)).all(|(page, range)| page.offset == range.start()));
        prop_assert_eq!(decoded.iter().map(|page| page.data).collect::<Vec<_>>().concat(), data);
        if !encoded.is_empty() {
            let at = flip.index(encoded.len());
            encoded[at] ^= 1;
            let bad = decode_pages(offset, &encoded).unwrap().filter(|page| !page.is_intact).count();
            prop_assert_eq!(bad, 1);
        }
    }
}

fn file_stat() -> impl Strategy<Value = FileStat> {
    let kind = prop_oneof![Just(FileKind::File), Just(FileKind::Directory), Just(FileKind::Other)];
    let bits = any::<[bool; 4]>();
    let access = (any::<bool>(), 0u32..0o10000, "[a-z]{1,40}", "[a-z*]{1,9}")
        .prop_map(|(is_writable, mode, owner, group)| Arc::new(Access { is_writable, mode, owner, group }));
    (any::<u64>(), kind, any::<u64>(), any::<i64>(), bits, access).prop_map(
        |(id, kind, size, mtime, [readable, executable, offline, cached], access)| FileStat {
            id,
            kind,
            size,
            mtime,
            readable,
            executable,
            offline,
            cached,
            access: Some(access),
            validator: None,
        },
    )
}

fn dir_entry() -> impl Strategy<Value = DirEntry> {
    let name = "[^/\n\0.][^/\n\0]{0,40}";
    (name, file_stat(), proptest::option::of("[0-9a-f]{8}")).prop_map(|(name, stat, value)| DirEntry {
        name,
        stat: Some(stat),
        checksum: value.map(|value| {
            let Checksum { algorithm, value } = Checksum::new("adler32", &value);
            (algorithm, value)
        }),
    })
}
