//! The sending half of a socket: frames leave at once, or wait in line behind a full socket buffer.

use bytes::{Buf, BytesMut};
use forebay_net::Stream;
use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// Sends whole frames from any task without waiting, never mixing the bytes of two.
///
/// What the socket does not take at once is queued and sent by [`Outlet::drain`]. The queue is bounded by the number of
/// outstanding requests of a session.
#[derive(Debug)]
pub(crate) struct Outlet {
    state: Mutex<State>,
    filled: Notify,
}

#[derive(Debug)]
struct State {
    /// `None` once it is closed.
    socket: Option<Arc<Stream>>,
    queue: BytesMut,
}

impl Outlet {
    pub(crate) fn new(socket: Arc<Stream>) -> Self {
        let state = State { socket: Some(socket), queue: BytesMut::new() };
        Self { state: Mutex::new(state), filled: Notify::new() }
    }

    /// Sends or queues `frames`, one or several whole ones.
    ///
    /// # Errors
    /// When the connection is broken or closed.
    pub(crate) fn send(&self, frames: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        let State { socket, queue } = &mut *state;
        let socket = socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let sent_len = if queue.is_empty() { socket.try_send(frames)? } else { 0 };
        let rest = frames.get(sent_len..).unwrap_or_default();
        if !rest.is_empty() || socket.has_unsent() {
            queue.extend_from_slice(rest);
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Lets go of the socket: it is closed as soon as nobody else holds it. What is queued is dropped.
    pub(crate) fn close(&self) {
        *self.lock() = State { socket: None, queue: BytesMut::new() };
    }

    /// Sends what is queued, for ever.
    ///
    /// # Errors
    /// When the connection breaks; it never returns otherwise.
    pub(crate) async fn drain(&self) -> io::Error {
        loop {
            self.filled.notified().await;
            while let Some(socket) = self.awaited_socket() {
                if let Err(error) = socket.writable().await {
                    return error;
                }
                let mut state = self.lock();
                match socket.try_send(&state.queue) {
                    Ok(sent_len) => state.queue.advance(sent_len),
                    Err(error) => return error,
                }
            }
        }
    }

    /// The socket, when something is queued for it.
    fn awaited_socket(&self) -> Option<Arc<Stream>> {
        let state = self.lock();
        state.socket.clone().filter(|socket| !state.queue.is_empty() || socket.has_unsent())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::AsyncReadExt,
        net::{TcpListener, TcpStream},
    };

    #[tokio::test]
    async fn frames_behind_a_full_socket_arrive_whole_and_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut served, _) = listener.accept().await.unwrap();
        let outlet = Arc::new(Outlet::new(Arc::new(client.into())));
        let drainer = tokio::spawn({
            let outlet = Arc::clone(&outlet);
            async move { outlet.drain().await }
        });
        let frames: Vec<Vec<u8>> = (0..64_u8).map(|number| vec![number; 256 << 10]).collect();
        for frame in &frames {
            outlet.send(frame).unwrap();
        }
        for frame in &frames {
            let mut received = vec![0; frame.len()];
            served.read_exact(&mut received).await.unwrap();
            assert!(received == *frame);
        }
        drainer.abort();
    }
}
