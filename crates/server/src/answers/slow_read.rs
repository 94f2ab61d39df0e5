//! The one path of slow reads: `read`, `readv` and `pgread` that the page cache cannot answer.

use crate::{
    answers::answer::{Answer, Gone},
    base::event::Frame,
};
use forebay_engine::Segment;
use forebay_front::{AnswerMemory, Batch, Failure, ReadStream, Reservation, append_segment, with_memory};
use forebay_proto::Status;
use forebay_types::Outcome;
use std::{sync::Arc, time::Instant};

/// A read that is answered by a task of its own.
pub(crate) struct SlowRead {
    pub(crate) answer: Answer,
    memory: AnswerMemory,
    pub(crate) received: Instant,
}

impl SlowRead {
    pub(crate) const fn new(answer: Answer, memory: AnswerMemory, received: Instant) -> Self {
        Self { answer, memory, received }
    }

    /// Waits for memory of an answer that is assembled.
    pub(crate) async fn reserve(&mut self, bytes: u64) {
        self.answer.wait_for(self.memory.reserve(bytes)).await;
    }

    /// Begins the next piece of an answer that is made in pieces.
    pub(crate) async fn next_piece(&mut self) {
        self.answer.wait_for(self.memory.next_piece()).await;
    }

    pub(crate) fn piece_len(&self, len: u64) -> u64 {
        self.memory.piece_len(len)
    }

    pub(crate) fn reserved(&self) -> Vec<Arc<Reservation>> {
        self.memory.reserved()
    }

    /// Waits for the next bytes of `stream`.
    pub(crate) async fn next_batch(&mut self, stream: &mut ReadStream, len_max: u64) -> Batch {
        self.answer.wait_for(stream.next_batch(&self.memory, len_max)).await
    }

    /// Whether the answer, of `bytes` in all, is sent as one frame, as clients expect after a wait response. Without memory for
    /// that it is sent in ordinary frames, which they accept too.
    pub(crate) fn is_whole(&mut self, bytes: u64) -> bool {
        if !self.answer.reply.is_deferred {
            return false;
        }
        let is_whole = self.memory.try_reserve(bytes);
        if !is_whole {
            self.answer.answer_directly();
        }
        is_whole
    }

    /// Appends the next `len` bytes of `stream`.
    pub(crate) async fn append(
        &mut self,
        stream: &mut ReadStream,
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let end = out.len().saturating_add(len);
        while out.len() < end {
            let batch = self.next_batch(stream, (end - out.len()) as u64).await;
            append_batch(batch, out)?;
        }
        Ok(())
    }

    /// Sends a frame of bytes that may lie in files.
    pub(crate) async fn send(&mut self, status: Status, body: Vec<Segment>) -> Result<(), Gone> {
        let reply = self.answer.reply;
        let body_len: u64 = body.iter().map(Segment::len).sum();
        let mut head = Vec::with_capacity(reply.header_len());
        reply.header(status, u32::try_from(body_len).unwrap_or(u32::MAX), &mut head);
        self.answer.send(Frame { head, body }).await
    }

    /// Sends a frame of assembled bytes. They hold the memory of the answer until they are sent.
    pub(crate) async fn send_assembled(&mut self, status: Status, bytes: Vec<u8>) -> Result<(), Gone> {
        let mut memory = self.memory.reserved();
        if bytes.len() as u64 > self.piece_len(u64::MAX) {
            // Without an interim answer: the form of this frame is decided.
            memory.extend(self.memory.large_frame().await);
        }
        let body = vec![Segment::Memory(with_memory(bytes, memory))];
        self.send(status, body).await
    }

    pub(crate) async fn fail(&mut self, failure: Failure) {
        self.answer.send_failure(failure.into()).await;
    }

    /// Adds the answered read to the metrics.
    pub(crate) fn observe(&self, outcome: Outcome) {
        let duration = forebay_net::clock::monotonic().saturating_duration_since(self.received);
        self.answer.metrics.observe_requests(outcome, duration, 1);
    }
}

/// Appends the bytes of `batch`.
pub(crate) fn append_batch(batch: Batch, out: &mut Vec<u8>) -> Result<(), Failure> {
    // Bytes before the failure are appended too, but the caller drops them.
    batch.segments.iter().try_for_each(|segment| append_segment(segment, out))?;
    batch.failure.map_or(Ok(()), Err)
}
