//! The encryption of one connection, in memory: socket bytes on one side, user bytes on the other.

use super::{TlsError, error::reason_of};
use crate::buffers::Buffer;
use bytes::BufMut;
use openssl::ssl::{ErrorCode, Ssl, SslRef, SslStream};
use std::io::{self, Read, Write};

/// Longest plaintext of a record, by the protocol.
const RECORD_LEN_MAX: usize = 16 << 10;

/// Bytes received from the socket at a time.
const RECEIVE_LEN: usize = 64 << 10;

/// Most bytes that encryption adds to a record.
const RECORD_OVERHEAD_MAX: usize = 256;

/// The encryption of one connection. Performs no I/O.
///
/// Put received bytes into [`Wire::room`]; [`TlsSession::read`] returns their content. [`TlsSession::write`] encrypts, and
/// [`Wire::unsent`] are the bytes for the socket.
#[derive(Debug)]
pub(crate) struct TlsSession {
    ssl: SslStream<Wire>,
    /// Buffer for a record whose reader has no initialized space.
    scratch: Vec<u8>,
}

/// Bytes from and to the socket.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    received: Queue,
    has_ended: bool,
    unsent: Queue,
}

/// Bytes in order. There is a buffer only while there are any.
#[derive(Debug, Default)]
struct Queue {
    buffer: Buffer,
    start: usize,
    end: usize,
}

/// State of the handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Step {
    WaitsForPeer,
    /// Complete, except for unsent bytes.
    Done,
}

impl TlsSession {
    pub(super) fn new(ssl: Ssl, wire: Wire) -> Result<Self, TlsError> {
        Ok(Self { ssl: SslStream::new(ssl, wire)?, scratch: Vec::new() })
    }

    /// Continues the handshake. Unsent bytes must be sent even after an error: they may contain an alert for the peer.
    pub(super) fn step(&mut self) -> Result<Step, TlsError> {
        let Err(error) = self.ssl.do_handshake() else { return Ok(Step::Done) };
        match error.code() {
            ErrorCode::WANT_READ if !self.wire().has_ended => Ok(Step::WaitsForPeer),
            _ if self.wire().is_at_end() => Err(TlsError::Connection(io::ErrorKind::UnexpectedEof.into())),
            _ => {
                let reason = error.ssl_error().map_or_else(|| error.to_string(), reason_of);
                Err(TlsError::Handshake { reason })
            }
        }
    }

    /// OpenSSL's view of the connection.
    pub(super) fn ssl(&self) -> &SslRef {
        self.ssl.ssl()
    }

    /// Fills `buffer` from the received bytes; `None` if more are needed, 0 if the peer has closed the connection, with or without
    /// a closing message.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut filled_len = 0;
        while let Some(room) = buffer.get_mut(filled_len..).filter(|room| !room.is_empty()) {
            match self.read_record(room)? {
                Some(0) if filled_len == 0 => return Ok(Some(0)),
                Some(0) | None => break,
                Some(len) => filled_len += len,
            }
        }
        Ok((filled_len > 0).then_some(filled_len))
    }

    /// Like [`Self::read`], from at most one record.
    fn read_record(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let error = match self.ssl.ssl_read(buffer) {
            Ok(len) => return Ok(Some(len)),
            Err(error) => error,
        };
        match error.code() {
            ErrorCode::ZERO_RETURN => Ok(Some(0)),
            // Old peers close the connection without a closing message. Truncated frames are detected by their length.
            _ if self.wire().is_at_end() => Ok(Some(0)),
            ErrorCode::WANT_READ => Ok(None),
            _ => Err(broken(&error)),
        }
    }

    /// Appends the content of one record to `target`, within its spare capacity; otherwise like [`Self::read`].
    pub(crate) fn append_to(&mut self, target: &mut impl BufMut) -> io::Result<Option<usize>> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(RECORD_LEN_MAX, 0);
        let room = scratch.get_mut(..target.remaining_mut().min(RECORD_LEN_MAX)).unwrap_or_default();
        let read = self.read_record(room);
        if let Ok(Some(len)) = read {
            target.put_slice(room.get(..len).unwrap_or_default());
        }
        self.scratch = scratch;
        read
    }

    /// Encrypts all of `bytes`.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let records = bytes.len() / RECORD_LEN_MAX + 1;
        self.wire_mut().unsent.room(bytes.len() + records * RECORD_OVERHEAD_MAX);
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = self.ssl.ssl_write(rest).map_err(|error| broken(&error))?;
            rest = rest.get(len..).unwrap_or_default();
        }
        Ok(())
    }

    /// Queues the closing message, if the connection still works.
    pub(crate) fn close(&mut self) {
        // Without the message the peer sees the end of the connection.
        let _ = self.ssl.shutdown();
    }

    fn wire(&self) -> &Wire {
        self.ssl.get_ref()
    }

    /// The side of the socket.
    pub(crate) fn wire_mut(&mut self) -> &mut Wire {
        self.ssl.get_mut()
    }
}

fn broken(error: &openssl::ssl::Error) -> io::Error {
    let reason = error.ssl_error().map_or_else(|| error.to_string(), reason_of);
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {reason}"))
}

impl Wire {
    pub(super) fn of(received: &[u8]) -> Self {
        let mut wire = Self::default();
        wire.received.append(received);
        wire
    }

    /// Free bytes to be received into; [`Wire::received`] follows.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.received.room(RECEIVE_LEN)
    }

    /// Appends the first `len` bytes of the room.
    pub(crate) const fn received(&mut self, len: usize) {
        self.received.end += len;
    }

    /// Marks the end of received data.
    pub(crate) const fn end(&mut self) {
        self.has_ended = true;
    }

    /// Gives the buffer of the room back while there is nothing in it.
    pub(crate) fn release(&mut self) {
        self.received.take(0);
    }

    pub(crate) fn unsent(&self) -> &[u8] {
        self.unsent.bytes()
    }

    /// Removes `len` sent bytes.
    pub(crate) fn sent(&mut self, len: usize) {
        self.unsent.take(len);
    }

    fn is_at_end(&self) -> bool {
        self.has_ended && self.received.bytes().is_empty()
    }
}

impl Queue {
    #[expect(clippy::indexing_slicing, reason = "start and end are within the buffer; hot path")]
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// At least `len` free bytes after those of the queue.
    #[expect(clippy::indexing_slicing, reason = "the buffer has just been made long enough")]
    fn room(&mut self, len: usize) -> &mut [u8] {
        if self.buffer.len() - self.end < len {
            self.grow(len);
        }
        &mut self.buffer[self.end..]
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        let filled_len = self.end - self.start;
        let mut grown = Buffer::of(filled_len + len);
        if let Some(start) = grown.get_mut(..filled_len) {
            start.copy_from_slice(self.bytes());
        }
        *self = Self { buffer: grown, start: 0, end: filled_len };
    }

    fn append(&mut self, bytes: &[u8]) {
        if let Some(room) = self.room(bytes.len()).get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
            self.end += bytes.len();
        }
    }

    /// Removes the first `len` bytes. The buffer is given back with the last of them.
    fn take(&mut self, len: usize) {
        self.start = (self.start + len).min(self.end);
        if self.start == self.end {
            *self = Self::default();
        }
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let received = self.received.bytes();
        if received.is_empty() && !self.has_ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = buffer.len().min(received.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..len), received.get(..len)) {
            to.copy_from_slice(from);
        }
        self.received.take(len);
        Ok(len)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unsent.append(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
