//! The thread that makes lines of events.

use crate::{
    event::Event,
    lines::{BATCH_LEN, Lines, Queue},
};
use forebay_records::Server;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender},
    },
    thread,
    time::Duration,
};

/// The thread's rest after it has taken everything, unless many events arrive: waking a thread costs more than everything else a
/// record does in a request.
const REST: Duration = Duration::from_millis(20);

/// Open files whose last failed read is remembered; with further ones, those that were opened first are closed as `ok`.
const FAILURES_MAX: usize = 10_000;

/// A message to the thread. Those of one open are in order.
pub(crate) enum Message {
    Event(Box<Event>),
    /// A read of an open failed.
    ReadFailed {
        open: u64,
        kind: &'static str,
    },
    /// Have all outputs keep everything before this message safe, then drop the sender.
    Flush(SyncSender<()>),
}

/// Makes lines of events, and hands them over to all outputs.
pub(crate) struct Encoder {
    server: Server,
    outputs: Vec<Queue>,
    /// The beginning of all identities of this start.
    prefix: String,
    written: u64,
    gathered: Lines,
    /// The last failure of a read by open.
    failures: BTreeMap<u64, &'static str>,
}

impl Encoder {
    /// `start` distinguishes this start of the server from all others, together with the server's names.
    pub(crate) fn new(server: Server, start: i64, outputs: Vec<Queue>) -> Self {
        let prefix = format!("{}-{:x}-", server.host, start);
        Self { server, outputs, prefix, written: 0, gathered: Lines::default(), failures: BTreeMap::new() }
    }

    /// Works until all senders are gone.
    pub(crate) fn run(mut self, messages: &Receiver<Message>) {
        while let Ok(message) = messages.recv() {
            self.follow(message);
            while let Ok(message) = messages.try_recv() {
                self.follow(message);
            }
            self.hand_over();
            thread::park_timeout(REST);
        }
    }

    fn follow(&mut self, message: Message) {
        match message {
            Message::Event(event) => self.write(*event),
            Message::ReadFailed { open, kind } => {
                self.failures.insert(open, kind);
                // The numbers of opens rise. The event of an old one's close may have been dropped.
                if self.failures.len() > FAILURES_MAX {
                    self.failures.pop_first();
                }
            }
            Message::Flush(done) => {
                self.hand_over();
                self.outputs.iter().for_each(|output| output.flush(&done));
            }
        }
    }

    fn write(&mut self, mut event: Event) {
        if let Some(closed) = &event.closed {
            event.status = self.failures.remove(&closed.open);
        }
        self.written += 1;
        let id = format!("{}{}", self.prefix, self.written);
        event.write(&id, &self.server, &mut self.gathered.text);
        self.gathered.text.push(b'\n');
        self.gathered.count += 1;
        if self.gathered.text.len() >= BATCH_LEN {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        if self.gathered.count > 0 {
            let lines = Arc::new(std::mem::take(&mut self.gathered));
            self.outputs.iter().for_each(|output| output.send(&lines));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_lost_closes_make_room_for_later_ones() {
        let mut encoder = Encoder::new(Server::default(), 0, Vec::new());
        let failures_max = u64::try_from(FAILURES_MAX).unwrap();
        for open in 1..=failures_max + 1 {
            encoder.follow(Message::ReadFailed { open, kind: "io" });
        }
        assert_eq!(encoder.failures.len(), FAILURES_MAX);
        let (first, last) = (encoder.failures.first_key_value(), encoder.failures.last_key_value());
        assert_eq!((first, last), (Some((&2, &"io")), Some((&(failures_max + 1), &"io"))));
    }
}
