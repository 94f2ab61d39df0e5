//! One connection's encryption, in memory: bytes of the socket on one side, bytes of the user on the other.

use super::{TlsError, error::reason_of};
use bytes::{Buf, BufMut, BytesMut};
use openssl::ssl::{ErrorCode, Ssl, SslRef, SslStream};
use std::io::{self, Read, Write};

/// Longest piece of the user's bytes that is encrypted by itself, as the protocol limits it.
const RECORD_LEN_MAX: usize = 16 << 10;

/// Bytes that are received from the socket at a time.
const RECEIVE_LEN: usize = 64 << 10;

/// Bytes that encryption adds to a record, at most.
const RECORD_OVERHEAD_MAX: usize = 256;

/// One connection's encryption. Performs no I/O.
///
/// Received bytes go into [`Wire::room`]; [`TlsSession::read`] takes what they hold out. [`TlsSession::write`] takes what is to
/// be sent, and [`Wire::unsent`] is what goes to the socket.
#[derive(Debug)]
pub(crate) struct TlsSession {
    ssl: SslStream<Wire>,
    /// Where a record is decrypted whose reader has no room that was filled before.
    scratch: Vec<u8>,
}

/// What has come from the socket and what is to go there.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    received: BytesMut,
    has_ended: bool,
    unsent: BytesMut,
}

/// Where the handshake is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// The peer must send more.
    WaitsForPeer,
    /// It is finished, but for what is unsent.
    Done,
}

impl TlsSession {
    /// A connection at its start.
    pub(super) fn new(ssl: Ssl, wire: Wire) -> Result<Self, TlsError> {
        Ok(Self { ssl: SslStream::new(ssl, wire)?, scratch: Vec::new() })
    }

    /// Goes on with the handshake. What is unsent must be sent in any case: it may tell the peer what is wrong.
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

    /// Fills `buffer` as far as the received bytes go; `None` when more must come first, 0 when the peer has ended the
    /// connection, be it with a farewell or without.
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

    /// As [`Self::read`], from one record at most.
    fn read_record(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let error = match self.ssl.ssl_read(buffer) {
            Ok(len) => return Ok(Some(len)),
            Err(error) => error,
        };
        match error.code() {
            ErrorCode::ZERO_RETURN => Ok(Some(0)),
            // Peers of old close the connection without a farewell. What a frame lacks shows in its length.
            _ if self.wire().is_at_end() => Ok(Some(0)),
            ErrorCode::WANT_READ => Ok(None),
            _ => Err(broken(&error)),
        }
    }

    /// Appends what one record holds, at most what there is room for, to `target`; otherwise as [`Self::read`].
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

    /// Says farewell, as far as the connection is still good for it.
    pub(crate) fn close(&mut self) {
        // The peer that does not hear it sees the connection end.
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
    /// One from which `received` has come already.
    pub(super) fn of(received: &[u8]) -> Self {
        Self { received: BytesMut::from(received), ..Self::default() }
    }

    /// Where received bytes go.
    pub(crate) fn room(&mut self) -> &mut BytesMut {
        self.received.reserve(RECEIVE_LEN);
        &mut self.received
    }

    /// Notes that nothing more comes from the socket.
    pub(crate) const fn end(&mut self) {
        self.has_ended = true;
    }

    /// Gives memory back while nothing comes.
    pub(crate) fn release(&mut self) {
        if self.received.is_empty() {
            self.received = BytesMut::new();
        }
    }

    /// What is to be sent.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.unsent
    }

    /// Notes that `len` bytes of it have been sent.
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
