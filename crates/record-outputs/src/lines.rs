//! Lines on their way to an output, and the queue of one output.

use forebay_telemetry::{Metrics, RecordOutput};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender},
    },
    time::Duration,
};

/// Bytes of lines at which a batch is handed over.
pub(crate) const BATCH_LEN: usize = 64 << 10;

/// Bytes that wait for an output, some 15,000 records; further ones are dropped.
const WAITING_MAX: usize = 16 << 20;

/// Memory of a batch in addition to its text.
const BATCH_OVERHEAD: usize = 256;

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

/// The end of the encoder of an output's queue.
pub(crate) struct Queue {
    output: RecordOutput,
    sender: Sender<Message>,
    waiting: Arc<AtomicUsize>,
    metrics: Metrics,
}

/// The end of the output.
pub(crate) struct Inbox {
    messages: Receiver<Message>,
    waiting: Arc<AtomicUsize>,
}

impl Queue {
    pub(crate) fn new(output: RecordOutput, metrics: Metrics) -> (Self, Inbox) {
        let (sender, messages) = mpsc::channel();
        let waiting = Arc::<AtomicUsize>::default();
        (Self { output, sender, waiting: Arc::clone(&waiting), metrics }, Inbox { messages, waiting })
    }

    /// Hands over lines, or drops them.
    pub(crate) fn send(&self, lines: &Arc<Lines>) {
        let has_room = self.waiting.fetch_add(lines.weight(), Relaxed) <= WAITING_MAX;
        if !has_room || self.sender.send(Message::Lines(Arc::clone(lines))).is_err() {
            self.waiting.fetch_sub(lines.weight(), Relaxed);
            self.metrics.add_records_dropped(self.output, lines.count);
        }
    }

    /// Passes on a request to flush.
    pub(crate) fn flush(&self, done: &SyncSender<()>) {
        let _ = self.sender.send(Message::Flush(done.clone()));
    }
}

impl Inbox {
    /// The next message, as by [`Receiver::recv_timeout`].
    pub(crate) fn recv_timeout(&self, patience: Duration) -> Result<Message, RecvTimeoutError> {
        let message = self.messages.recv_timeout(patience)?;
        if let Message::Lines(lines) = &message {
            self.waiting.fetch_sub(lines.weight(), Relaxed);
        }
        Ok(message)
    }
}

impl Lines {
    const fn weight(&self) -> usize {
        self.text.len() + BATCH_OVERHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_dropped_and_counted_until_others_are_taken() {
        let metrics = Metrics::new();
        let (queue, inbox) = Queue::new(RecordOutput::File, metrics.clone());
        let lines = Arc::new(Lines { text: vec![b'x'; WAITING_MAX / 2], count: 3 });
        (0..5).for_each(|_| queue.send(&lines));
        assert_eq!(metrics.records_dropped(RecordOutput::File), 9, "the first two fit");
        assert!(matches!(inbox.recv_timeout(Duration::ZERO), Ok(Message::Lines(_))));
        queue.send(&lines);
        assert_eq!(metrics.records_dropped(RecordOutput::File), 9);
    }
}
