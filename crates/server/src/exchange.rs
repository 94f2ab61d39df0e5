//! What a request handler of one connection may touch.

use crate::{
    answer::{Answer, Defer, Way},
    authenticate::Authenticating,
    certificate::Certified,
    event::{Events, Frame},
    handles::HandleTable,
    options::LISTINGS_MAX,
    output::{Output, OutputError},
    server::Shared,
    sessions::{BoundStream, Session},
    status::Failure,
};
use forebay_auth::SignatureChecker;
use forebay_engine::{Caller, Handle, Redirects};
use forebay_front::{AnswerMemory, ConnectionMemory, Place, Program};
use forebay_net::Stream;
use forebay_proto::{ErrorCode, FileHandle, ReplyTo, StreamId};
use forebay_telemetry::Metrics;
use forebay_types::Outcome;
use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, atomic::AtomicU32},
    task::{Context, Waker},
};
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

/// One connection's state, as far as request handlers touch it. The connection's task owns it, so nothing here is locked.
pub(crate) struct Exchange {
    pub(crate) stream: Stream,
    pub(crate) peer: SocketAddr,
    /// The address that the client connected to.
    pub(crate) local: SocketAddr,
    pub(crate) shared: Arc<Shared>,
    pub(crate) metrics: Metrics,
    pub(crate) output: Output,
    pub(crate) handles: HandleTable,
    pub(crate) role: Role,
    /// Requests that are answered by tasks of their own. They end with the connection.
    pub(crate) tasks: JoinSet<()>,
    /// When the requests of this turn were received.
    pub(crate) received: std::time::Instant,
    /// Hits of this turn that are not counted yet.
    hits: u64,
    /// Whether the client asked to end this very session.
    pub(crate) is_ending: bool,
    /// Its place among those who are not logged in, until it is.
    pub(crate) login_place: Option<Place<IpAddr>>,
    /// Who the client is by the certificate of its TLS handshake.
    pub(crate) certified: Option<Certified>,
    /// Tokens of requests that were refused.
    pub(crate) refused_tokens: AtomicU32,
    memory: ConnectionMemory,
    /// How many more directories may be listed at the same time.
    pub(crate) listings: Arc<Semaphore>,
}

/// What a connection is.
pub(crate) enum Role {
    /// Neither logged in nor bound yet; its tasks would send here.
    New(Events),
    /// Logged in, and asked to prove it.
    Authenticating(Authenticating),
    /// The main connection of a session.
    Main(Main),
    /// A parallel stream of another connection's session. It must not keep its own events alive: their end tells it that
    /// the session has ended.
    Bound { _place: BoundStream },
}

/// The main connection of a session.
pub(crate) struct Main {
    pub(crate) session: Session,
    /// The client as its login has proven it.
    pub(crate) caller: Arc<Caller>,
    /// Its place among the sessions of the same identity, where those are limited.
    pub(crate) _place: Option<Place<String>>,
    /// What checks the client's requests, where they have to be signed.
    pub(crate) signatures: Option<Box<SignatureChecker>>,
    /// Whether the client understands answers that were put off.
    pub(crate) accepts_deferred_answers: bool,
    /// Which redirects the client can follow.
    pub(crate) redirects: Redirects,
    /// What the client says of itself.
    pub(crate) program: Program,
    pub(crate) events: Events,
}

impl Exchange {
    /// A new connection whose tasks send to `events`.
    pub(crate) fn new(
        stream: Stream,
        (peer, local): (SocketAddr, SocketAddr),
        login_place: Place<IpAddr>,
        shared: Arc<Shared>,
        events: Events,
    ) -> Self {
        let metrics = shared.front.engine.metrics().clone();
        Self {
            stream,
            peer,
            local,
            metrics,
            output: Output::new(shared.options.write_stall_max),
            memory: ConnectionMemory::new(&shared.front.answer_memory),
            handles: HandleTable::new(shared.options.handles_per_session_max),
            shared,
            role: Role::New(events),
            tasks: JoinSet::new(),
            received: forebay_net::clock::monotonic(),
            hits: 0,
            is_ending: false,
            certified: None,
            login_place: Some(login_place),
            refused_tokens: AtomicU32::new(0),
            listings: Arc::new(Semaphore::new(LISTINGS_MAX)),
        }
    }

    /// The session, once the client has logged in.
    pub(crate) const fn main(&self) -> Option<&Main> {
        match &self.role {
            Role::Main(main) => Some(main),
            Role::New(_) | Role::Authenticating(_) | Role::Bound { .. } => None,
        }
    }

