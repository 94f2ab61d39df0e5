//! Accounting streams: logins, opens and closes as datagrams for the collectors of XRootD monitoring.
//!
//! Events go through a bounded queue to one thread, which alone encodes and sends. Events that do not fit the queue are dropped
//! and counted: no request waits for a collector. Datagrams are not acknowledged.

mod composer;
mod intervals;
mod pauses;
mod reads;
mod socket;
mod summary;

use crate::{
    FileUse, HandleAccount, Metrics,
    file_events::{Client, CloseEvent, FileEvents, OpenEvent, OpenPurpose, ReadEvents},
};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    thread::{self, Thread},
    time::Duration,
};

use composer::Composer;
use socket::Socket;
use summary::Summaries;

/// Events that wait for the thread: two seconds at 10,000 opens and closes per second; further ones are dropped.
const EVENTS_MAX: usize = 40_000;

/// The thread looks at the clock at least this often.
const TICK: Duration = Duration::from_millis(250);

/// The thread's rest after it has taken everything, unless many events arrive: waking it for each event costs a request more than all the
/// rest of an output.
const REST: Duration = Duration::from_millis(20);

/// Events after which the thread is woken from its rest.
const EVENTS_TO_WAKE: usize = 1_000;

/// Where accounting streams are sent, and how.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StreamOptions {
    /// Collectors, as `HOST:PORT`. Each gets all datagrams. None: nothing is sent.
    pub collectors: Vec<String>,
    /// The site's name in the accounting.
    pub site: String,
    /// The instance's name at the site.
    pub instance: String,
    /// The port of the server, a part of its identity.
    pub port: u16,
    /// Longest time that a record waits for others of the same datagram.
    pub flush: Duration,
    /// Interval at which files that are open are reported.
    pub progress: Duration,
    /// Interval at which the server's identity is repeated.
    pub identity: Duration,
    /// Size that a datagram exceeds only if one record is longer.
    pub datagram_bytes: usize,
    /// Receivers of summary reports, as `HOST:PORT`.
    pub summary_collectors: Vec<String>,
    /// Interval of summary reports.
    pub summary: Duration,
    /// Name of this machine in summary reports.
    pub host: String,
}

impl StreamOptions {
    /// Whether anything is sent.
    pub fn has_collectors(&self) -> bool {
        !(self.collectors.is_empty() && self.summary_collectors.is_empty())
    }
}

/// Without a collector, nothing is sent.
impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            collectors: Vec::new(),
            site: String::new(),
            instance: "forebay".to_owned(),
            port: 1094,
            // Collectors take the times of opens and closes from their datagrams.
            flush: Duration::from_secs(5),
            progress: Duration::from_secs(300),
            // Collectors forget it after five minutes, and each datagram may be lost.
            identity: Duration::from_secs(60),
            // With the headers of IP and UDP one Ethernet frame, so that networks do not fragment it.
            datagram_bytes: 1472,
            summary_collectors: Vec::new(),
            summary: Duration::from_secs(60),
            host: String::new(),
        }
    }
}

/// The streams of a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Streams {
    queue: SyncSender<Event>,
    thread: Thread,
    /// Events that were handed over.
    events: Arc<AtomicUsize>,
    metrics: Metrics,
    /// Without collectors of them, events are not needed.
    takes_events: bool,
}

/// An event for the thread. Those of one open are in order.
#[derive(Debug)]
enum Event {
    Open(Box<Opened>),
    Close(Box<Closed>),
    /// Send everything that waits, then reply: the server stops.
    Flush(SyncSender<()>),
}

#[derive(Debug)]
struct Opened {
    open: u64,
    client: Arc<Client>,
    lfn: String,
    size: u64,
    account: Arc<HandleAccount>,
}

#[derive(Debug)]
struct Closed {
    open: u64,
    lfn: String,
    size: u64,
    /// The file's use, if this was its last close.
    last: Option<FileUse>,
}

impl Streams {
    /// Starts the thread. `clock` returns the seconds of the Unix epoch.
    ///
    /// # Errors
    /// When no socket can be opened or no thread started.
    pub fn start(options: StreamOptions, clock: fn() -> i64, metrics: Metrics) -> io::Result<Self> {
        let (queue, events) = mpsc::sync_channel(EVENTS_MAX);
        let takes_events = !options.collectors.is_empty();
        let socket = Socket::new(options.collectors.clone(), metrics.clone())?;
        let summaries = Summaries::new(options.clone(), clock(), metrics.clone())?;
        let composer = Composer::new(options, clock());
        let sender = Sender { composer, socket, summaries, clock };
        let running = thread::Builder::new().name("streams".to_owned()).spawn(move || sender.run(&events))?;
        Ok(Self { queue, thread: running.thread().clone(), events: Arc::default(), metrics, takes_events })
    }

    /// Sends all waiting records, for `patience` at most. Blocking.
    pub fn flush(&self, patience: Duration) {
        let (done, sent) = mpsc::sync_channel(1);
        if self.queue.try_send(Event::Flush(done)).is_ok() {
            self.thread.unpark();
            // A resolver that hangs does not delay the end of the process.
            let _ = sent.recv_timeout(patience);
        }
    }

    fn hand_over(&self, event: Event) {
        if !self.takes_events {
            return;
        }
        if self.queue.try_send(event).is_err() {
            self.metrics.add_stream_event_dropped(1);
        }
        if self.events.fetch_add(1, Relaxed).is_multiple_of(EVENTS_TO_WAKE) {
            self.thread.unpark();
        }
    }
}

impl FileEvents for Streams {
    fn opened(&self, event: &OpenEvent<'_>) -> Option<Box<dyn ReadEvents>> {
        // Other opens are the server's own.
        if event.purpose == OpenPurpose::Read {
            self.hand_over(Event::Open(Box::new(Opened {
                open: event.open,
                client: Arc::clone(event.client),
                lfn: event.lfn.as_str().to_owned(),
                size: event.size,
                account: Arc::clone(event.account),
            })));
        }
        None
    }

    fn closed(&self, event: &CloseEvent<'_>) {
        let last = if event.opens == 1 { event.file.cloned() } else { None };
        if event.purpose == OpenPurpose::Read || last.is_some() {
            self.hand_over(Event::Close(Box::new(Closed {
                open: event.open,
                lfn: event.lfn.as_str().to_owned(),
                size: event.size,
                last,
            })));
        }
    }
}

/// The state of the thread.
struct Sender {
    composer: Composer,
    socket: Socket,
    summaries: Summaries,
    clock: fn() -> i64,
}

impl Sender {
    /// Encodes and sends until all queues are gone.
    fn run(mut self, events: &Receiver<Event>) {
        loop {
            match events.recv_timeout(TICK) {
                Ok(event) => self.follow(Some(event)),
                Err(RecvTimeoutError::Timeout) => self.follow(None),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(event) = events.try_recv() {
                self.follow(Some(event));
            }
            thread::park_timeout(REST);
        }
    }

    fn follow(&mut self, event: Option<Event>) {
        let now = (self.clock)();
        self.composer.handle_time(now);
        self.summaries.handle_time(now);
        let mut done = None;
        match event {
            Some(Event::Open(opened)) => self.composer.open(*opened, now),
            Some(Event::Close(closed)) => self.composer.close(*closed, now),
            Some(Event::Flush(reply)) => {
                self.composer.finish(now);
                done = Some(reply);
            }
            None => {}
        }
        while let Some(datagram) = self.composer.poll_datagram() {
            self.socket.send(&datagram, now);
        }
        if let Some(reply) = done {
            let _ = reply.send(());
        }
    }
}

#[cfg(test)]
mod tests;
