//! One range that a caller reads.

use crate::{Chunk, OriginError};
use forebay_types::ByteRange;
use tokio::sync::mpsc::UnboundedSender;

/// One range that a caller reads, and how far it has come.
#[derive(Debug)]
pub(crate) struct Job {
    remaining: ByteRange,
    sender: UnboundedSender<Result<Chunk, OriginError>>,
    failure: Option<OriginError>,
}

impl Job {
    pub(crate) const fn new(range: ByteRange, sender: UnboundedSender<Result<Chunk, OriginError>>) -> Self {
        Self { remaining: range, sender, failure: None }
    }

    /// What has not been delivered.
    pub(crate) const fn remaining(&self) -> ByteRange {
        self.remaining
    }

    /// Delivers the bytes that come next.
    pub(crate) fn deliver(&mut self, chunk: Chunk) {
        let len = u64::try_from(chunk.bytes.len()).unwrap_or(u64::MAX);
        assert!(len <= self.remaining.len(), "nobody delivers more than was asked for");
        self.remaining = ByteRange::between(self.remaining.start().saturating_add(len), self.remaining.end());
        if !chunk.bytes.is_empty() {
            // A reader that has left shows in `is_open`.
            let _ = self.sender.send(Ok(chunk));
        }
    }

    /// Whether bytes are still wanted.
    pub(crate) fn is_open(&self) -> bool {
        !self.remaining.is_empty() && !self.sender.is_closed()
    }

    /// Whether bytes are wanted and nothing has gone wrong.
    pub(crate) fn is_running(&self) -> bool {
        self.failure.is_none() && self.is_open()
    }

    /// Resolves when the reader leaves.
    pub(crate) async fn left(&self) {
        self.sender.closed().await;
    }

    /// Takes note of what went wrong; the first failure counts.
    pub(crate) fn fail(&mut self, error: OriginError) {
        self.failure.get_or_insert(error);
    }

    /// What went wrong, so that the job may be tried again.
    pub(crate) const fn take_failure(&mut self) -> Option<OriginError> {
        self.failure.take()
    }

    /// Tells the reader that there will be no more bytes, and why.
    pub(crate) fn end_with(self, error: OriginError) {
        let _ = self.sender.send(Err(error));
    }
}
