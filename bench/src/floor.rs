//! The floor: the least that any server must do to answer a read.
//!
//! One thread receives frames that have the length of a `read`, takes offset and length from each, and answers with a
//! header and bytes of an open file, copied or by `sendfile`, or of memory. No session, no handles, no cache: what a
//! real server spends more than this is its own doing. Requests that arrive together are answered by one `send`.

use anyhow::{Context as _, Result, bail, ensure};
use forebay_proto::{REQUEST_HEADER_LEN, Request, RequestHeader, ResponseHeader, Status, StreamId};
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{SendFlags, send};
use std::fs::File;
use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// How the floor server gets bytes from the file to the socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum FloorMode {
    /// One `send` of the header and of bytes that lie in memory: the same ones each time, from the file's beginning.
    PingPong,
    /// `pread` after the header, one `send`.
    Copy,
    /// Header with `MSG_MORE`, then `sendfile`.
    Sendfile,
}

/// A `read` as the load generator sends it: header and eight bytes of arguments.
pub(crate) const FRAME_LEN: usize = REQUEST_HEADER_LEN + 8;

/// Requests received at once.
const RECEIVE_LEN: usize = 64 * FRAME_LEN;

/// Longest read that is answered.
const READ_LEN_MAX: u32 = 64 << 20;

/// Longest read that is answered from memory.
const MEMORY_LEN_MAX: u64 = 1 << 20;

/// Answers are sent when they have this length, even if more requests have arrived.
const SEND_LEN: usize = 512 << 10;

const EVENTS_MAX: usize = 64;

/// Serves `connections` connections, then ends when all of them are closed. Prints its address first.
pub(crate) fn serve(file: &Path, mode: FloorMode, connections: u16) -> Result<()> {
    let file = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot listen on loopback")?;
    println!("ready {}", listener.local_addr()?);
    std::io::stdout().flush()?;
    let mut peers = Vec::new();
    for _ in 0..connections {
        let (stream, _) = listener.accept().context("cannot accept a connection")?;
        stream.set_nodelay(true)?;
        peers.push(Some(Peer { stream, pending: Vec::new() }));
    }
    let memory = match mode {
        FloorMode::PingPong => beginning_of(&file)?,
        FloorMode::Copy | FloorMode::Sendfile => Vec::new(),
    };
    let mut answers = Answers { file, memory, mode, out: Vec::new() };
    if let [Some(peer)] = peers.as_mut_slice() {
        while peer.serve(&mut answers)? {}
        return Ok(());
    }
    serve_many(&mut peers, &mut answers)
}

fn serve_many(peers: &mut [Option<Peer>], answers: &mut Answers) -> Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (peer, index) in peers.iter().zip(0..) {
        if let Some(peer) = peer {
            epoll::add(&epoll, peer.stream.as_fd(), epoll::EventData::new_u64(index), epoll::EventFlags::IN)?;
        }
    }
    let mut events = Vec::with_capacity(EVENTS_MAX);
    let mut open = peers.len();
    while open > 0 {
        for index in wait(&epoll, &mut events)? {
            let peer = peers.get_mut(index).context("events come from our connections")?;
            if let Some(connected) = peer
                && !connected.serve(answers)?
            {
                *peer = None;
                open -= 1;
            }
        }
    }
    Ok(())
}

fn wait(epoll: &OwnedFd, events: &mut Vec<epoll::Event>) -> Result<impl Iterator<Item = usize>> {
    events.clear();
    match epoll::wait(epoll, rustix::buffer::spare_capacity(events), None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error).context("cannot wait for events"),
    }
    Ok(events.iter().filter_map(|event| usize::try_from(event.data.u64()).ok()))
}

/// A connected client. Its socket blocks: the load generator always reads what it has requested.
struct Peer {
    stream: TcpStream,
    /// The part of a frame that has arrived.
    pending: Vec<u8>,
}

impl Peer {
    /// Receives once and answers every frame that is whole. False when the client has gone.
    fn serve(&mut self, answers: &mut Answers) -> Result<bool> {
        let mut buffer = [0; RECEIVE_LEN];
        let len = match self.stream.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(false),
            Err(error) => return Err(error).context("cannot receive"),
        };
        let received = buffer.get(..len).unwrap_or_default();
        if self.pending.is_empty() {
            let (frames, rest) = received.as_chunks::<FRAME_LEN>();
            answers.answer(&self.stream, frames)?;
            self.pending.extend_from_slice(rest);
        } else {
            self.pending.extend_from_slice(received);
            let (frames, rest) = self.pending.as_chunks::<FRAME_LEN>();
            answers.answer(&self.stream, frames)?;
            self.pending = rest.to_vec();
        }
        Ok(true)
    }
}

