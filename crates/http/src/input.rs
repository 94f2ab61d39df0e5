//! Bytes that have been received and are not consumed yet.

use forebay_net::{Buffer, RECEIVE_BUFFER_LEN, Stream};
use std::{
    future::poll_fn,
    io,
    task::{Poll, ready},
};
use tokio::io::ReadBuf;

/// Bytes that have been received and are not consumed yet. There is a buffer only while there are any.
#[derive(Debug, Default)]
pub(crate) struct Input {
    buffer: Buffer,
    /// Start and end of the waiting bytes in the buffer.
    start: usize,
    end: usize,
}

/// Free bytes that a buffer must have to be received into.
const ROOM_LEN_MIN: usize = 4 << 10;

impl Input {
    #[expect(clippy::indexing_slicing, reason = "start and end are within the buffer; hot path")]
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Removes the first `len` waiting bytes. The buffer is given back with the last of them.
    pub(crate) fn consume(&mut self, len: usize) {
        self.start = (self.start + len).min(self.end);
        if self.is_empty() {
            *self = Self::default();
        }
    }

    /// Waits for bytes and appends them. Returns their number; 0 at the end of the stream.
    pub(crate) async fn receive(&mut self, stream: &mut Stream) -> io::Result<usize> {
        poll_fn(|context| {
            self.make_room();
            let mut room = ReadBuf::new(self.buffer.get_mut(self.end..).unwrap_or_default());
            let polled = stream.poll_receive(context, &mut room);
            let received_len = room.filled().len();
            self.end += received_len;
            if self.is_empty() {
                // An idle connection holds no buffer.
                *self = Self::default();
            } else if polled.is_pending() {
                self.shrink();
            }
            ready!(polled)?;
            Poll::Ready(Ok(received_len))
        })
        .await
    }

    fn make_room(&mut self) {
        if self.buffer.len() - self.end >= ROOM_LEN_MIN {
            return;
        }
        let waiting_len = self.end - self.start;
        let mut longer = Buffer::of((waiting_len + ROOM_LEN_MIN).max(RECEIVE_BUFFER_LEN));
        if let Some(start) = longer.get_mut(..waiting_len) {
            start.copy_from_slice(self.waiting());
        }
        *self = Self { buffer: longer, start: 0, end: waiting_len };
    }

    /// Has a part of a request not hold a whole buffer while its rest is awaited.
    fn shrink(&mut self) {
        let waiting_len = self.end - self.start;
        if self.buffer.len() > waiting_len {
            *self = Self { buffer: Buffer::from(self.waiting()), start: 0, end: waiting_len };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{io::AsyncWriteExt, net::TcpStream};

    async fn pair() -> (TcpStream, Stream) {
        let mut listener = forebay_net::Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = TcpStream::connect(listener.address()).await.unwrap();
        (client, listener.accept().await.0.into())
    }

    /// Whether nothing could be received now.
    async fn is_pending(input: &mut Input, served: &mut Stream) -> bool {
        tokio::select! {
            biased;
            received = input.receive(served) => panic!("{received:?}"),
            () = std::future::ready(()) => true,
        }
    }

    #[tokio::test]
    async fn no_more_memory_is_held_than_there_are_bytes() {
        let (mut client, mut served) = pair().await;
        let mut input = Input::default();
        assert!(is_pending(&mut input, &mut served).await && input.buffer.is_empty());
        client.write_all(b"one two").await.unwrap();
        assert_eq!(input.receive(&mut served).await.unwrap(), 7);
        input.consume(4);
        assert!(is_pending(&mut input, &mut served).await);
        assert_eq!((input.buffer.len(), input.waiting()), (3, &b"two"[..]));
        input.consume(3);
        assert!(input.is_empty() && input.buffer.is_empty());
        drop(client);
        assert_eq!(input.receive(&mut served).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_long_request_arrives_whole() {
        let (mut client, mut served) = pair().await;
        let message: Vec<u8> = (0..100_000_u32).map(|number| u8::try_from(number % 251).unwrap()).collect();
        let sent = message.clone();
        let sender = tokio::spawn(async move {
            client.write_all(&[b"before", &sent[..]].concat()).await.unwrap();
            client
        });
        let mut input = Input::default();
        input.receive(&mut served).await.unwrap();
        input.consume(6);
        while input.waiting().len() < message.len() {
            assert!(input.receive(&mut served).await.unwrap() > 0);
        }
        assert!(input.waiting() == message);
        drop(sender.await.unwrap());
    }
}
