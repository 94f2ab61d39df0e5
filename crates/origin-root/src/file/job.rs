//! One range of a read.

use forebay_origin::{Chunk, OriginError};
use forebay_types::ByteRange;
use tokio::sync::mpsc::UnboundedSender;

/// One range that a caller reads, and how far it has come.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) remaining: ByteRange,
    sender: UnboundedSender<Result<Chunk, OriginError>>,
    failure: Option<OriginError>,
}

impl Job {
    pub(crate) const fn new(range: ByteRange, sender: UnboundedSender<Result<Chunk, OriginError>>) -> Self {
        Self { remaining: range, sender, failure: None }
    }

    /// Delivers the bytes that come next.
    pub(crate) fn deliver(&mut self, chunk: Chunk) {
        let len = u64::try_from(chunk.bytes.len()).unwrap_or(u64::MAX);
        assert!(len <= self.remaining.len(), "requests are never larger than the job");
        self.remaining = ByteRange::between(self.remaining.start().saturating_add(len), self.remaining.end());
        if !chunk.bytes.is_empty() {
            // A reader that has left shows in `is_open`.
            let _ = self.sender.send(Ok(chunk));
        }
    }

    /// Whether the reader still waits for bytes.
    pub(crate) fn is_open(&self) -> bool {
        !self.remaining.is_empty() && !self.sender.is_closed()
    }

    /// Whether the reader still waits for bytes and no request has failed.
    pub(crate) fn is_running(&self) -> bool {
        self.failure.is_none() && self.is_open()
    }

    /// Resolves when the reader leaves.
    pub(crate) async fn left(&self) {
        self.sender.closed().await;
    }

    /// Notes a failure; the first one counts.
    pub(crate) fn fail(&mut self, error: OriginError) {
        // The first failure is the cause: after a lost connection all further requests of the job fail, too.
        self.failure.get_or_insert(error);
    }

    /// The failure, after which the job may be tried again.
    pub(crate) const fn take_failure(&mut self) -> Option<OriginError> {
        self.failure.take()
    }

    /// Ends the stream of bytes with an error.
    pub(crate) fn end_with(self, error: OriginError) {
        // A reader that has left does not need the error.
        let _ = self.sender.send(Err(error));
    }
}
