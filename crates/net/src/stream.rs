//! A connection, optionally encrypted.

use crate::{
    send::{SendError, SendHint, send_all, send_now, send_vectored},
    tls::{TlsAcceptor, TlsConnector, TlsError, TlsFacts, TlsSession, accept, connect},
};
use bytes::BufMut;
use parking_lot::Mutex;
use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// A connection, initially unencrypted. TLS may start at any point that both sides agree on; from then on the socket carries
/// TLS records.
///
/// One task at a time receives and one at a time sends; these may be two.
#[derive(Debug)]
pub struct Stream {
    socket: TcpStream,
    tls: Option<Box<Tls>>,
}

#[derive(Debug)]
struct Tls {
    session: Mutex<TlsSession>,
    facts: TlsFacts,
}

/// Bytes encrypted before they are sent: several records per system call, few enough to stay in the processor's cache.
const ENCRYPT_LEN: usize = 64 << 10;

/// Takes of the socket without a byte for the reader before it yields: records of the protocol itself, as those that renew keys, may come
/// without end.
const ROUNDS_MAX: usize = 4;

/// Encrypted bytes that may wait to be sent while the peer is read from.
const UNSENT_LEN_MAX: usize = 1 << 20;

impl From<TcpStream> for Stream {
    fn from(socket: TcpStream) -> Self {
        Self { socket, tls: None }
    }
}

impl Stream {
    /// The socket, while the connection is unencrypted: bytes may be written to it directly.
    #[inline]
    pub const fn plain(&self) -> Option<&TcpStream> {
        if self.tls.is_none() { Some(&self.socket) } else { None }
    }

    /// Facts about the encryption; `None` while the connection is unencrypted.
    pub fn tls(&self) -> Option<&TlsFacts> {
        self.tls.as_ref().map(|tls| &tls.facts)
    }

    ///
    /// # Errors
    /// If the connection is closed.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    ///
    /// # Errors
    /// If the connection is closed.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Performs the TLS handshake with a client; `received` are its first bytes. Unbounded in time.
    ///
    /// # Errors
    /// If it fails: the connection is then unusable.
    pub async fn accept_tls(&mut self, acceptor: &TlsAcceptor, received: &[u8]) -> Result<&TlsFacts, TlsError> {
        let (session, facts) = accept(&self.socket, acceptor, received).await?;
        Ok(self.encrypt(session, facts))
    }

    /// Performs the TLS handshake with a server, which must prove that it is `host`. Unbounded in time.
    ///
    /// # Errors
    /// If it fails: the connection is then unusable.
    pub async fn connect_tls(&mut self, connector: &TlsConnector, host: &str) -> Result<&TlsFacts, TlsError> {
        let (session, facts) = connect(&self.socket, connector, host).await?;
        Ok(self.encrypt(session, facts))
    }

    fn encrypt(&mut self, session: TlsSession, facts: TlsFacts) -> &TlsFacts {
        &self.tls.insert(Box::new(Tls { session: Mutex::new(session), facts })).facts
    }

    /// Fills `room` with available bytes, once there are any; with none if the peer has closed the connection.
    #[inline]
    pub fn poll_receive(&mut self, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.tls {
            None => Pin::new(&mut self.socket).poll_read(context, room),
            Some(tls) => tls.poll_receive(&self.socket, context, room),
        }
    }

    /// Appends available bytes to `target`, within its spare capacity, without waiting; `None` if there are none, 0 if the peer has
    /// closed the connection.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn try_receive(&self, target: &mut impl BufMut) -> io::Result<Option<usize>> {
        let Some(tls) = &self.tls else { return would_block_as_none(self.socket.try_read_buf(target)) };
        let mut session = tls.session.lock();
        for round in 0..=ROUNDS_MAX {
            let read = session.append_to(target);
            answer(&self.socket, &mut session)?;
            if let Some(len) = read? {
                return Ok(Some(len));
            }
            if round == ROUNDS_MAX || !take_in(&self.socket, &mut session)? {
                break;
            }
        }
        Ok(None)
    }

    /// Waits until [`Self::try_receive`] may succeed, after it returned `None`.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Sends as many of `bytes` as possible without waiting; returns their number. Encrypted bytes may still be buffered: see
    /// [`Self::has_unsent`].
    ///
    /// # Errors
    /// If the connection fails.
    pub fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else {
            return Ok(would_block_as_none(self.socket.try_write(bytes))?.unwrap_or(0));
        };
        let mut session = tls.session.lock();
        let mut rest = bytes;
        while send_encrypted(&self.socket, &mut session)? && !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(ENCRYPT_LEN));
            session.write(piece)?;
            rest = behind;
        }
        Ok(bytes.len() - rest.len())
    }

    /// Whether bytes accepted by [`Self::try_send`] are still buffered. Sending an empty slice flushes them.
    pub fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| !tls.session.lock().wire_mut().unsent().is_empty())
    }

    /// Waits until [`Self::try_send`] may succeed.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Sends all of `bytes`. Not cancel safe, like all sending functions.
    ///
    /// # Errors
    /// [`SendError::Connection`].
    pub async fn send_all(&self, bytes: &[u8]) -> Result<(), SendError> {
        match &self.tls {
            None => send_all(&self.socket, bytes, SendHint::Last).await,
            Some(tls) => tls.send_slices(&self.socket, &[IoSlice::new(bytes)]).await.map_err(SendError::Connection),
        }
    }

    /// Sends all of `slices`, in order, in as few system calls as possible. The slices are consumed. Not cancel safe.
    ///
    /// # Errors
    /// [`SendError::Connection`].
    pub async fn send_slices(&self, slices: &mut [IoSlice<'_>]) -> Result<(), SendError> {
        match &self.tls {
            None => send_vectored(&self.socket, slices).await,
            Some(tls) => tls.send_slices(&self.socket, slices).await.map_err(SendError::Connection),
        }
    }
}

