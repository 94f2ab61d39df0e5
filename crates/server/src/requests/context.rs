//! The state of one connection, as request handlers use it.

use crate::{
    answers::{
        answer::{Answer, Defer},
        slow_read::SlowRead,
    },
    base::{
        event::Events,
        handles::{HandlePlaces, HandleTable},
        options::LISTINGS_MAX,
        output::{Output, OutputError},
        sessions::{BoundStream, ServerState, Session},
        status::Failure,
    },
};
use forebay_auth::SignatureChecker;
use forebay_engine::{Caller, Handle, Redirects};
use forebay_front::{ConnectionMemory, HandleShare, Place};
use forebay_net::Stream;
use forebay_proto::{ErrorCode, FileHandle, ReplyTo, StreamId};
use forebay_telemetry::Metrics;
use forebay_trust::{Attempt, ClientFacts, Proof, Refusal};
use forebay_types::Outcome;
use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, atomic::AtomicU32},
    task::{Context, Waker},
};
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

/// The state of one connection, as request handlers use it. The connection's task owns it, so it needs no locks.
pub(crate) struct ConnectionContext {
    pub(crate) stream: Stream,
    pub(crate) peer: SocketAddr,
    /// The address that the client connected to.
    pub(crate) local: SocketAddr,
    pub(crate) state: Arc<ServerState>,
    pub(crate) metrics: Metrics,
    pub(crate) output: Output,
    pub(crate) handles: HandleTable,
    /// The open files that the client's address may have.
    handle_share: HandleShare,
    pub(crate) role: Role,
    /// Requests that have tasks of their own. They end with the connection.
    pub(crate) tasks: JoinSet<()>,
    /// Time at which the requests of this turn were received.
    pub(crate) received: std::time::Instant,
    /// Hits of this turn that are not counted yet.
    hits: u64,
    /// Whether the connection ends after this turn.
    pub(crate) is_ending: bool,
    /// The place among connections that are not logged in, until the login.
    pub(crate) login_place: Option<Place<IpAddr>>,
    /// The client's identity by the certificate of its TLS handshake.
    pub(crate) certified: Option<Certified>,
    pub(crate) refused_tokens: AtomicU32,
    memory: ConnectionMemory,
    /// Limits directory listings in progress.
    pub(crate) listings: Arc<Semaphore>,
}

/// The proof in a client's certificate, or why it proves nothing.
pub(crate) type Certified = Box<Result<Proof, Refusal>>;

/// A client that has sent its login, and still has to prove its identity.
pub(crate) struct Authenticating {
    pub(crate) session: Session,
    pub(crate) facts: ClientFacts,
    pub(crate) redirects: Redirects,
    pub(crate) pid: u32,
    pub(crate) program: String,
    pub(crate) events: Events,
    pub(crate) progress: Progress,
    /// Attempts that failed or were abandoned.
    pub(crate) failures: u32,
}

/// The progress of an authentication.
pub(crate) enum Progress {
    /// It has not begun, or has failed.
    Idle,
    /// The client's next message goes here.
    Waiting(Box<Attempt>),
    /// A task examines credentials.
    Examining,
}

/// The role of a connection.
pub(crate) enum Role {
    /// Neither logged in nor bound yet. Its future tasks send to these events.
    New(Events),
    /// The login is received and must be proven.
    Authenticating(Authenticating),
    /// The main connection of a session.
    Main(Main),
    /// A parallel stream of another connection's session. It must not keep its own events alive: the session ends it by
    /// dropping them.
    Bound { _place: BoundStream },
}

/// The main connection of a session.
pub(crate) struct Main {
    pub(crate) session: Session,
    /// The client as its login has proven it.
    pub(crate) caller: Arc<Caller>,
    /// The place among the sessions of the same identity, if it is proven.
    pub(crate) place: Option<Place<String>>,
    /// Checks the client's requests, if they have to be signed.
    pub(crate) signatures: Option<Box<SignatureChecker>>,
    /// Whether the client understands wait responses.
    pub(crate) accepts_deferred_answers: bool,
    pub(crate) redirects: Redirects,
    pub(crate) events: Events,
}

