//! Bytes that have been received and are not served yet.

use crate::base::options::INCOMPLETE_LEN_MAX;
use forebay_front::RequestReservation;
use forebay_net::{Buffer, RECEIVE_BUFFER_LEN, SMALL_BUFFER_LEN, Stream};
use std::{
    future::poll_fn,
    io,
    task::{Poll, ready},
};
use tokio::{io::ReadBuf, time::Instant};

/// Bytes that have been received and are not served yet.
#[derive(Debug, Default)]
pub(crate) struct Input {
    buffer: Buffer,
    /// Start and end of the waiting bytes in the buffer.
    start: usize,
    end: usize,
    long_request: Option<LongRequest>,
}

/// A request that does not fit into the usual buffer. It has a buffer for itself.
#[derive(Debug)]
struct LongRequest {
    _memory: RequestReservation,
    since: Instant,
}

/// Bytes that the buffer of a long request takes.
pub(crate) const LONG_BUFFER_LEN: usize = SMALL_BUFFER_LEN;

impl Input {
    #[expect(clippy::indexing_slicing, reason = "start and end are within the buffer; hot path")]
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Removes the first `len` waiting bytes. The buffer is released with the last of them.
    pub(crate) fn consume(&mut self, len: usize) {
        self.start = (self.start + len).min(self.end);
        if self.start == self.end {
            *self = Self::default();
        }
    }

    /// Removes and returns all waiting bytes.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let taken = self.waiting().to_vec();
        *self = Self::default();
        taken
    }

    /// Whether a message of `wanted_len` bytes needs memory that is not reserved yet.
    pub(crate) const fn needs_memory(&self, wanted_len: usize) -> bool {
        wanted_len > RECEIVE_BUFFER_LEN && self.long_request.is_none()
    }

    /// Has the memory used until the message is consumed.
    pub(crate) fn reserve(&mut self, memory: RequestReservation) {
        self.long_request = Some(LongRequest { _memory: memory, since: Instant::now() });
    }

    /// The time since which a long request has had its memory.
    pub(crate) fn long_since(&self) -> Option<Instant> {
        self.long_request.as_ref().map(|request| request.since)
    }

    /// Waits for bytes, and returns how many came; 0 at the end of the stream. Makes room for at least `wanted_len` waiting
    /// bytes; more than that are received only into a buffer of the usual length.
    pub(crate) async fn receive(&mut self, stream: &mut Stream, wanted_len: usize) -> io::Result<usize> {
        poll_fn(|context| {
            self.make_room(wanted_len);
            // Bytes behind a long request would keep its memory.
            let end = if self.long_request.is_some() { self.start + wanted_len } else { self.buffer.len() };
            let mut room = ReadBuf::new(self.buffer.get_mut(self.end..end).unwrap_or_default());
            let polled = stream.poll_receive(context, &mut room);
            let received_len = room.filled().len();
            self.end += received_len;
            if self.start == self.end {
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

    /// Has a short part of a request not hold a whole buffer while its rest is awaited.
    fn shrink(&mut self) {
        let waiting_len = self.end - self.start;
        if waiting_len <= INCOMPLETE_LEN_MAX && self.buffer.len() > INCOMPLETE_LEN_MAX && self.long_request.is_none() {
            self.buffer = Buffer::from(self.waiting());
            (self.start, self.end) = (0, waiting_len);
        }
    }

    /// Makes room for `wanted_len` waiting bytes, and for one more than there are.
    fn make_room(&mut self, wanted_len: usize) {
        let waiting_len = self.end - self.start;
        let needed_len = wanted_len.max(waiting_len + 1);
        if self.buffer.len() - self.start >= needed_len {
            return;
        }
        // Moving a few bytes to the front is cheaper than a larger buffer.
        if self.buffer.len() >= needed_len {
            self.buffer.copy_within(self.start..self.end, 0);
        } else {
            let mut longer = Buffer::of(needed_len.max(RECEIVE_BUFFER_LEN));
            longer.iter_mut().zip(self.waiting()).for_each(|(to, from)| *to = *from);
            self.buffer = longer;
        }
        (self.start, self.end) = (0, waiting_len);
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

    #[tokio::test]
    async fn bytes_that_are_not_consumed_stay_in_front_of_later_ones() {
        let (mut client, mut served) = pair().await;
        let mut input = Input::default();
        let waited = tokio::time::timeout(std::time::Duration::ZERO, input.receive(&mut served, 0)).await;
        assert!(waited.is_err());
        assert_eq!(input.buffer.len(), 0, "an idle connection holds no buffer");
        client.write_all(b"one two").await.unwrap();
        while input.waiting().len() < 7 {
            input.receive(&mut served, 0).await.unwrap();
        }
        input.consume(4);
        assert_eq!(input.waiting(), b"two");
        client.write_all(b" three").await.unwrap();
        while input.waiting().len() < 9 {
            input.receive(&mut served, 9).await.unwrap();
        }
        assert_eq!(input.waiting(), b"two three");
        input.consume(9);
        assert_eq!(input.buffer.len(), 0, "the buffer is released");
        drop(client);
        assert_eq!(input.receive(&mut served, 0).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_short_part_of_a_message_holds_no_whole_buffer() {
        let (mut client, mut served) = pair().await;
        let mut input = Input::default();
        client.write_all(b"one").await.unwrap();
        assert_eq!(input.receive(&mut served, 0).await.unwrap(), 3);
        let waited = tokio::time::timeout(std::time::Duration::ZERO, input.receive(&mut served, 9)).await;
        assert!(waited.is_err());
        assert_eq!((input.buffer.len(), input.waiting()), (3, &b"one"[..]));
        client.write_all(b" two three").await.unwrap();
        while input.waiting().len() < 13 {
            input.receive(&mut served, 0).await.unwrap();
        }
        assert_eq!(input.waiting(), b"one two three");
    }

    #[tokio::test]
    async fn nothing_behind_a_long_message_is_received_with_it() {
        let (mut client, mut served) = pair().await;
        let (mut input, len) = (Input::default(), 3 * RECEIVE_BUFFER_LEN);
        assert!(!input.needs_memory(RECEIVE_BUFFER_LEN) && input.needs_memory(len));
        client.write_all(&vec![7; len + 5]).await.unwrap();
        input.receive(&mut served, 24).await.unwrap();
        let memory = forebay_front::RequestPool::new(64 << 20).of_client();
        input.reserve(memory.reserve(LONG_BUFFER_LEN).await.unwrap());
        while input.waiting().len() < len {
            input.receive(&mut served, len).await.unwrap();
        }
        assert_eq!(input.waiting().len(), len);
        input.consume(len);
        assert!(input.buffer.is_empty() && input.long_since().is_none());
        assert_eq!(input.receive(&mut served, 0).await.unwrap(), 5);
    }

    #[tokio::test]
    async fn a_long_message_arrives_whole_after_the_end_of_another() {
        let (mut client, mut served) = pair().await;
        let message: Vec<u8> = (0..100_000_u32).map(|number| u8::try_from(number % 251).unwrap()).collect();
        let sent = message.clone();
        let sender = tokio::spawn(async move {
            client.write_all(&[b"before", &sent[..]].concat()).await.unwrap();
            client
        });
        let mut input = Input::default();
        while input.waiting().len() < 6 {
            input.receive(&mut served, 6).await.unwrap();
        }
        input.consume(6);
        while input.waiting().len() < message.len() {
            assert!(input.receive(&mut served, message.len()).await.unwrap() > 0);
        }
        assert!(input.waiting() == message);
        drop(sender.await.unwrap());
    }
}