impl Drop for Stream {
    /// Sends the closing message of TLS, without waiting.
    fn drop(&mut self) {
        if let Some(tls) = &mut self.tls {
            let session = tls.session.get_mut();
            session.close();
            let _ = send_encrypted(&self.socket, session);
        }
    }
}

impl Tls {
    fn poll_receive(
        &mut self,
        socket: &TcpStream,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let session = self.session.get_mut();
        if room.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        for _ in 0..ROUNDS_MAX {
            let read = session.read(room.initialize_unfilled());
            answer(socket, session)?;
            if let Some(len) = read? {
                room.advance(len);
                return Poll::Ready(Ok(()));
            }
            if !take_in(socket, session)? {
                ready!(socket.poll_read_ready(context))?;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Encrypts a piece of `bytes`. It is sent together with those after it, or by a flush: the libraries write each frame in several
    /// pieces.
    fn poll_write(&mut self, socket: &TcpStream, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let session = self.session.get_mut();
        while session.wire_mut().unsent().len() >= ENCRYPT_LEN {
            if !send_encrypted(socket, session)? {
                ready!(socket.poll_write_ready(context))?;
            }
        }
        let (piece, _) = bytes.split_at(bytes.len().min(ENCRYPT_LEN));
        session.write(piece)?;
        Poll::Ready(Ok(piece.len()))
    }

    async fn send_slices(&self, socket: &TcpStream, slices: &[IoSlice<'_>]) -> io::Result<()> {
        for slice in slices {
            for piece in slice.chunks(ENCRYPT_LEN) {
                let held_len = {
                    let mut session = self.session.lock();
                    session.write(piece)?;
                    session.wire_mut().unsent().len()
                };
                if held_len >= ENCRYPT_LEN {
                    self.send_held(socket).await?;
                }
            }
        }
        self.send_held(socket).await
    }

    /// Sends the encrypted bytes.
    async fn send_held(&self, socket: &TcpStream) -> io::Result<()> {
        while !send_encrypted(socket, &mut self.session.lock())? {
            socket.writable().await?;
        }
        Ok(())
    }
}

/// Receives the available bytes of the socket; returns whether there were any.
fn take_in(socket: &TcpStream, session: &mut TlsSession) -> io::Result<bool> {
    match would_block_as_none(socket.try_read(session.wire_mut().room()))? {
        Some(0) => session.wire_mut().end(),
        Some(len) => session.wire_mut().received(len),
        None => {
            session.wire_mut().release();
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sends records caused by reading, without waiting; the rest is sent with the next data.
fn answer(socket: &TcpStream, session: &mut TlsSession) -> io::Result<()> {
    if session.wire_mut().unsent().is_empty() {
        return Ok(());
    }
    send_encrypted(socket, session)?;
    if session.wire_mut().unsent().len() > UNSENT_LEN_MAX {
        return Err(io::Error::other("TLS: the peer sends records to be answered, and takes no answer"));
    }
    Ok(())
}

/// Sends encrypted bytes without waiting; returns whether all were sent.
fn send_encrypted(socket: &TcpStream, session: &mut TlsSession) -> io::Result<bool> {
    let unsent = session.wire_mut().unsent();
    if unsent.is_empty() {
        return Ok(true);
    }
    let rest_len = match send_now(socket, unsent, SendHint::Last) {
        Ok(rest) => rest.len(),
        Err(SendError::Connection(error)) => return Err(error),
        Err(error) => return Err(io::Error::other(error)),
    };
    let sent_len = unsent.len() - rest_len;
    session.wire_mut().sent(sent_len);
    Ok(rest_len == 0)
}

fn would_block_as_none<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        done => done.map(Some),
    }
}

// For protocols implemented by other libraries.

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_receive(context, room)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { socket, tls } = self.get_mut();
        match tls {
            None => Pin::new(socket).poll_write(context, bytes),
            Some(tls) => tls.poll_write(socket, context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.has_unsent() {
            self.try_send(&[])?;
            if !self.has_unsent() {
                break;
            }
            ready!(self.socket.poll_write_ready(context))?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = &mut self.tls {
            // Without it the peer cannot distinguish the end from a connection that was cut (RFC 8446, 6.1).
            tls.session.get_mut().close();
        }
        ready!(self.as_mut().poll_flush(context))?;
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
