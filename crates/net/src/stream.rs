//! A connection that may be encrypted.

mod async_io;

use crate::{
    send::{SendError, SendHint, send_all, send_now, send_vectored},
    tls::{TlsAcceptor, TlsConnector, TlsError, TlsFacts, TlsSession, accept, connect},
};
use bytes::BufMut;
use parking_lot::{Mutex, MutexGuard};
use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::TcpStream,
};

/// A connection, in clear at first. TLS may start on it at any point that both sides agree on; from there on the same socket
/// carries records.
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

/// Bytes that are encrypted before they are sent: several records for one system call, few enough to stay in the processor's
/// cache.
const ENCRYPT_LEN: usize = 64 << 10;

impl From<TcpStream> for Stream {
    fn from(socket: TcpStream) -> Self {
        Self { socket, tls: None }
    }
}

impl Stream {
    /// The socket, while the connection is in clear: bytes may go to it directly.
    #[inline]
    #[must_use]
    pub const fn plain(&self) -> Option<&TcpStream> {
        if self.tls.is_none() { Some(&self.socket) } else { None }
    }

    /// What is known of the encryption; `None` while the connection is in clear.
    #[must_use]
    pub fn tls(&self) -> Option<&TlsFacts> {
        self.tls.as_ref().map(|tls| &tls.facts)
    }

    /// The address at the other end.
    ///
    /// # Errors
    /// When the connection is no more.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    /// The address at this end.
    ///
    /// # Errors
    /// When the connection is no more.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Goes through the TLS handshake with a client, of which `received` has come already. Unbounded in time.
    ///
    /// # Errors
    /// When it fails: the connection cannot be used any more.
    pub async fn accept_tls(&mut self, acceptor: &TlsAcceptor, received: &[u8]) -> Result<&TlsFacts, TlsError> {
        let (session, facts) = accept(&self.socket, acceptor, received).await?;
        Ok(self.encrypt(session, facts))
    }

    /// Goes through the TLS handshake with a server, which must prove that it is `host`. Unbounded in time.
    ///
    /// # Errors
    /// When it fails: the connection cannot be used any more.
    pub async fn connect_tls(&mut self, connector: &TlsConnector, host: &str) -> Result<&TlsFacts, TlsError> {
        let (session, facts) = connect(&self.socket, connector, host).await?;
        Ok(self.encrypt(session, facts))
    }

    fn encrypt(&mut self, session: TlsSession, facts: TlsFacts) -> &TlsFacts {
        &self.tls.insert(Box::new(Tls { session: Mutex::new(session), facts })).facts
    }

    /// Fills `room` with what is there, once there is something; with nothing when the peer has ended the connection.
    #[inline]
    pub fn poll_receive(&mut self, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.tls {
            None => Pin::new(&mut self.socket).poll_read(context, room),
            Some(tls) => tls.poll_receive(&self.socket, context, room),
        }
    }

    /// Appends to `target` what can be had without waiting, at most what it has room for; `None` when that is nothing, 0 when
    /// the peer has ended the connection.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn try_receive(&self, target: &mut impl BufMut) -> io::Result<Option<usize>> {
        let Some(tls) = &self.tls else { return would_block_as_none(self.socket.try_read_buf(target)) };
        let mut session = tls.session();
        loop {
            let read = session.append_to(target);
            answer(&self.socket, &mut session)?;
            if let Some(len) = read? {
                return Ok(Some(len));
            }
            if !take_in(&self.socket, &mut session)? {
                return Ok(None);
            }
        }
    }

    /// Waits until [`Self::try_receive`] is worth trying, after it has found nothing.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Takes of `bytes` what can be sent without waiting; returns how much that is. Of encrypted bytes some may still be
    /// held back: see [`Self::has_unsent`].
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else {
            return Ok(would_block_as_none(self.socket.try_write(bytes))?.unwrap_or(0));
        };
        let mut session = tls.session();
        let mut rest = bytes;
        while send_encrypted(&self.socket, &mut session)? && !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(ENCRYPT_LEN));
            session.write(piece)?;
            rest = behind;
        }
        Ok(bytes.len() - rest.len())
    }

    /// Whether bytes that [`Self::try_send`] has taken wait for room in the socket. Trying to send nothing sends them.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| !tls.session().wire_mut().unsent().is_empty())
    }

    /// Waits until [`Self::try_send`] is worth trying.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Sends all of `bytes`. Not cancel safe, like all that sends.
    ///
    /// # Errors
    /// [`SendError::Connection`].
    pub async fn send_all(&self, bytes: &[u8]) -> Result<(), SendError> {
        match &self.tls {
            None => send_all(&self.socket, bytes).await,
            Some(tls) => tls.send_slices(&self.socket, &[IoSlice::new(bytes)]).await.map_err(SendError::Connection),
        }
    }

    /// Sends all of `slices`, in order, in as few system calls as there can be. The slices are used up. Not cancel safe.
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
    /// Says farewell to the peer as far as that goes without waiting.
    fn drop(&mut self) {
        if let Some(tls) = &mut self.tls {
            let session = tls.session.get_mut();
            session.close();
            let _ = send_encrypted(&self.socket, session);
        }
    }
}

impl Tls {
    fn session(&self) -> MutexGuard<'_, TlsSession> {
        self.session.lock()
    }

    fn poll_receive(
        &mut self,
        socket: &TcpStream,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let session = self.session.get_mut();
        while room.remaining() > 0 {
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
        Poll::Ready(Ok(()))
    }

    async fn send_slices(&self, socket: &TcpStream, slices: &[IoSlice<'_>]) -> io::Result<()> {
        for slice in slices {
            for piece in slice.chunks(ENCRYPT_LEN) {
                let held_len = {
                    let mut session = self.session();
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

    /// Sends what is encrypted.
    async fn send_held(&self, socket: &TcpStream) -> io::Result<()> {
        while !send_encrypted(socket, &mut self.session())? {
            socket.writable().await?;
        }
        Ok(())
    }
}

/// Takes in what the socket has; tells whether that is anything.
fn take_in(socket: &TcpStream, session: &mut TlsSession) -> io::Result<bool> {
    match would_block_as_none(socket.try_read_buf(session.wire_mut().room()))? {
        Some(0) => session.wire_mut().end(),
        Some(_) => {}
        None => {
            session.wire_mut().release();
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sends what reading has made necessary, as far as that goes without waiting; the rest leaves with what is sent next.
fn answer(socket: &TcpStream, session: &mut TlsSession) -> io::Result<()> {
    if session.wire_mut().unsent().is_empty() { Ok(()) } else { send_encrypted(socket, session).map(drop) }
}

/// Sends what is encrypted as far as that goes without waiting; tells whether that is all.
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
