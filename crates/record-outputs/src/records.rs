//! The subscriber.

use crate::{
    encoder::{Encoder, Message},
    event::Event,
    files::FileWriter,
    lines::Queue,
    options::RecordOptions,
    search,
};
use forebay_telemetry::{
    CloseEvent, DirectEvent, FailedEvent, FileEvents, Metrics, OpenPurpose, RecordOutput, RedirectedEvent, RefusedEvent,
};
use std::{
    fmt, io,
    sync::{
        Arc,
        mpsc::{self, SyncSender},
    },
    thread::{self, Thread},
    time::Duration,
};

/// Events that wait for the thread that makes records of them: a second at 20,000 closes per second, some 10 MB. Further ones are
/// dropped.
const EVENTS_MAX: usize = 20_000;

/// Events after which the thread is woken from its rest.
const EVENTS_TO_WAKE: usize = 1_000;

/// The records of a server. Cheap to clone; clones have the same outputs.
#[derive(Clone)]
pub struct Records(Arc<Shared>);

struct Shared {
    queue: SyncSender<Message>,
    encoder: Thread,
    /// Events that were handed over.
    events: std::sync::atomic::AtomicUsize,
    outputs: Vec<RecordOutput>,
    /// Microseconds of the Unix epoch.
    clock: fn() -> i64,
    metrics: Metrics,
}

impl Records {
    /// Starts the threads. `clock` returns the microseconds of the Unix epoch.
    ///
    /// # Errors
    /// When a file that an output needs cannot be used, or no thread can be started.
    pub fn start(options: RecordOptions, clock: fn() -> i64, metrics: &Metrics) -> io::Result<Self> {
        let (mut queues, mut outputs) = (Vec::new(), Vec::new());
        if let Some(files) = options.files {
            let (queue, messages) = Queue::new(RecordOutput::File, metrics.clone());
            let writer = FileWriter::new(files, metrics.clone());
            let run = move || writer.run(&messages, clock);
            thread::Builder::new().name("record-files".to_owned()).spawn(run)?;
            queues.push(queue);
            outputs.push(RecordOutput::File);
        }
        if let Some(options) = options.search {
            let (queue, inbox) = Queue::new(RecordOutput::OpenSearch, metrics.clone());
            search::start(options, inbox, metrics.clone())?;
            queues.push(queue);
            outputs.push(RecordOutput::OpenSearch);
        }
        let (queue, messages) = mpsc::sync_channel(EVENTS_MAX);
        let encoder = Encoder::new(options.server, clock(), queues);
        let thread = thread::Builder::new().name("records".to_owned()).spawn(move || encoder.run(&messages))?;
        let (encoder, metrics) = (thread.thread().clone(), metrics.clone());
        Ok(Self(Arc::new(Shared { queue, encoder, events: Default::default(), outputs, clock, metrics })))
    }

    /// Waits for `patience` at most until all records so far are safe. Blocking.
    pub fn flush(&self, patience: Duration) {
        let (done, safe) = mpsc::sync_channel(1);
        if self.0.queue.try_send(Message::Flush(done)).is_ok() {
            self.0.encoder.unpark();
            // Nothing is sent: the outputs drop their ends. One that hangs does not delay the end of the process.
            let _ = safe.recv_timeout(patience);
        }
    }

    fn now_ms(&self) -> i64 {
        (self.0.clock)().div_euclid(1000)
    }

    fn hand_over(&self, event: Event) {
        let Shared { queue, encoder, events, outputs, metrics, .. } = &*self.0;
        if queue.try_send(Message::Event(Box::new(event))).is_err() {
            outputs.iter().for_each(|output| metrics.add_records_dropped(*output, 1));
        }
        if events.fetch_add(1, std::sync::atomic::Ordering::Relaxed).is_multiple_of(EVENTS_TO_WAKE) {
            encoder.unpark();
        }
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("outputs", &self.0.outputs).finish_non_exhaustive()
    }
}

impl FileEvents for Records {
    fn direct(&self, event: &DirectEvent<'_>) {
        // An open that is left in the middle is closed later.
        if event.open.is_none() {
            self.hand_over(Event::direct(event.client, event.lfn.as_str(), event.size, event.path, self.now_ms()));
        }
    }

    fn redirected(&self, event: &RedirectedEvent<'_>) {
        self.hand_over(Event::redirected(event, self.now_ms()));
    }

    fn closed(&self, event: &CloseEvent<'_>) {
        // Other opens are the server's own.
        if event.purpose == OpenPurpose::Read {
            self.hand_over(Event::closed(event, self.now_ms()));
        }
    }

    fn refused(&self, event: &RefusedEvent<'_>) {
        self.hand_over(Event::refused(event, self.now_ms()));
    }

    fn failed(&self, event: &FailedEvent<'_>) {
        match event.open {
            Some(open) => {
                let _ = self.0.queue.try_send(Message::ReadFailed { open, kind: event.kind });
            }
            None => self.hand_over(Event::failed(event, self.now_ms())),
        }
    }
}