    /// Whether another request may be started now.
    pub(crate) fn has_room_for_request(&self) -> bool {
        self.tasks.len() < self.shared.options.requests_outstanding_max
    }

    /// The open file that a client names.
    pub(crate) fn handle(&self, name: FileHandle) -> Result<&Handle, Failure> {
        self.handles.get(name).ok_or_else(Failure::not_open)
    }

    /// Appends an answer.
    pub(crate) fn reply(&mut self, stream_id: StreamId, encode: impl FnOnce(ReplyTo, &mut Vec<u8>)) {
        self.output.encode(|out| encode(ReplyTo::direct(stream_id), out));
    }

    /// Appends an error.
    pub(crate) fn fail(&mut self, stream_id: StreamId, failure: &Failure) {
        self.metrics.add_client_error(failure.side);
        self.reply(stream_id, |reply, out| reply.error(failure.code, &failure.text, out));
    }

    /// Appends the answer that `result` holds, or its error.
    pub(crate) fn conclude<T>(
        &mut self,
        stream_id: StreamId,
        result: Result<T, Failure>,
        encode: impl FnOnce(ReplyTo, T, &mut Vec<u8>),
    ) {
        match result {
            Ok(value) => self.reply(stream_id, |reply, out| encode(reply, value, out)),
            Err(failure) => self.fail(stream_id, &failure),
        }
    }

    /// Notes a read that was answered from the cache without a task of its own, to be counted by [`Exchange::count_hits`].
    pub(crate) const fn note_hit(&mut self) {
        self.hits += 1;
    }

    /// Counts the hits of this turn: all have taken until now.
    fn count_hits(&mut self) {
        if self.hits > 0 {
            let duration = forebay_net::clock::monotonic().saturating_duration_since(self.received);
            self.metrics.observe_requests(Outcome::Hit, duration, std::mem::take(&mut self.hits));
        }
    }

    /// The way back of a request that is answered by a task of its own, on this connection.
    pub(crate) fn answer(&self, stream_id: StreamId) -> Result<Answer, Failure> {
        self.answer_by(stream_id, 0)
    }

    /// The way back of a request that is answered by a task of its own, on the stream with this path id.
    pub(crate) fn answer_by(&self, stream_id: StreamId, path_id: u8) -> Result<Answer, Failure> {
        let main = self.main().ok_or_else(|| Failure::internal("a request came before the login"))?;
        let way = match path_id {
            0 => Way { events: main.events.clone(), main: None },
            _ => {
                let stream = main.session.stream(path_id);
                let events = stream.ok_or_else(|| Failure::client(ErrorCode::ARG_INVALID, "invalid path ID"))?;
                Way { events, main: Some(main.events.clone()) }
            }
        };
        let options = &self.shared.options;
        let defer = main.accepts_deferred_answers.then(|| Defer {
            at: Instant::now() + options.wait_response_after,
            after: options.wait_response_after,
            seconds: u32::try_from(options.wait_response_time.as_secs()).unwrap_or(u32::MAX),
        });
        let reply = ReplyTo::direct(stream_id);
        Ok(Answer::new(reply, way, defer, self.metrics.clone()))
    }

    /// The memory of an answer that is assembled or held back.
    pub(crate) fn answer_memory(&self) -> AnswerMemory {
        self.memory.answer()
    }

    /// Answers a request by a task of its own, unless the answer is at hand at once.
    pub(crate) fn start(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        let mut work = Box::pin(work);
        // What is ready without waiting needs no task: its frames are in the queue when this turn ends. What is not is
        // polled again by its task, with that task's waker.
        if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.tasks.spawn(work);
        }
    }

    /// Starts the answer to a request on this connection.
    pub(crate) fn start_answer<F>(&mut self, stream_id: StreamId, work: impl FnOnce(Answer) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        match self.answer(stream_id) {
            Ok(answer) => self.start(work(answer)),
            Err(failure) => self.fail(stream_id, &failure),
        }
    }

    /// Sends a frame that a task has made.
    pub(crate) async fn send_frame(&mut self, frame: Frame) -> Result<(), OutputError> {
        self.output.send_frame(&self.stream, frame).await
    }

    /// Sends all answers that wait, and counts the hits among them.
    pub(crate) async fn flush(&mut self) -> Result<(), OutputError> {
        self.count_hits();
        self.output.flush(&self.stream).await
    }
}
