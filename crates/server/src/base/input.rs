//! Bytes that have been received and are not served yet.

use crate::base::buffers::{Buffer, RECEIVE_BUFFER_LEN};
use forebay_net::Stream;
use std::{
    future::poll_fn,
    io,
    task::{Poll, ready},
};
use tokio::io::ReadBuf;

/// Bytes that have been received and are not served yet.
#[derive(Debug, Default)]
pub(crate) struct Input {
    buffer: Buffer,
    /// Start and end of the waiting bytes in the buffer.
    start: usize,
    end: usize,
}

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

    /// Waits for bytes, and returns how many came; 0 at the end of the stream. Makes room for at least `wanted_len` waiting
    /// bytes.
    pub(crate) async fn receive(&mut self, stream: &mut Stream, wanted_len: usize) -> io::Result<usize> {
        poll_fn(|context| {
            self.make_room(wanted_len);
            let mut room = ReadBuf::new(self.buffer.get_mut(self.end..).unwrap_or_default());
            let polled = stream.poll_receive(context, &mut room);
            let received_len = room.filled().len();
            self.end += received_len;
            if self.start == self.end {
                // An idle connection holds no buffer.
                *self = Self::default();
            }
            ready!(polled)?;
            Poll::Ready(Ok(received_len))
        })
        .await
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
