//! What the protocol costs per request: parsing frames, headers of answers, checksums of pages.

use divan::{Bencher, black_box, counter::BytesCount};
use forebay_proto::{
    FileHandle, Input, Request, ResponseHeader, ServerOptions, ServerSession, SessionId, Status, StreamId,
    page::{crc32c, seal_pages},
    request::{Login, Prereads, Read, ReadElement, encode_read_vector},
    response::element_header,
};

fn main() {
    divan::main();
}

const HANDSHAKE: [u8; 20] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0x07, 0xdc];

/// A `login` of a current client, without name and opaque data.
const LOGIN: [u8; 24] =
    [0, 0, 0x0b, 0xbf, 0, 0, 0, 1, b'b', b'e', b'n', b'c', b'h', 0, 0, 0, 0, 0xdd, 0x85, 0, 0, 0, 0, 0];

const HANDLE: FileHandle = FileHandle([0; 4]);

/// Bytes that a page takes in an answer.
const ENCODED_PAGE_LEN: usize = 4 + 4096;

fn logged_in() -> ServerSession {
    let (mut session, mut out) = (ServerSession::new(ServerOptions::CACHE), Vec::new());
    session.handle_input(&HANDSHAKE, &mut out).expect("a handshake is taken");
    let login: Login<'_> = match session.handle_input(&LOGIN, &mut out) {
        Ok(Input::Request { request: Request::Login(login), .. }) => login,
        other => panic!("a login is a login, not {other:?}"),
    };
    session.accept_login(StreamId::ZERO, &login, SessionId([7; 16]), &mut out);
    session
}

fn bench_frame(bencher: Bencher<'_, '_>, frame: &[u8]) {
    let (mut session, mut out) = (logged_in(), Vec::new());
    bencher.bench_local(move || {
        let input = session.handle_input(black_box(frame), &mut out);
        assert!(matches!(input, Ok(Input::Request { .. })), "a frame is a request");
    });
}

#[divan::bench]
fn parse_read(bencher: Bencher<'_, '_>) {
    let mut frame = Vec::new();
    let read = Read { handle: HANDLE, offset: 1 << 30, len: 4096, path_id: 0, prereads: Prereads::default() };
    Request::Read(read).encode(StreamId::ZERO, &mut frame);
    bench_frame(bencher, &frame);
}

fn elements() -> Vec<ReadElement> {
    (0..64).map(|element| ReadElement { handle: HANDLE, offset: element << 20, len: 16 << 10 }).collect()
}

#[divan::bench]
fn parse_readv_of_64(bencher: Bencher<'_, '_>) {
    let mut frame = Vec::new();
    encode_read_vector(StreamId::ZERO, 0, &elements(), &mut frame);
    bench_frame(bencher, &frame);
}

#[divan::bench]
fn response_header() -> [u8; 8] {
    let header = ResponseHeader { stream_id: StreamId::ZERO, status: Status::OK, body_len: 4096 };
    black_box(header).to_bytes()
}

#[divan::bench]
fn element_headers_of_64(bencher: Bencher<'_, '_>) {
    let elements = elements();
    bencher.bench(|| elements.iter().fold(0_u8, |sum, element| sum ^ element_header(black_box(element))[7]));
}

#[divan::bench(args = [4096, 65_536, 1_048_576])]
fn checksum(bencher: Bencher<'_, '_>, len: usize) {
    let data = vec![7; len];
    bencher.counter(BytesCount::new(len)).bench(|| crc32c(black_box(&data)));
}

#[divan::bench(args = [1, 16, 256])]
fn seal_scattered_pages(bencher: Bencher<'_, '_>, pages: usize) {
    let mut encoded = vec![7; pages * ENCODED_PAGE_LEN];
    bencher.counter(BytesCount::new(pages * 4096)).bench_local(move || seal_pages(0, black_box(&mut encoded)));
}
