//! One session with a server: many requests at once over one socket and its parallel streams.

pub(crate) mod buffers;
mod bulk;
mod dial;
mod inlet;
mod outlet;
mod pages;
mod pending;
mod proof;
mod reader;
mod signed;
mod streams;

pub(crate) use dial::Dialer;
pub(crate) use pending::{Event, Events, OUTSTANDING_MAX, Sink, Ticket};

use forebay_auth::{Credentials, RequestSigner, Token};
use forebay_proto::{
    FileHandle, Request,
    request::{self, ReadElement, encode_read_vector},
};
use forebay_types::Endpoint;
use inlet::Activity;
use outlet::Outlet;
use parking_lot::Mutex;
use pending::{ABANDONED_MAX, Pending};
use std::io;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use streams::Streams;
use tokio::{
    sync::{OnceCell, OwnedSemaphorePermit, Semaphore},
    task::AbortHandle,
    time::Instant,
};

/// What a server told of itself while the session was set up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ServerFacts {
    /// It redirects.
    pub(crate) is_manager: bool,
    /// The connection is encrypted.
    pub(crate) is_tls: bool,
    /// It is on this machine.
    pub(crate) is_loopback: bool,
}

/// One session. Dropping it closes its sockets.
#[derive(Debug)]
pub(crate) struct Connection {
    shared: Arc<Shared>,
    streams: Streams,
    permits: Arc<Semaphore>,
    facts: ServerFacts,
    page_reads: AtomicBool,
    vector_reads: AtomicBool,
    vector_limits: OnceCell<VectorLimits>,
}

/// How large a vector read may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct VectorLimits {
    /// Elements of one request.
    pub(crate) elements_max: usize,
    /// Bytes of one element.
    pub(crate) element_len_max: u64,
}

/// What the tasks of a session share with it.
#[derive(Debug)]
pub(crate) struct Shared {
    endpoint: Endpoint,
    pending: Pending,
    outlet: Outlet,
    /// What signs requests, where the server wants that.
    signer: Option<Mutex<RequestSigner>>,
    activity: Arc<Activity>,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// A request about to be sent.
pub(crate) struct Submission<'a> {
    /// What comes back with each event.
    pub(crate) tag: usize,
    /// What its answer may look like.
    pub(crate) sink: Sink,
    /// The request itself.
    pub(crate) message: Message<'a>,
}

/// A request in the form it is sent from.
pub(crate) enum Message<'a> {
    /// Any request.
    Request(Request<'a>),
    /// A vector read of these elements, at least one.
    Vector(Vec<ReadElement>),
}

impl Connection {
    /// The server at the other end.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }

    /// What the server told of itself.
    pub(crate) const fn facts(&self) -> ServerFacts {
        self.facts
    }

