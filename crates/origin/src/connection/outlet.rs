//! The sending half of a socket: frames leave at once, or wait in line behind a full socket buffer.

use bytes::{Buf, BytesMut};
use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{net::TcpStream, sync::Notify};

/// Sends whole frames from any task without waiting, never mixing the bytes of two.
///
/// What the socket does not take at once is queued and sent by [`Outlet::drain`]. The queue is bounded by the number of
/// outstanding requests of a session.
#[derive(Debug)]
pub(crate) struct Outlet {
    socket: Arc<TcpStream>,
    queue: Mutex<BytesMut>,
    filled: Notify,
}

impl Outlet {
    pub(crate) fn new(socket: Arc<TcpStream>) -> Self {
        Self { socket, queue: Mutex::default(), filled: Notify::new() }
    }

    /// Sends or queues `frames`, one or several whole ones.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(crate) fn send(&self, frames: &[u8]) -> io::Result<()> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let sent_len = if queue.is_empty() { try_write(&self.socket, frames)? } else { 0 };
        let rest = frames.get(sent_len..).unwrap_or_default();
        if !rest.is_empty() {
            queue.extend_from_slice(rest);
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Sends what is queued, for ever.
    ///
    /// # Errors
    /// When the connection breaks; it never returns otherwise.
    pub(crate) async fn drain(&self) -> io::Error {
        loop {
            self.filled.notified().await;
            while self.is_waiting() {
                if let Err(error) = self.socket.writable().await {
                    return error;
                }
                let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
                match try_write(&self.socket, &queue) {
                    Ok(sent_len) => queue.advance(sent_len),
                    Err(error) => return error,
                }
            }
        }
    }

    fn is_waiting(&self) -> bool {
        !self.queue.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// Writes what the socket takes without waiting.
fn try_write(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match socket.try_write(bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{io::AsyncReadExt, net::TcpListener};

    #[tokio::test]
    async fn frames_behind_a_full_socket_arrive_whole_and_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut served, _) = listener.accept().await.unwrap();
        let outlet = Arc::new(Outlet::new(Arc::new(client)));
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
