//! Lines on their way to an output, and the queue of one output.

use forebay_telemetry::{Metrics, RecordOutput};
use std::sync::{
    Arc,
    mpsc::{self, Receiver, SyncSender},
};

/// Bytes of lines at which a batch is handed over.
pub(crate) const BATCH_LEN: usize = 64 << 10;

/// Batches that wait for an output: 16 MiB; further ones are dropped.
const BATCHES_MAX: usize = 256;

/// Records as lines of JSON.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Lines {
    /// Each ends with a line break.
    pub(crate) text: Vec<u8>,
    pub(crate) count: u64,
}

/// A message to an output.
pub(crate) enum Message {
    Lines(Arc<Lines>),
    /// Keep everything before this message safe, then drop the sender.
    Flush(SyncSender<()>),
}

/// The queue of one output.
pub(crate) struct Queue {
    output: RecordOutput,
    sender: SyncSender<Message>,
    metrics: Metrics,
}

impl Queue {
    pub(crate) fn new(output: RecordOutput, metrics: Metrics) -> (Self, Receiver<Message>) {
        let (sender, messages) = mpsc::sync_channel(BATCHES_MAX);
        (Self { output, sender, metrics }, messages)
    }

    /// Hands over lines, or drops them.
    pub(crate) fn send(&self, lines: &Arc<Lines>) {
        if self.sender.try_send(Message::Lines(Arc::clone(lines))).is_err() {
            self.metrics.add_records_dropped(self.output, lines.count);
        }
    }

    /// Passes on a request to flush. An output whose queue is full is not waited for.
    pub(crate) fn flush(&self, done: &SyncSender<()>) {
        let _ = self.sender.try_send(Message::Flush(done.clone()));
    }
}
