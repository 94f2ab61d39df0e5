//! One connection: set-up, the requests it sends, the answers it reads.

use super::reply::ReplyReader;
use super::slot::{Reply, Slot, Step};
use super::workload::{Offsets, Operation};
use crate::content::Content;
use anyhow::{Context as _, Result, bail, ensure};
use forebay_net::clock;
use forebay_proto::request::{Close, Open, PageRead, Prereads, Read, ReadElement, Stat, Target, encode_read_vector};
use forebay_proto::{
    Abilities, ClientOptions, ClientPurpose, ClientSession, FileHandle, OpenOptions, Progress, Request, StreamId,
};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long connecting, logging in and opening may each take.
const SET_UP_TIMEOUT: Duration = Duration::from_secs(60);

/// A file of the load.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct LoadFile {
    /// Its absolute path, as the server is asked for it.
    pub(crate) path: String,
    /// Its length in bytes.
    pub(crate) len: u64,
}

/// What a connection does over and over.
#[derive(Debug)]
pub(super) enum Job {
    /// Reads one open file.
    Data { operation: Operation, handle: FileHandle, offsets: Offsets },
    /// Opens, stats and closes one file after the other.
    Names { files: Arc<[LoadFile]>, next: usize },
}

/// What a complete answer means for the operation it belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Turn {
    /// The operation is complete, with this many bytes of data.
    Complete { bytes: u64 },
    /// The next request of the same operation is under way.
    Continued,
}

/// A connection that is logged in, with everything it has under way.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    out: Vec<u8>,
    replies: ReplyReader,
    slots: Vec<Slot>,
    finished: Vec<(usize, Reply)>,
}

impl Connection {
    /// Connects, with room for `pipeline` requests under way for a file that holds `content`.
    pub(super) fn connect(server: SocketAddr, pipeline: u16, content: Content) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&server, SET_UP_TIMEOUT)
            .with_context(|| format!("cannot connect to {server}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SET_UP_TIMEOUT))?;
        let now = clock::monotonic();
        let slots = (0..pipeline.max(1)).map(|_| Slot::new(content, now)).collect();
        Ok(Self { stream, out: Vec::new(), replies: ReplyReader::new(), slots, finished: Vec::new() })
    }

    /// Opens a session.
    pub(super) fn log_in(&mut self) -> Result<()> {
        let purpose =
            ClientPurpose::Login { pid: std::process::id(), username: "bench".to_owned(), cgi: String::new() };
        let mut session = ClientSession::new(ClientOptions { purpose, ability: Abilities::default() });
        session.start(&mut self.out);
        let mut input = Vec::new();
        loop {
            self.stream.write_all(&self.out)?;
            self.out.clear();
            match session.handle_input(&input, &mut self.out)? {
                Progress::NeedMore { .. } => {
                    let mut chunk = [0; 1024];
                    let len = self.stream.read(&mut chunk).context("no answer to the login")?;
                    ensure!(len > 0, "the server closed the connection during the login");
                    input.extend(chunk.iter().take(len));
                }
                Progress::Continue { consumed } => drop(input.drain(..consumed)),
                Progress::Ready { .. } => return Ok(()),
            }
        }
    }

    /// Opens `file` for reading and checks its size.
    pub(super) fn open(&mut self, file: &LoadFile) -> Result<FileHandle> {
        let slot = self.slots.first_mut().context("a connection has at least one slot")?;
        slot.begin(Step::Open, 0, 0);
        open_request(&file.path).encode(StreamId::ZERO, &mut self.out);
        self.stream.write_all(&self.out)?;
        self.out.clear();
        let mut chunk = [0; 1024];
        while self.finished.is_empty() {
            let len = self.stream.read(&mut chunk).with_context(|| format!("no answer to open of {}", file.path))?;
            let Some(input @ [_, ..]) = chunk.get(..len) else { bail!("the server closed the connection during open") };
            self.replies.handle_input(input, &mut self.slots, &mut self.finished)?;
        }
        let Some((_, Reply::Opened(reply))) = self.finished.pop() else { bail!("open was not answered by a handle") };
        let stat = reply.stat.context("the server told no size on open")?;
        ensure!(stat.size == file.len, "{} has {} bytes at the server instead of {}", file.path, stat.size, file.len);
        Ok(reply.handle)
    }

    /// The socket, for polling it.
    pub(super) const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Begins an operation of `job` in slot `index`; it is sent with the next flush.
    pub(super) fn begin(&mut self, index: usize, job: &mut Job, now: Instant) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        slot.started = now;
        match job {
            Job::Data { operation, handle, offsets } => {
                begin_read(slot, stream_id(index), *operation, *handle, offsets, &mut self.out);
            }
            Job::Names { files, next } => {
                slot.file = *next % files.len().max(1);
                *next += 1;
                slot.begin(Step::Open, 0, 0);
                if let Some(file) = files.get(slot.file) {
                    open_request(&file.path).encode(stream_id(index), &mut self.out);
                }
            }
        }
    }

    /// Reads once from the socket through `buffer` and compares what came. Whether anything did.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Result<bool> {
        let len = match self.stream.read(buffer) {
            Ok(0) => bail!("the server closed the connection"),
            Ok(len) => len,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(false),
            Err(error) => return Err(error).context("the connection broke"),
        };
        let input = buffer.get(..len).unwrap_or_default();
        self.replies.handle_input(input, &mut self.slots, &mut self.finished)?;
        Ok(true)
    }

    /// The next slot of which an answer is complete.
    pub(super) fn take_finished(&mut self) -> Option<(usize, Reply)> {
        self.finished.pop()
    }

    /// Goes on with the operation in slot `index` after `reply`.
    pub(super) fn advance(&mut self, index: usize, reply: Reply, job: &Job) -> Result<Turn> {
        let slot = self.slots.get_mut(index).context("an answer belongs to a slot")?;
        let step = std::mem::replace(&mut slot.step, Step::Idle);
        match (reply, job) {
            (Reply::Data { len }, _) => return Ok(Turn::Complete { bytes: len }),
            (Reply::Closed, _) => return Ok(Turn::Complete { bytes: 0 }),
            (Reply::Opened(reply), Job::Names { files, .. }) => {
                let file = files.get(slot.file).context("a slot belongs to a file")?;
                slot.handle = reply.handle;
                slot.begin(Step::Stat, 0, 0);
                let target = Target::Path(file.path.as_bytes());
                Request::Stat(Stat { target, vfs: false }).encode(stream_id(index), &mut self.out);
            }
            (Reply::Stat(stat), Job::Names { files, .. }) => {
                let file = files.get(slot.file).context("a slot belongs to a file")?;
                ensure!(stat.size == file.len, "stat of {} tells {} bytes, not {}", file.path, stat.size, file.len);
                slot.begin(Step::Close, 0, 0);
                Request::Close(Close { handle: slot.handle }).encode(stream_id(index), &mut self.out);
            }
            (Reply::Opened(_) | Reply::Stat(_), Job::Data { .. }) => bail!("unexpected answer to {}", step.name()),
        }
        Ok(Turn::Continued)
    }

    /// When the operation in slot `index` began.
    pub(super) fn started(&self, index: usize) -> Option<Instant> {
        self.slots.get(index).map(|slot| slot.started)
    }

    /// Sends what there is to send. What the socket does not take goes with a later flush: requests are under way then,
    /// so an answer will wake this connection.
    pub(super) fn flush(&mut self) -> Result<()> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(len) if len == self.out.len() => self.out.clear(),
                Ok(len) => drop(self.out.drain(..len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("the connection broke while sending"),
            }
        }
        Ok(())
    }
}

