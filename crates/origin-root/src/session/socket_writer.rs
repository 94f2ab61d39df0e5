//! The sending half of a socket: frames are sent at once, together with the next ones, or queued while the socket is full.

use bytes::{Buf, BytesMut};
use forebay_net::Stream;
use parking_lot::Mutex;
use std::{io, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// How long frames without a waiting caller are delayed, to be sent together with others.
const LINGER: Duration = Duration::from_millis(2);

/// Sends whole frames from any task without waiting, never mixing the bytes of two.
///
/// Bytes that the socket does not take at once are queued and sent by [`SocketWriter::drain`]. The queue is bounded by the number of
/// outstanding requests of a session.
#[derive(Debug)]
pub(super) struct SocketWriter {
    queue: Mutex<Queue>,
    filled: Notify,
}

#[derive(Debug)]
struct Queue {
    /// `None` once it is closed.
    socket: Option<Arc<Stream>>,
    bytes: BytesMut,
    /// The socket has not taken all of the queue.
    is_full: bool,
    /// The queue is sent a little later.
    is_lingering: bool,
}

impl SocketWriter {
    pub(super) fn new(socket: Arc<Stream>) -> Self {
        let queue = Queue { socket: Some(socket), bytes: BytesMut::new(), is_full: false, is_lingering: false };
        Self { queue: Mutex::new(queue), filled: Notify::new() }
    }

    /// Sends or queues `frames`, one or several whole ones.
    pub(super) fn send(&self, frames: &[u8]) -> io::Result<()> {
        let mut locked = self.queue.lock();
        let Queue { socket, bytes: queue, is_full, .. } = &mut *locked;
        let socket = socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        // Frames that the socket takes at once are not copied.
        if queue.is_empty() {
            let sent_len = socket.try_send(frames)?;
            queue.extend_from_slice(frames.get(sent_len..).unwrap_or_default());
        } else {
            queue.extend_from_slice(frames);
            // The queue holds frames that linger: they are sent now, before these.
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

    /// Sends `frames`, one or several whole ones, together with the next ones or a little later.
    pub(super) fn send_soon(&self, frames: &[u8]) -> io::Result<()> {
        let mut queue = self.queue.lock();
        if queue.socket.is_none() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        queue.bytes.extend_from_slice(frames);
        if !queue.is_full && !std::mem::replace(&mut queue.is_lingering, true) {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Drops the socket, which is closed when its reader drops it too, and everything that is queued.
    pub(super) fn close(&self) {
        *self.queue.lock() = Queue { socket: None, bytes: BytesMut::new(), is_full: false, is_lingering: false };
    }

    /// Sends queued bytes until the connection breaks.
    pub(super) async fn drain(&self) -> io::Error {
        loop {
            self.filled.notified().await;
            if self.begin_linger() {
                tokio::select! {
                    () = tokio::time::sleep(LINGER) => {}
                    // More was queued meanwhile, and the socket is full: it is sent as soon as the socket takes more.
                    () = self.filled.notified() => {}
                }
            }
            self.queue.lock().is_lingering = false;
            while let Some(socket) = self.awaited_socket() {
                if let Err(error) = socket.writable().await {
                    return error;
                }
                let mut queue = self.queue.lock();
                match socket.try_send(&queue.bytes) {
                    Ok(sent_len) => queue.bytes.advance(sent_len),
                    Err(error) => return error,
                }
                queue.is_full = !queue.bytes.is_empty() || socket.has_unsent();
            }
        }
    }

    /// Whether the queue is to be sent later.
    fn begin_linger(&self) -> bool {
        let queue = self.queue.lock();
        queue.is_lingering && !queue.is_full
    }

    /// The socket, when bytes are queued for it.
    fn awaited_socket(&self) -> Option<Arc<Stream>> {
        let queue = self.queue.lock();
        queue.socket.clone().filter(|socket| !queue.bytes.is_empty() || socket.has_unsent())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::AsyncReadExt,
        net::{TcpListener, TcpStream},
    };

    async fn connected() -> (Arc<SocketWriter>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        client.writable().await.unwrap();
        (Arc::new(SocketWriter::new(Arc::new(client.into()))), listener.accept().await.unwrap().0)
    }

    fn drain(writer: &Arc<SocketWriter>) -> tokio::task::JoinHandle<io::Error> {
        let writer = Arc::clone(writer);
        tokio::spawn(async move { writer.drain().await })
    }

    #[tokio::test]
    async fn frames_queued_for_a_full_socket_arrive_whole_and_in_order() {
        let (writer, mut served) = connected().await;
        let drainer = drain(&writer);
        let frames: Vec<Vec<u8>> = (0..64_u8).map(|number| vec![number; 256 << 10]).collect();
        for frame in &frames {
            writer.send(frame).unwrap();
        }
        for frame in &frames {
            let mut received = vec![0; frame.len()];
            served.read_exact(&mut received).await.unwrap();
            assert!(received == *frame);
        }
        drainer.abort();
    }

    #[tokio::test]
    async fn delayed_frames_are_sent_with_the_next_ones_or_a_little_later() {
        let (writer, mut served) = connected().await;
        let mut received = [0; 2];
        writer.send_soon(b"a").unwrap();
        writer.send(b"b").unwrap();
        served.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"ab", "without a task that drains");
        writer.send_soon(b"c").unwrap();
        writer.send_soon(b"d").unwrap();
        let drainer = drain(&writer);
        served.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"cd");
        drainer.abort();
    }
}
