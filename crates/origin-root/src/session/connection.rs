//! One session with a server: many requests at once over one socket.

use super::{
    pending::{ABANDONED_MAX, Events, Pending, Sink, Ticket},
    signatures,
    socket_reader::Activity,
    socket_writer::SocketWriter,
};
use forebay_auth::RequestSigner;
use forebay_net::Stream;
use forebay_proto::{
    FileHandle, Request,
    request::{self, ReadElement, encode_read_vector},
};
use forebay_types::Endpoint;
use parking_lot::Mutex;
use std::{
    io,
    net::IpAddr,
    sync::{Arc, atomic::AtomicBool},
};
use tokio::{
    sync::{OnceCell, OwnedSemaphorePermit, Semaphore},
    task::AbortHandle,
    time::Instant,
};

/// Requests of one session that may be unanswered at once; further ones wait their turn.
pub(crate) const OUTSTANDING_MAX: usize = 4096;

/// Facts about a server, from the set-up of the session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ServerFacts {
    pub(crate) is_manager: bool,
    pub(crate) is_tls: bool,
    /// Where it was reached.
    pub(crate) address: IpAddr,
}

/// One session. Dropping it closes its socket.
#[derive(Debug)]
pub(crate) struct Connection {
    link: Arc<Link>,
    permits: Arc<Semaphore>,
    pub(crate) facts: ServerFacts,
    /// Whether the server is believed to know page reads.
    pub(crate) page_reads: AtomicBool,
    pub(crate) vector_reads: AtomicBool,
    /// How large a vector read may be; empty until the server has been asked.
    pub(crate) vector_limits: OnceCell<VectorLimits>,
}

/// How large a vector read may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct VectorLimits {
    pub(crate) elements_max: usize,
    /// Bytes of one element.
    pub(crate) element_len_max: u64,
}

/// The part of a session that its tasks share with it.
#[derive(Debug)]
pub(super) struct Link {
    endpoint: Endpoint,
    pub(super) pending: Pending,
    writer: SocketWriter,
    /// `None` where the server wants no signatures.
    signer: Option<Mutex<RequestSigner>>,
    activity: Arc<Activity>,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// A request about to be sent.
pub(crate) struct Submission<'a> {
    /// Comes back with each event.
    pub(crate) tag: usize,
    pub(crate) sink: Sink,
    pub(crate) message: Message<'a>,
}

pub(crate) enum Message<'a> {
    Request(Request<'a>),
    /// A vector read of these elements, at least one.
    Vector(Vec<ReadElement>),
}

