//! The floor of a cold read: the least that any cache must do with what it does not have.
//!
//! One thread receives frames that have the length of a `read`, asks an origin for the same bytes as pages with checksums, and
//! does with each piece of the answer what a cache must: compare the checksums, write the bytes to a file, send them to the client.
//! Bytes are received once and never moved. No session with the client, no other reader, no record, nothing synced.

use crate::floor::{FRAME_LEN, parse};
use crate::load::{LoadFile, open_session};
use anyhow::{Context as _, Result, bail, ensure};
use forebay_proto::page::{FrameKind, PAGE_LEN, Page, STATUS_BODY_LEN, StatusFrame, data_len, decode_pages};
use forebay_proto::request::PageRead;
use forebay_proto::{FileHandle, RESPONSE_HEADER_LEN, Request, ResponseHeader, Status, StreamId};
use std::fs::File;
use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

/// Received at once, 32 pages with their checksums: small enough to stay in the processor's cache until it is sent.
const PIECE_LEN: usize = 32 * (4096 + 4);

/// Serves one client with what it asks of `path`, a file of `len` bytes at `origin`, and writes all of it to `store`. Prints its
/// address first.
pub(crate) fn serve(origin: SocketAddr, path: &str, len: u64, store: &Path) -> Result<()> {
    let store = File::create(store).with_context(|| format!("cannot create {}", store.display()))?;
    let (origin, handle) = open_session(origin, &LoadFile { path: path.to_owned(), len })?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot listen on loopback")?;
    println!("ready {}", listener.local_addr()?);
    std::io::stdout().flush()?;
    let (client, _) = listener.accept().context("cannot accept a connection")?;
    client.set_nodelay(true)?;
    let mut relay = Relay { client, origin, handle, store, received: Vec::new(), buffer: vec![0; PIECE_LEN] };
    let mut under_way = 0_usize;
    while let Some(asked) = relay.ask(under_way == 0)? {
        under_way += asked;
        if under_way > 0 {
            relay.pass_on_one()?;
            under_way -= 1;
        }
    }
    Ok(())
}

struct Relay {
    client: TcpStream,
    origin: TcpStream,
    handle: FileHandle,
    store: File,
    /// The part of a frame of the client's that has arrived.
    received: Vec<u8>,
    buffer: Vec<u8>,
}

impl Relay {
    /// Asks the origin for what the client has asked for by now, and waits for that if it `may_wait`. How many reads those are;
    /// `None` when the client has gone.
    fn ask(&mut self, may_wait: bool) -> Result<Option<usize>> {
        let mut buffer = [0; 64 * FRAME_LEN];
        self.client.set_nonblocking(!may_wait)?;
        let received = self.client.read(&mut buffer);
        self.client.set_nonblocking(false)?;
        match received {
            Ok(0) => return Ok(None),
            Ok(len) => self.received.extend(buffer.iter().take(len)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Some(0)),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error).context("cannot receive"),
        }
        let (frames, rest) = self.received.as_chunks::<FRAME_LEN>();
        let mut requests = Vec::new();
        for frame in frames {
            let (stream_id, offset, len) = parse(frame)?;
            let read = PageRead { handle: self.handle, offset, len, path_id: 0, retry: false };
            Request::PageRead(read).encode(stream_id, &mut requests);
        }
        let asked = frames.len();
        self.received = rest.to_vec();
        self.origin.write_all(&requests).context("cannot ask the origin")?;
        Ok(Some(asked))
    }

    /// Passes the next answer of the origin on, which comes in one or several frames.
    fn pass_on_one(&mut self) -> Result<()> {
        loop {
            let (stream_id, frame) = self.next_frame()?;
            let kind = frame.kind;
            self.pass_on_frame(stream_id, frame)?;
            if kind == FrameKind::Final {
                return Ok(());
            }
        }
    }

    fn next_frame(&mut self) -> Result<(StreamId, StatusFrame)> {
        let mut header = [0; RESPONSE_HEADER_LEN];
        self.origin.read_exact(&mut header).context("no answer from the origin")?;
        let header = ResponseHeader::decode(&header)?;
        ensure!(
            header.status == Status::STATUS && header.body_len == STATUS_BODY_LEN,
            "the origin does not send pages"
        );
        let mut body = [0; STATUS_BODY_LEN as usize];
        self.origin.read_exact(&mut body)?;
        Ok((header.stream_id, StatusFrame::decode(header.stream_id, &body)?))
    }

    /// Passes a frame's pages on: as a frame of its own, the last one of the answer when it is.
    fn pass_on_frame(&mut self, stream_id: StreamId, frame: StatusFrame) -> Result<()> {
        ensure!(frame.offset.is_multiple_of(PAGE_LEN), "reads begin at pages");
        let mut left = usize::try_from(frame.data_len)?;
        let body_len = data_len(frame.offset, frame.data_len.into()).context("half a page")?;
        let body_len = u32::try_from(body_len)?;
        let status = if frame.kind == FrameKind::Final { Status::OK } else { Status::OKSOFAR };
        let header = ResponseHeader { stream_id, status, body_len }.to_bytes();
        let mut head: &[u8] = &header;
        let mut offset = frame.offset;
        while left > 0 {
            let piece = self.buffer.get_mut(..left.min(PIECE_LEN)).context("a piece fits the buffer")?;
            self.origin.read_exact(piece).context("the origin's answer breaks off")?;
            left -= piece.len();
            let pages = verified(piece, offset)?;
            let data_len: usize = pages.iter().map(|page| page.len()).sum();
            write_all_at(&self.store, &pages, offset)?;
            offset += u64::try_from(data_len)?;
            send_all(&self.client, head, &pages)?;
            head = &[];
        }
        if head.is_empty() { Ok(()) } else { self.client.write_all(head).context("cannot send") }
    }
}

/// The pages of a piece, which begins at `offset`, without their checksums, which match.
fn verified<'a>(piece: &'a [u8], offset: u64) -> Result<Vec<&'a [u8]>> {
    let data = |page: Page<'a>| page.is_intact.then_some(page.data).context("a page does not match its checksum");
    decode_pages(offset, piece)?.map(data).collect()
}

fn write_all_at(file: &File, pages: &[&[u8]], offset: u64) -> Result<()> {
    let slices: Vec<IoSlice<'_>> = pages.iter().map(|page| IoSlice::new(page)).collect();
    let expected: usize = pages.iter().map(|page| page.len()).sum();
    let written = rustix::io::pwritev(file, &slices, offset).context("cannot write")?;
    if written == expected { Ok(()) } else { bail!("wrote {written} of {expected} bytes") }
}

fn send_all(mut client: &TcpStream, head: &[u8], pages: &[&[u8]]) -> Result<()> {
    let mut slices: Vec<IoSlice<'_>> = std::iter::once(&head).chain(pages).map(|part| IoSlice::new(part)).collect();
    let mut rest = slices.as_mut_slice();
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let sent = client.write_vectored(rest).context("cannot send")?;
        IoSlice::advance_slices(&mut rest, sent);
    }
    Ok(())
}
