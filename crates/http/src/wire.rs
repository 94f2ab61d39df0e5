//! The way of answers to the client: a socket with HTTP/1.1, or a stream of HTTP/2.

use crate::{options::ASSEMBLY_LEN, waiting::Waiting};
use bytes::Bytes;
use forebay_front::{AnswerMemory, ConnectionMemory, DeliveryError, MemoryPool, deliver_within};
use forebay_http_proto::{Answer, Version};
use forebay_net::{SendHint, Stream};
use std::time::Duration;
use tokio::{net::TcpStream, task::coop::consume_budget};

/// The way of answers to the client. Requests are answered in the same way over each.
pub(crate) trait Wire: Send + 'static {
    /// Appends the head of an answer to `waiting`, or keeps it until it is sent with the bytes after it.
    fn begin(&mut self, head: &AnswerHead<'_>, waiting: &mut Waiting);

    /// Drops the head of an answer of which nothing was sent; `false` if it was sent.
    fn take_back(&mut self) -> bool;

    /// The socket, if bytes can be written to it as they are.
    fn plain(&self) -> Option<&TcpStream>;

    /// Sends all of `waiting`, and leaves it empty.
    fn send_waiting(
        &mut self,
        waiting: &mut Waiting,
        hint: SendHint,
        terms: &Terms,
    ) -> impl Future<Output = Result<(), DeliveryError>> + Send;

    /// Sends bytes that are too many to be copied.
    fn send_bytes(&mut self, bytes: &Bytes, terms: &Terms) -> impl Future<Output = Result<(), DeliveryError>> + Send;

    /// The memory of bytes that are read for an answer of `connection`. A way that keeps memory to the end of the answer waits for it, so that
    /// reads never wait for more.
    fn read_memory(
        &mut self,
        connection: &ConnectionMemory,
    ) -> impl Future<Output = Result<AnswerMemory, DeliveryError>> + Send;

    /// Waits until the client has given up its request, if that can be noticed without sending anything.
    fn left(&mut self) -> impl Future<Output = ()> + Send;
}

/// The head of an answer, and the request's properties that its form depends on.
#[derive(Debug)]
pub(crate) struct AnswerHead<'a> {
    pub(crate) answer: &'a Answer,
    pub(crate) version: Version,
    pub(crate) is_kept_alive: bool,
    /// Whether no body follows, although the answer may have a length.
    pub(crate) has_no_body: bool,
    /// Text of the time now.
    pub(crate) date: &'a str,
}

/// Conditions of all deliveries to a client.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// Time limit for the client to take a piece.
    pub(crate) stall_max: Duration,
    pub(crate) memory: MemoryPool,
}

impl Wire for Stream {
    fn begin(&mut self, head: &AnswerHead<'_>, waiting: &mut Waiting) {
        head.answer.write(head.version, head.is_kept_alive, head.date, |part| waiting.append(part));
    }

    fn take_back(&mut self) -> bool {
        true
    }

    fn plain(&self) -> Option<&TcpStream> {
        Self::plain(self)
    }

    async fn send_waiting(
        &mut self,
        waiting: &mut Waiting,
        hint: SendHint,
        terms: &Terms,
    ) -> Result<(), DeliveryError> {
        let rest = match Self::plain(self) {
            Some(socket) => forebay_net::send_now(socket, waiting.bytes(), hint)?,
            None => waiting.bytes(),
        };
        if !rest.is_empty() {
            let _held = terms.memory.hold(waiting.capacity());
            // Mostly the socket takes all at once. The rest needs a future with a timer, for which idle connections have no memory.
            Box::pin(send_in_time(self, rest, hint, terms)).await?;
        }
        waiting.clear();
        Ok(())
    }

    async fn send_bytes(&mut self, bytes: &Bytes, terms: &Terms) -> Result<(), DeliveryError> {
        for piece in bytes.chunks(ASSEMBLY_LEN) {
            deliver_within(terms.stall_max, self.send_all(piece)).await?;
            consume_budget().await;
        }
        Ok(())
    }

    async fn read_memory(&mut self, connection: &ConnectionMemory) -> Result<AnswerMemory, DeliveryError> {
        Ok(connection.answer())
    }

    /// Clients of TLS are noticed when they are sent bytes.
    async fn left(&mut self) {
        let Some(socket) = Self::plain(self) else { return std::future::pending().await };
        match socket.peek(&mut [0]).await {
            Ok(0) | Err(_) => {}
            // The next request of the client waits for this answer.
            Ok(_) => std::future::pending().await,
        }
    }
}

/// Sends all of `bytes`, each piece within the time limit.
async fn send_in_time(stream: &Stream, bytes: &[u8], hint: SendHint, terms: &Terms) -> Result<(), DeliveryError> {
    for piece in bytes.chunks(ASSEMBLY_LEN) {
        match stream.plain() {
            Some(socket) => deliver_within(terms.stall_max, forebay_net::send_all(socket, piece, hint)).await?,
            None => deliver_within(terms.stall_max, stream.send_all(piece)).await?,
        }
    }
    Ok(())
}