impl Connection {
    pub(super) fn new(link: Arc<Link>, outstanding_max: usize, facts: ServerFacts, page_reads: bool) -> Self {
        Self {
            link,
            permits: Arc::new(Semaphore::new(outstanding_max)),
            facts,
            page_reads: AtomicBool::new(page_reads),
            vector_reads: AtomicBool::new(true),
            vector_limits: OnceCell::new(),
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.link.endpoint
    }

    pub(crate) fn broken(&self) -> Option<String> {
        self.link.pending.broken()
    }

    pub(crate) fn last_activity(&self) -> Instant {
        self.link.activity.last()
    }

    /// Whether no answer is owed.
    pub(crate) fn is_idle(&self) -> bool {
        self.link.pending.is_empty()
    }

    /// Whether so many requests would be sent at once, without waiting for others to be answered.
    pub(crate) fn has_room_for(&self, requests: usize) -> bool {
        self.permits.available_permits() >= requests
    }

    /// Sends requests, all in one write, once their number is within [`OUTSTANDING_MAX`]. At most that many at once.
    pub(crate) async fn submit(&self, requests: Vec<Submission<'_>>, events: &Events) -> Result<Vec<Ticket>, String> {
        let count = u32::try_from(requests.len()).map_err(|_| "too many requests at once".to_owned())?;
        // All permits at once: callers that collected theirs one by one could wait for each other for ever.
        let mut all = Arc::clone(&self.permits).acquire_many_owned(count).await.map_err(|_| self.reason())?;
        // Split, because each permit is released with the answer to its own request.
        let permits = std::iter::from_fn(|| all.split(1)).collect();
        self.submit_now(requests, permits, events)
    }

    fn submit_now(
        &self,
        requests: Vec<Submission<'_>>,
        permits: Vec<OwnedSemaphorePermit>,
        events: &Events,
    ) -> Result<Vec<Ticket>, String> {
        let mut frames = Vec::with_capacity(requests.len().saturating_mul(64));
        let mut tickets = Vec::with_capacity(requests.len());
        for (Submission { tag, sink, message }, permit) in requests.into_iter().zip(permits) {
            let ticket = self.link.pending.enter(tag, sink, Some(events.clone()), Some(permit))?;
            match message {
                Message::Request(request) => request.encode(ticket.stream_id, &mut frames),
                Message::Vector(elements) => encode_read_vector(ticket.stream_id, 0, &elements, &mut frames),
            }
            tickets.push(ticket);
        }
        if let Err(reason) = self.link.send(&frames, SocketWriter::send) {
            // The requests are in the table already: breaking the session removes them.
            self.break_with(&reason);
            return Err(self.reason());
        }
        Ok(tickets)
    }

    /// Gives an answer up. Its bytes are dropped as they come.
    pub(crate) fn abandon(&self, ticket: Ticket) {
        if self.link.pending.abandon(ticket) > ABANDONED_MAX {
            self.break_with(OWES_TOO_MANY);
        }
    }

    /// Closes a file without waiting for the answer.
    pub(crate) fn close_file(&self, handle: FileHandle) {
        self.link.close_file(handle);
    }

    /// Ends the session: all waiting callers get the reason, and the socket is closed.
    pub(crate) fn break_with(&self, reason: &str) {
        // Wakes the callers that wait for a permit: no answer will release one any more.
        self.permits.close();
        self.link.break_with(reason);
    }

    fn reason(&self) -> String {
        self.broken().unwrap_or_else(|| "the connection was given up".to_owned())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.break_with("the connection is not used any more");
    }
}

impl Link {
    pub(super) fn new(
        endpoint: Endpoint,
        socket: Arc<Stream>,
        signer: Option<RequestSigner>,
        activity: Arc<Activity>,
    ) -> Arc<Self> {
        Arc::new(Self {
            endpoint,
            pending: Pending::default(),
            writer: SocketWriter::new(socket),
            signer: signer.map(Mutex::new),
            activity,
            tasks: Mutex::default(),
        })
    }

    pub(super) fn break_with(&self, reason: &str) {
        // First: no request can be entered from here on, and callers get this reason rather than that of the closed
        // socket.
        self.pending.break_all(reason);
        // Files that are open here may keep the session for long; the socket must not stay open that long.
        self.writer.close();
        // One of them may be the calling task. It has nothing left to do and ends by itself.
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
    }

    /// Runs `task` until it ends or the session breaks.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        let task = tokio::spawn(task).abort_handle();
        // The session may have broken before: then nothing else would end the task.
        if self.pending.broken().is_some() {
            task.abort();
        } else {
            tasks.push(task);
        }
    }

    /// Sends the bytes that the socket did not take at once, until the session breaks.
    pub(super) async fn send_queued(self: Arc<Self>) {
        let error = self.writer.drain().await;
        self.break_with(&error.to_string());
    }

    /// Sends whole requests, signed where the server wants that.
    fn send(&self, frames: &[u8], send: impl Fn(&SocketWriter, &[u8]) -> io::Result<()>) -> Result<(), String> {
        let Some(signer) = &self.signer else {
            return send(&self.writer, frames).map_err(|error| error.to_string());
        };
        // Locked until the frames are sent: the sequence numbers of signatures must rise on the wire.
        let mut signer = signer.lock();
        let frames = signatures::with_signatures(frames, &mut signer)?;
        send(&self.writer, &frames).map_err(|error| error.to_string())
    }

    pub(super) fn close_file(&self, handle: FileHandle) {
        let sink = Sink::Reply { len_max: forebay_proto::limits::TEXT_BODY_LEN_MAX };
        // Without a permit, because a drop cannot wait for one: `ABANDONED_MAX` limits these requests. A broken
        // session has closed its files with the socket.
        let Ok(ticket) = self.pending.enter(0, sink, None, None) else { return };
        let mut frame = Vec::new();
        Request::Close(request::Close { handle }).encode(ticket.stream_id, &mut frame);
        // Not at once: a close that travels with the next request costs no packet of its own.
        if let Err(reason) = self.send(&frame, SocketWriter::send_soon) {
            self.break_with(&reason);
        } else if self.pending.abandoned() > ABANDONED_MAX {
            self.break_with(OWES_TOO_MANY);
        }
    }
}

const OWES_TOO_MANY: &str = "the server owes too many answers";
