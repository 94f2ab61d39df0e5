//! The encryption of one connection, in memory: socket bytes on one side, user bytes on the other.

use super::{TlsError, error::reason_of};
use bytes::{Buf, BufMut, BytesMut};
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
    received: BytesMut,
    has_ended: bool,
    unsent: BytesMut,
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
        self.wire_mut().unsent.reserve(bytes.len() + records * RECORD_OVERHEAD_MAX);
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
        Self { received: BytesMut::from(received), ..Self::default() }
    }

    pub(crate) fn room(&mut self) -> &mut BytesMut {
        self.received.reserve(RECEIVE_LEN);
        &mut self.received
    }

    /// Marks the end of received data.
    pub(crate) const fn end(&mut self) {
        self.has_ended = true;
    }

    /// Releases memory while idle.
    pub(crate) fn release(&mut self) {
        if self.received.is_empty() {
            self.received = BytesMut::new();
        }
    }

    pub(crate) fn unsent(&self) -> &[u8] {
        &self.unsent
    }

    /// Removes `len` sent bytes.
    pub(crate) fn sent(&mut self, len: usize) {
        self.unsent.advance(len);
        if self.unsent.is_empty() {
            self.unsent = BytesMut::new();
        }
    }

    fn is_at_end(&self) -> bool {
        self.has_ended && self.received.is_empty()
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.received.is_empty() && !self.has_ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = buffer.len().min(self.received.len());
        self.received.split_to(len).copy_to_slice(buffer.get_mut(..len).unwrap_or_default());
        Ok(len)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unsent.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