/// The source of answers.
struct Answers {
    file: File,
    /// The beginning of the file, for answers from memory.
    memory: Vec<u8>,
    mode: FloorMode,
    out: Vec<u8>,
}

impl Answers {
    fn answer(&mut self, stream: &TcpStream, frames: &[[u8; FRAME_LEN]]) -> Result<()> {
        match self.mode {
            FloorMode::PingPong => self.send_memory(stream, frames),
            FloorMode::Copy => self.send_copies(stream, frames),
            FloorMode::Sendfile => self.send_file(stream, frames),
        }
    }

    fn send_memory(&self, mut stream: &TcpStream, frames: &[[u8; FRAME_LEN]]) -> Result<()> {
        let mut headers = Vec::with_capacity(frames.len());
        for frame in frames {
            let (stream_id, offset, len) = parse(frame)?;
            ensure!(offset == 0, "only the beginning of the file is in memory");
            let body = self.memory.get(..usize::try_from(len)?).context("the read is longer than what is in memory")?;
            headers.push((ResponseHeader { stream_id, status: Status::OK, body_len: len }.to_bytes(), body));
        }
        let parts = headers.iter().flat_map(|(header, body)| [IoSlice::new(header), IoSlice::new(body)]);
        let mut parts: Vec<IoSlice<'_>> = parts.collect();
        let mut parts = parts.as_mut_slice();
        while !parts.is_empty() {
            let sent = stream.write_vectored(parts).context("cannot send")?;
            IoSlice::advance_slices(&mut parts, sent);
        }
        Ok(())
    }

    fn send_copies(&mut self, mut stream: &TcpStream, frames: &[[u8; FRAME_LEN]]) -> Result<()> {
        let mut filled = 0;
        for frame in frames {
            let (stream_id, offset, len) = parse(frame)?;
            let header = ResponseHeader { stream_id, status: Status::OK, body_len: len }.to_bytes();
            let end = filled + header.len() + usize::try_from(len)?;
            if self.out.len() < end {
                self.out.resize(end, 0);
            }
            let answer = self.out.get_mut(filled..end).context("the buffer is long enough")?;
            let (head, body) = answer.split_at_mut(header.len());
            head.copy_from_slice(&header);
            self.file.read_exact_at(body, offset).context("cannot read the file")?;
            filled = end;
            if filled >= SEND_LEN {
                stream.write_all(self.out.get(..filled).unwrap_or_default()).context("cannot send")?;
                filled = 0;
            }
        }
        stream.write_all(self.out.get(..filled).unwrap_or_default()).context("cannot send")
    }

    fn send_file(&self, stream: &TcpStream, frames: &[[u8; FRAME_LEN]]) -> Result<()> {
        for frame in frames {
            let (stream_id, offset, len) = parse(frame)?;
            let header = ResponseHeader { stream_id, status: Status::OK, body_len: len }.to_bytes();
            ensure!(send(stream, &header, SendFlags::MORE)? == header.len(), "the header did not fit");
            send_range(stream, &self.file, offset, usize::try_from(len)?)?;
        }
        Ok(())
    }
}

/// The beginning of the file, sent as the answer from memory.
fn beginning_of(file: &File) -> Result<Vec<u8>> {
    let mut memory = Vec::new();
    file.take(MEMORY_LEN_MAX).read_to_end(&mut memory).context("cannot read the file")?;
    Ok(memory)
}

fn send_range(stream: &TcpStream, file: &File, offset: u64, len: usize) -> Result<()> {
    let (mut offset, mut left) = (offset, len);
    while left > 0 {
        match rustix::fs::sendfile(stream, file, Some(&mut offset), left).context("cannot send the file")? {
            0 => bail!("the file is shorter than the read"),
            sent => left = left.saturating_sub(sent),
        }
    }
    Ok(())
}

/// The fields of a request frame: stream id, offset and length.
pub(crate) fn parse(frame: &[u8; FRAME_LEN]) -> Result<(StreamId, u64, u32)> {
    let (header, args) = frame.split_first_chunk().context("a frame holds a header")?;
    let header = RequestHeader::decode(header)?;
    match Request::decode(&header, args)? {
        Request::Read(read) if read.len <= READ_LEN_MAX => Ok((header.stream_id, read.offset, read.len)),
        request => bail!("the floor answers reads only, not {}", request.code()),
    }
}
