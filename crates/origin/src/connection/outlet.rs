//! The sending half of a socket: frames leave at once, with the next ones, or wait in line behind a full socket buffer.

use bytes::{Buf, BytesMut};
use forebay_net::Stream;
use parking_lot::{Mutex, MutexGuard};
use std::{io, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// How long frames that nobody waits for are kept back for others to go along with.
const LINGER: Duration = Duration::from_millis(2);

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
    /// The socket has not taken all of the queue.
    is_full: bool,
    /// What is queued is going to be sent a little later.
    is_lingering: bool,
}

impl Outlet {
    pub(crate) fn new(socket: Arc<Stream>) -> Self {
        let state = State { socket: Some(socket), queue: BytesMut::new(), is_full: false, is_lingering: false };
        Self { state: Mutex::new(state), filled: Notify::new() }
    }

    /// Sends or queues `frames`, one or several whole ones.
    ///
    /// # Errors
    /// When the connection is broken or closed.
    pub(crate) fn send(&self, frames: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        let State { socket, queue, is_full, .. } = &mut *state;
        let socket = socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        if queue.is_empty() {
            let sent_len = socket.try_send(frames)?;
            queue.extend_from_slice(frames.get(sent_len..).unwrap_or_default());
        } else {
            queue.extend_from_slice(frames);
            if !*is_full {
                let sent_len = socket.try_send(queue)?;
                queue.advance(sent_len);
            }
        }
        if (!queue.is_empty() || socket.has_unsent()) && !std::mem::replace(is_full, true) {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Sends `frames`, one or several whole ones that nobody waits for, together with the next ones, or a little later.
    ///
    /// # Errors
    /// When the connection is closed.
    pub(crate) fn send_soon(&self, frames: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        if state.socket.is_none() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        state.queue.extend_from_slice(frames);
        if !state.is_full && !std::mem::replace(&mut state.is_lingering, true) {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Lets go of the socket: it is closed as soon as nobody else holds it. What is queued is dropped.
    pub(crate) fn close(&self) {
        *self.lock() = State { socket: None, queue: BytesMut::new(), is_full: false, is_lingering: false };
    }

    /// Sends what is queued, for ever.
    ///
    /// # Errors
    /// When the connection breaks; it never returns otherwise.
    pub(crate) async fn drain(&self) -> io::Error {
        loop {
            self.filled.notified().await;
            if self.begin_linger() {
                tokio::select! {
                    () = tokio::time::sleep(LINGER) => {}
                    // The socket is full: what is queued is sent as soon as it takes more.
                    () = self.filled.notified() => {}
                }
            }
            self.lock().is_lingering = false;
            while let Some(socket) = self.awaited_socket() {
                if let Err(error) = socket.writable().await {
                    return error;
                }
                let mut state = self.lock();
                match socket.try_send(&state.queue) {
                    Ok(sent_len) => state.queue.advance(sent_len),
                    Err(error) => return error,
                }
                state.is_full = !state.queue.is_empty() || socket.has_unsent();
            }
        }
    }

    /// Whether what is queued is to be sent later.
    fn begin_linger(&self) -> bool {
        let state = self.lock();
        state.is_lingering && !state.is_full
    }

    /// The socket, when something is queued for it.
    fn awaited_socket(&self) -> Option<Arc<Stream>> {
        let state = self.lock();
        state.socket.clone().filter(|socket| !state.queue.is_empty() || socket.has_unsent())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
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

    #[tokio::test]
    async fn what_nobody_waits_for_goes_along_with_the_next_frames_or_a_little_later() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut served, _) = listener.accept().await.unwrap();
        client.writable().await.unwrap();
        let outlet = Arc::new(Outlet::new(Arc::new(client.into())));
        let mut received = [0; 2];
        outlet.send_soon(b"a").unwrap();
        outlet.send(b"b").unwrap();
        served.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"ab", "without a task that drains");
        outlet.send_soon(b"c").unwrap();
        outlet.send_soon(b"d").unwrap();
        let drainer = tokio::spawn({
            let outlet = Arc::clone(&outlet);
            async move { outlet.drain().await }
        });
        served.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"cd");
        drainer.abort();
    }
}