fn begin_read(
    slot: &mut Slot,
    stream_id: StreamId,
    operation: Operation,
    handle: FileHandle,
    offsets: &mut Offsets,
    out: &mut Vec<u8>,
) {
    match operation {
        Operation::ReadVector { elements, .. } => {
            slot.elements.clear();
            let ranges = offsets.next_vector(elements);
            slot.elements.extend(ranges.map(|(offset, len)| ReadElement { handle, offset, len }));
            let asked_bytes = slot.elements.iter().map(|element| u64::from(element.len)).sum();
            slot.begin(Step::ReadVector, 0, asked_bytes);
            encode_read_vector(stream_id, 0, &slot.elements, out);
        }
        Operation::PageRead { .. } => {
            let (offset, len) = offsets.next_range();
            slot.begin(Step::PageRead, offset, u64::from(len));
            Request::PageRead(PageRead { handle, offset, len, path_id: 0, retry: false }).encode(stream_id, out);
        }
        Operation::Read { .. } | Operation::OpenStatClose => {
            let (offset, len) = offsets.next_range();
            slot.begin(Step::Read, offset, u64::from(len));
            let prereads = Prereads::default();
            Request::Read(Read { handle, offset, len, path_id: 0, prereads }).encode(stream_id, out);
        }
    }
}

fn open_request(path: &str) -> Request<'_> {
    let options = OpenOptions::READ.with(OpenOptions::RETURN_STAT).with(OpenOptions::ASYNC);
    Request::Open(Open { mode: 0, options, options_extended: 0, path: path.as_bytes() })
}

fn stream_id(index: usize) -> StreamId {
    StreamId::from(u16::try_from(index).unwrap_or(u16::MAX))
}