impl ConnectionContext {
    pub(crate) fn new(
        stream: Stream,
        (peer, local): (SocketAddr, SocketAddr),
        (login_place, handle_share): (Place<IpAddr>, HandleShare),
        state: Arc<ServerState>,
        events: Events,
    ) -> Self {
        let metrics = state.front.backend.metrics().clone();
        Self {
            stream,
            peer,
            local,
            metrics,
            output: Output::new(state.options.write_stall_max, state.front.answer_memory.clone()),
            memory: ConnectionMemory::new(&state.front.answer_memory),
            handles: HandleTable::new(state.options.handles_per_session_max),
            handle_share,
            state,
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

    /// The session; `None` before the login.
    pub(crate) const fn main(&self) -> Option<&Main> {
        match &self.role {
            Role::Main(main) => Some(main),
            Role::New(_) | Role::Authenticating(_) | Role::Bound { .. } => None,
        }
    }

    pub(crate) fn has_room_for_request(&self) -> bool {
        self.tasks.len() < self.state.options.requests_outstanding_max
    }

    /// Places for one more open file; `None` when the session, the address or the identity has as many as it may have.
    pub(crate) fn places_of_handle(&self) -> Option<HandlePlaces> {
        if !self.handles.has_room_for(1) {
            return None;
        }
        let of_identity = match self.main().and_then(|main| main.place.as_ref()) {
            Some(place) => Some(place.handles().occupy()?),
            None => None,
        };
        Some(HandlePlaces { _of_address: self.handle_share.occupy()?, _of_identity: of_identity })
    }

    pub(crate) fn handle(&self, name: FileHandle) -> Result<&Handle, Failure> {
        self.handles.get(name).ok_or_else(Failure::not_open)
    }

    pub(crate) fn reply(&mut self, stream_id: StreamId, encode: impl FnOnce(ReplyTo, &mut Vec<u8>)) {
        self.output.encode(|out| encode(ReplyTo::direct(stream_id), out));
    }

    pub(crate) fn fail(&mut self, stream_id: StreamId, failure: &Failure) {
        self.metrics.add_client_error(failure.side);
        self.reply(stream_id, |reply, out| reply.error(failure.code, &failure.text, out));
    }

    /// Appends the value of `result`, or its error.
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

    /// Counts a read that was answered from the cache without a task. The metrics get it at the end of the turn: one update for
    /// many hits.
    pub(crate) const fn note_hit(&mut self) {
        self.hits += 1;
    }

    /// Adds the hits of this turn to the metrics. All of them are sent at this moment.
    fn count_hits(&mut self) {
        // Most turns of an idle connection have none.
        if self.hits > 0 {
            let duration = forebay_net::clock::monotonic().saturating_duration_since(self.received);
            self.metrics.observe_requests(Outcome::Hit, duration, std::mem::take(&mut self.hits));
        }
    }

    /// The answer of a request that gets a task of its own, on the stream with this path id.
    fn answer_by(&self, stream_id: StreamId, path_id: u8) -> Result<Answer, Failure> {
        let main = self.main().ok_or_else(|| Failure::internal("a request came before the login"))?;
        let (events, main_events) = match path_id {
            0 => (main.events.clone(), None),
            _ => {
                // The stream may end before the answer: then the main connection sends it.
                let stream = main.session.stream(path_id);
                let events = stream.ok_or_else(|| Failure::client(ErrorCode::ARG_INVALID, "invalid path ID"))?;
                (events, Some(main.events.clone()))
            }
        };
        let options = &self.state.options;
        // Clients without this ability reconnect after their own timeout.
        let defer = main.accepts_deferred_answers.then(|| Defer {
            at: Instant::now() + options.wait_response_after,
            after: options.wait_response_after,
            seconds: u32::try_from(options.wait_response_time.as_secs()).unwrap_or(u32::MAX),
        });
        let (reply, metrics) = (ReplyTo::direct(stream_id), self.metrics.clone());
        Ok(Answer { reply, events, main: main_events, defer, has_begun: false, metrics })
    }

    /// The answer of a read that gets a task of its own, on the stream with this path id.
    pub(crate) fn slow_read(&self, stream_id: StreamId, path_id: u8) -> Result<SlowRead, Failure> {
        Ok(SlowRead::new(self.answer_by(stream_id, path_id)?, self.memory.answer(), self.received))
    }

    /// Answers a request by a task of its own, unless the answer is ready at once.
    pub(crate) fn start(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        let mut work = Box::pin(work);
        // An answer that needs no waiting needs no task: its frames are in the queue when this turn ends. Otherwise the task
        // polls the work again, with its own waker.
        if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.tasks.spawn(work);
        }
    }

    pub(crate) fn start_answer<F>(&mut self, stream_id: StreamId, work: impl FnOnce(Answer) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        match self.answer_by(stream_id, 0) {
            Ok(answer) => self.start(work(answer)),
            Err(failure) => self.fail(stream_id, &failure),
        }
    }

    pub(crate) async fn flush(&mut self) -> Result<(), OutputError> {
        self.count_hits();
        self.output.flush(&self.stream).await
    }
}