    /// The token of `credentials` that goes along with requests, where it may be sent.
    pub(crate) fn token_to_send<'c>(&self, credentials: &'c Credentials) -> Option<&'c Token> {
        credentials.token_for(self.facts.is_tls, self.facts.is_loopback)
    }

    /// Whether page reads are worth asking for.
    pub(crate) fn does_page_reads(&self) -> bool {
        self.page_reads.load(Ordering::Relaxed)
    }

    /// Notes that the server refused a page read as such.
    pub(crate) fn forget_page_reads(&self) {
        self.page_reads.store(false, Ordering::Relaxed);
    }

    /// Whether vector reads are worth asking for.
    pub(crate) fn does_vector_reads(&self) -> bool {
        self.vector_reads.load(Ordering::Relaxed)
    }

    /// Notes that the server refused a vector read as such.
    pub(crate) fn forget_vector_reads(&self) {
        self.vector_reads.store(false, Ordering::Relaxed);
    }

    /// How large a vector read may be, once somebody has asked.
    pub(crate) const fn vector_limits(&self) -> &OnceCell<VectorLimits> {
        &self.vector_limits
    }

    /// Parallel streams for bulk reads.
    pub(crate) const fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Why the session is broken, if it is.
    pub(crate) fn broken(&self) -> Option<String> {
        self.shared.pending.broken()
    }

    /// When bytes last arrived on any socket of the session.
    pub(crate) fn last_activity(&self) -> Instant {
        self.shared.activity.last()
    }

    /// Whether no answer is owed.
    pub(crate) fn is_idle(&self) -> bool {
        self.shared.pending.is_empty()
    }

    /// Whether so many requests would be sent at once, rather than wait for others to be answered.
    pub(crate) fn has_room_for(&self, requests: usize) -> bool {
        self.permits.available_permits() >= requests
    }

    /// Sends requests, all in one write, once their number is within [`OUTSTANDING_MAX`]. At most that many at once.
    ///
    /// # Errors
    /// Why the session is broken.
    pub(crate) async fn submit(&self, requests: Vec<Submission<'_>>, events: &Events) -> Result<Vec<Ticket>, String> {
        let count = u32::try_from(requests.len()).map_err(|_| "too many requests at once".to_owned())?;
        let mut all = Arc::clone(&self.permits).acquire_many_owned(count).await.map_err(|_| self.reason())?;
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
            let ticket = self.shared.pending.enter(tag, sink, Some(events.clone()), Some(permit))?;
            match message {
                Message::Request(request) => request.encode(ticket.stream_id, &mut frames),
                Message::Vector(elements) => encode_read_vector(ticket.stream_id, 0, &elements, &mut frames),
            }
            tickets.push(ticket);
        }
        if let Err(reason) = self.shared.send(&frames) {
            self.break_with(&reason);
            return Err(self.reason());
        }
        Ok(tickets)
    }

    /// Notes that nobody waits for an answer any more. Its bytes are dropped as they come.
    pub(crate) fn abandon(&self, ticket: Ticket) {
        if self.shared.pending.abandon(ticket) > ABANDONED_MAX {
            self.break_with(OWES_TOO_MANY);
        }
    }

    /// Closes a file; nobody waits for the answer.
    pub(crate) fn close_file(&self, handle: FileHandle) {
        self.shared.close_file(handle);
    }

    /// Gives the session up: everybody who waits is told why, and its sockets are closed.
    pub(crate) fn break_with(&self, reason: &str) {
        self.permits.close();
        self.shared.break_with(reason);
    }

    fn reason(&self) -> String {
        self.broken().unwrap_or_else(|| "the connection was given up".to_owned())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.break_with("nobody uses the connection any more");
    }
}

impl Shared {
    fn break_with(&self, reason: &str) {
        self.pending.break_all(reason);
        // Files that are open here may keep the session for long; its server must not.
        self.outlet.close();
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
    }

    /// Sends whole requests, signed where the server wants that.
    fn send(&self, frames: &[u8]) -> Result<(), String> {
        self.send_by(frames, Outlet::send)
    }

    /// As [`Shared::send`], together with the next ones or a little later.
    fn send_soon(&self, frames: &[u8]) -> Result<(), String> {
        self.send_by(frames, Outlet::send_soon)
    }

    fn send_by(&self, frames: &[u8], send: impl Fn(&Outlet, &[u8]) -> io::Result<()>) -> Result<(), String> {
        let Some(signer) = &self.signer else {
            return send(&self.outlet, frames).map_err(|error| error.to_string());
        };
        // Locked until they are on their way: the numbers of signatures must rise.
        let mut signer = signer.lock();
        let frames = signed::with_signatures(frames, &mut signer)?;
        send(&self.outlet, &frames).map_err(|error| error.to_string())
    }

    /// Runs `task` until it ends or the session breaks.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        let task = tokio::spawn(task).abort_handle();
        if self.pending.broken().is_some() {
            task.abort();
        } else {
            tasks.push(task);
        }
    }

    fn close_file(&self, handle: FileHandle) {
        let sink = Sink::Reply { len_max: forebay_proto::limits::TEXT_BODY_LEN_MAX };
        let Ok(ticket) = self.pending.enter(0, sink, None, None) else { return };
        let mut frame = Vec::new();
        Request::Close(request::Close { handle }).encode(ticket.stream_id, &mut frame);
        if let Err(reason) = self.send_soon(&frame) {
            self.break_with(&reason);
        } else if self.pending.abandoned() > ABANDONED_MAX {
            self.break_with(OWES_TOO_MANY);
        }
    }
}

const OWES_TOO_MANY: &str = "the server owes too many answers";
