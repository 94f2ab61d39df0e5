//! One connection: its set-up, what it sends, what it receives.

use super::job::{Job, LoadFile, Turn, open};
use super::login::{Entry, log_in};
use super::reply::ReplyReader;
use super::slot::{Reply, Slot, Step};
use super::transport::Transport;
use crate::content::Content;
use anyhow::{Context as _, Result, bail, ensure};
use forebay_net::clock;
use forebay_proto::{FileHandle, StreamId};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long connecting, logging in and opening may each take.
const SET_UP_TIMEOUT: Duration = Duration::from_secs(60);

/// An operation that is complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completed {
    /// The slot that is free now.
    pub(super) slot: usize,
    /// The operation's last request.
    pub(super) step: Step,
    /// Bytes of data that came.
    pub(super) bytes: u64,
    pub(super) started: Instant,
}

/// A connection with everything it has under way.
#[derive(Debug)]
pub(super) struct Connection {
    transport: Transport,
    out: Vec<u8>,
    replies: ReplyReader,
    slots: Vec<Slot>,
    finished: Vec<(usize, Reply)>,
}

impl Connection {
    /// Connects, with room for `pipeline` requests under way for a file that holds `content`.
    pub(super) fn connect(server: SocketAddr, pipeline: u16, content: Content) -> Result<Self> {
        let now = clock::monotonic();
        let slots = (0..pipeline.max(1)).map(|_| Slot::new(content, now)).collect();
        let transport = Transport::Plain(connect(server)?);
        Ok(Self { transport, out: Vec::new(), replies: ReplyReader::new(), slots, finished: Vec::new() })
    }

    /// As [`Connection::connect`], and opens a session.
    pub(super) fn log_in(server: SocketAddr, entry: &Entry, pipeline: u16, content: Content) -> Result<Self> {
        let mut connection = Self::connect(server, pipeline, content)?;
        connection.transport = log_in(connection.transport.into_socket()?, entry)?;
        Ok(connection)
    }

    /// Opens `file` for reading and checks its size.
    pub(super) fn open(&mut self, file: &LoadFile) -> Result<FileHandle> {
        let slot = self.slots.first_mut().context("a connection has at least one slot")?;
        open(slot, StreamId::ZERO, file, &mut self.out);
        self.flush()?;
        let mut buffer = [0; 1024];
        while self.finished.is_empty() {
            ensure!(self.receive(&mut buffer)? > 0, "no answer to open of {}", file.path);
        }
        let Some((_, Reply::Opened(reply))) = self.finished.pop() else { bail!("open was not answered by a handle") };
        let stat = reply.stat.context("the server told no size on open")?;
        ensure!(stat.size == file.len, "{} has {} bytes at the server instead of {}", file.path, stat.size, file.len);
        Ok(reply.handle)
    }

    /// The socket, for polling it.
    pub(super) fn stream(&self) -> &TcpStream {
        self.transport.socket()
    }

    /// The socket of a connection in clear, when nothing is under way.
    pub(super) fn into_stream(self) -> Result<TcpStream> {
        self.transport.into_socket()
    }

    /// Begins an operation of `job` in slot `index`; it is sent with the next flush.
    pub(super) fn begin(&mut self, index: usize, job: &mut Job, now: Instant) -> Result<()> {
        let slot = self.slots.get_mut(index).context("an operation belongs to a slot")?;
        slot.started = now;
        job.begin(slot, stream_id(index), &mut self.out)
    }

    /// Reads once from the socket through `buffer` and compares what came. How many bytes did.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let len = match self.transport.read(buffer) {
            Ok(0) => bail!("the server closed the connection"),
            Ok(len) => len,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(0),
            Err(error) => return Err(error).context("the connection broke"),
        };
        let input = buffer.get(..len).unwrap_or_default();
        self.replies.handle_input(input, &mut self.slots, &mut self.finished)?;
        Ok(len)
    }

    /// Continues with the received bytes, until an operation is complete or no input is left.
    pub(super) fn next_completed(&mut self, job: &mut Job) -> Result<Option<Completed>> {
        while let Some((index, reply)) = self.finished.pop() {
            let slot = self.slots.get_mut(index).context("an answer belongs to a slot")?;
            let step = slot.step;
            if job.advance(slot, stream_id(index), reply, &mut self.out)? == Turn::Complete {
                let Slot { operation_bytes: bytes, started, .. } = *slot;
                return Ok(Some(Completed { slot: index, step, bytes, started }));
            }
        }
        Ok(None)
    }

    /// Sends the pending bytes. Bytes that the socket does not take go with a later flush: requests are under way then,
    /// so an answer will wake this connection.
    pub(super) fn flush(&mut self) -> Result<()> {
        while !self.out.is_empty() {
            match self.transport.write(&self.out) {
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

/// Connects; reads from the connection fail after [`SET_UP_TIMEOUT`].
pub(super) fn connect(server: SocketAddr) -> Result<TcpStream> {
    let socket =
        TcpStream::connect_timeout(&server, SET_UP_TIMEOUT).with_context(|| format!("cannot connect to {server}"))?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(SET_UP_TIMEOUT))?;
    Ok(socket)
}

fn stream_id(index: usize) -> StreamId {
    StreamId::from(u16::try_from(index).unwrap_or(u16::MAX))
}
