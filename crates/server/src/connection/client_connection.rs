//! The task of a client's connection. It reads the requests, and alone writes to the socket.

use crate::{
    base::{
        event::{Event, Events},
        input::{Input, LONG_BUFFER_LEN},
        options::{EVENTS_QUEUED_MAX, LONG_REQUEST_CHECK, LONG_REQUEST_TIME_MAX, REQUESTS_PER_TURN},
        output::OutputError,
        sessions::ServerState,
    },
    requests::context::{ConnectionContext, Role},
};
use forebay_front::{Backend, ConnectionPlaces, RequestMemory};
use forebay_net::TlsError;
use forebay_proto::{Fatal, Input as Next, ServerFlags, ServerOptions, ServerSession, TlsPolicy};
use forebay_telemetry::TlsResult;
use forebay_types::Side;
use std::{io, net::SocketAddr, pin::Pin, sync::Arc};
use tokio::{
    net::TcpStream,
    sync::mpsc,
    task::{AbortHandle, JoinError},
    time::{Instant, Sleep, sleep, timeout},
};

/// A connection that has been accepted.
pub(crate) struct Accepted {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) places: ConnectionPlaces,
    pub(crate) state: Arc<ServerState>,
}

/// Serves a connection until it ends. `connection` aborts this task, for the owner of the session.
pub(crate) async fn serve_connection(
    accepted: Accepted,
    events: Events,
    receiver: mpsc::Receiver<Event>,
    connection: AbortHandle,
) {
    let Accepted { stream, peer, local, places, state } = accepted;
    let ConnectionPlaces { login, in_total: _in_total, of_client } = places;
    let (handles, request_memory) = (of_client.handles().clone(), of_client.requests().clone());
    let _gauge = state.front.backend.metrics().open_connection();
    let role = match &state.front.backend {
        Backend::Manager(_) => ServerOptions::MANAGER,
        Backend::Cache(engine) if engine.is_cache() => ServerOptions::CACHE,
        Backend::Cache(_) => ServerOptions::FILES,
    };
    let policy = state.options.tls.as_ref().map_or(TlsPolicy::None, |tls| tls.policy);
    let signing_level = state.front.gate.options().signing.to_wire();
    let offers_pages = state.front.direct.offers_pages(peer.ip());
    let mut flags = if offers_pages { role.flags } else { role.flags.without(ServerFlags::SUPPORTS_PAGES) };
    if matches!(&state.front.backend, Backend::Cache(engine) if engine.redirects_writers()) {
        // The origin does it: opens for writing are redirected there.
        flags = flags.with(ServerFlags::SUPPORTS_POSC);
    }
    let connection = Connection {
        input: Input::default(),
        request_memory,
        session: ServerSession::new(ServerOptions { flags, tls: policy, signing_level, ..role }),
        deadline: Box::pin(sleep(state.options.login_time_max)),
        context: ConnectionContext::new(stream.into(), (peer, local), (login, handles), state, events),
        receiver,
        connection,
        wanted_len: 0,
        served: 0,
        silence: None,
        has_progress: false,
        is_draining: false,
    };
    match connection.run().await {
        // These are ordinary ends. Others are of interest to the administrator.
        end @ (End::Client | End::Drained | End::Session) => tracing::debug!(%peer, %end, "connection closed"),
        end => tracing::info!(%peer, %end, side = %end.side(), "connection closed"),
    }
}

struct Connection {
    input: Input,
    /// Of its client, for long requests.
    request_memory: RequestMemory,
    session: ServerSession,
    context: ConnectionContext,
    receiver: mpsc::Receiver<Event>,
    connection: AbortHandle,
    /// Wakes the task at the end of the [`Connection::silence`], or before it.
    deadline: Pin<Box<Sleep>>,
    /// The thing that the client has to do in time, and the begin of the wait for it.
    silence: Option<(Silence, Instant)>,
    /// Bytes of input that the session needs to continue.
    wanted_len: usize,
    /// Requests served in this turn.
    served: usize,
    /// Whether a request, or a piece of a dropped payload, was received since the last wait.
    has_progress: bool,
    /// Whether reading has ended because the server stops.
    is_draining: bool,
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the client closed it")]
    Client,
    #[error("its session has ended")]
    Session,
    #[error("the server stops")]
    Drained,
    #[error(transparent)]
    Silence(Silence),
    #[error(transparent)]
    Protocol(#[from] Fatal),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("it cannot be read from: {0}")]
    Input(#[from] io::Error),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("an internal error ended a request: {0}")]
    Fault(#[from] JoinError),
}

/// A thing that a client has to do in time.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
enum Silence {
    #[error("the client did not log in in time")]
    Login,
    #[error("the client did not complete a request in time")]
    Request,
    #[error("the client was idle for too long, without an open file")]
    Idle,
}

impl End {
    const fn side(&self) -> Side {
        match self {
            Self::Client | Self::Session | Self::Silence(_) | Self::Protocol(_) | Self::Input(_) => Side::Client,
            Self::Tls(error) => error.side(),
            Self::Output(error) => error.side(),
            Self::Drained | Self::Fault(_) => Side::Internal,
        }
    }
}

impl Connection {
    async fn run(mut self) -> End {
        let end = loop {
            if let Err(end) = self.turn().await {
                break end;
            }
        };
        // The last answer may hold the reason for the client. Its loss does no harm.
        if matches!(end, End::Protocol(_)) {
            let _ = self.context.flush().await;
        }
        end
    }

    /// Serves the received requests, sends the answers, and waits for more.
    async fn turn(&mut self) -> Result<(), End> {
        self.context.received = forebay_net::clock::monotonic();
        self.serve_input().await?;
        // A panic in a request ends its connection: the client could wait forever for the answer.
        while let Some(ended) = self.context.tasks.try_join_next() {
            ended?;
        }
        // Frames of slow answers go out together with the fast ones of this turn.
        if !self.receiver.is_empty() {
            self.handle_events().await?;
        }
        self.context.flush().await?;
        if self.context.is_ending || self.context.guesses_tokens() {
            return Err(End::Session);
        }
        // Frames of ended tasks may still be in the queue.
        if self.is_closing() && self.context.tasks.is_empty() && self.receiver.is_empty() {
            return Err(End::Drained);
        }
        // Tokio cannot preempt a task whose socket always has bytes.
        if self.served >= REQUESTS_PER_TURN {
            self.served = 0;
            tokio::task::yield_now().await;
        }
        if self.has_request() { Ok(()) } else { self.wait().await }
    }

    /// Serves received requests, up to the limit of one turn.
    async fn serve_input(&mut self) -> Result<(), End> {
        while self.served < REQUESTS_PER_TURN && self.may_serve() && !self.input.waiting().is_empty() {
            // Requests borrow from the input, so the fields are borrowed one by one.
            let Self { input, session, context, connection, .. } = self;
            let next = context.output.encode(|out| session.handle_input(input.waiting(), out))?;
            let consumed = match next {
                Next::NeedMore { at_least } => {
                    self.wanted_len = at_least;
                    return Ok(());
                }
                Next::Skipped { consumed } => consumed,
                Next::Request { consumed, stream_id, request } => {
                    let bytes = input.waiting().get(..consumed).unwrap_or_default();
                    // The signature covers the raw bytes, so it is checked before the request has any effect.
                    if context.is_authentic(stream_id, &request, bytes) {
                        context.dispatch(session, connection, stream_id, &request).await?;
                    }
                    consumed
                }
            };
            input.consume(consumed);
            self.wanted_len = 0;
            self.served += 1;
            self.has_progress = true;
            // Pipelined reads may make more bytes than the output should hold.
            if context.output.is_full() {
                context.flush().await?;
            }
            if session.is_tls_due() {
                self.start_tls().await?;
            }
        }
        Ok(())
    }

    /// Sends the answers that are still in clear, then does the TLS handshake. Bytes received meanwhile belong to the
    /// handshake: a request in clear is never served after it.
    async fn start_tls(&mut self) -> Result<(), End> {
        self.context.flush().await?;
        let Some(tls) = self.context.state.options.tls.clone() else { return Err(End::Session) };
        // The client may have sent its first handshake message already.
        let received = self.input.take();
        let handshake = timeout(tls.handshake_time_max, self.context.stream.accept_tls(&tls.acceptor, &received));
        let done = handshake.await.unwrap_or(Err(TlsError::TimedOut { limit: tls.handshake_time_max }));
        self.context.metrics.add_tls_handshake(match &done {
            Ok(_) => TlsResult::Done,
            Err(TlsError::TimedOut { .. }) => TlsResult::TimedOut,
            Err(_) => TlsResult::Failed,
        });
        let facts = done?;
        tracing::debug!(peer = %self.context.peer, version = facts.version, cipher = facts.cipher, "encrypted");
        self.session.tls_started();
        self.context.read_certificate().await;
        Ok(())
    }

    /// Whether no more requests are served because the server stops. A login in progress is finished: after it, clients take
    /// the end of the connection for one that can be repeated at once.
    const fn is_closing(&self) -> bool {
        self.is_draining && !matches!(self.context.role, Role::New(_) | Role::Authenticating(_))
    }

    fn may_serve(&self) -> bool {
        !self.is_closing()
            && !self.context.is_ending
            && !self.context.guesses_tokens()
            && self.context.has_room_for_request()
    }

    /// Whether the received bytes may hold a request that can be served now.
    fn has_request(&self) -> bool {
        self.may_serve() && !self.input.waiting().is_empty() && self.input.waiting().len() >= self.wanted_len
    }

    /// The thing that the client has to do in time now; `None` while a file is open or a request in progress.
    fn expected(&self) -> Option<Silence> {
        match self.context.role {
            // Without a login a client must not hold a connection for long.
            Role::New(_) | Role::Authenticating(_) => Some(Silence::Login),
            // The server does not read now: the client is not to blame.
            _ if !self.may_serve() || self.input.needs_memory(self.wanted_len) => None,
            _ if !self.input.waiting().is_empty() || self.session.is_dropping_payload() => Some(Silence::Request),
            Role::Main(_) if self.context.tasks.is_empty() && self.context.handles.len() == 0 => Some(Silence::Idle),
            // A parallel stream may be idle as long as its session lives.
            Role::Main(_) | Role::Bound { .. } => None,
        }
    }

    /// The time at which silence ends the connection, and why.
    fn silent_until(&mut self) -> Option<(Silence, Instant)> {
        let expected = self.expected_until();
        let ends = match self.input.long_since() {
            Some(since) if self.request_memory.is_used_up(LONG_BUFFER_LEN) => {
                Some((Silence::Request, since + LONG_REQUEST_TIME_MAX))
            }
            _ => None,
        };
        let earlier = expected.into_iter().chain(ends).min_by_key(|(_, until)| *until)?;
        let is_checked = self.input.long_since().is_some();
        let wake = if is_checked { earlier.1.min(Instant::now() + LONG_REQUEST_CHECK) } else { earlier.1 };
        // Later times need no new timer: it wakes the task early, which then looks again. Timers cost a lock.
        if wake < self.deadline.deadline() || self.deadline.is_elapsed() {
            self.deadline.as_mut().reset(wake);
        }
        Some(earlier)
    }

    /// The time until which the client has to do what is expected of it.
    fn expected_until(&mut self) -> Option<(Silence, Instant)> {
        let options = &self.context.state.options;
        let has_progress = std::mem::take(&mut self.has_progress);
        let Some(expected) = self.expected() else {
            self.silence = None;
            return None;
        };
        // Requests before the login do not make it come later.
        let is_kept = !has_progress || expected == Silence::Login;
        let known = self.silence.filter(|(silence, _)| *silence == expected && is_kept);
        let (_, since) =
            *self.silence.insert(known.unwrap_or_else(|| (expected, Instant::from_std(self.context.received))));
        let time_max = match expected {
            Silence::Login if self.is_draining => {
                options.login_time_max.min(self.context.state.front.first_request_time_max)
            }
            Silence::Login => options.login_time_max,
            Silence::Request => options.request_time_max,
            Silence::Idle => options.idle_time_max,
        };
        Some((expected, since + time_max))
    }

    async fn wait(&mut self) -> Result<(), End> {
        let (may_read, silent_until) = (self.may_serve(), self.silent_until());
        let has_tasks = !self.context.tasks.is_empty();
        let needs_memory = self.input.needs_memory(self.wanted_len);
        tokio::select! {
            // Input last: a client that sends without pause still gets answers, and must log in in time.
            biased;
            event = self.receiver.recv() => match event {
                Some(event) => self.handle_event(event).await,
                None => Err(End::Session),
            },
            Some(ended) = self.context.tasks.join_next(), if has_tasks => Ok(ended?),
            () = &mut self.deadline, if silent_until.is_some() => match silent_until {
                Some((silence, until)) if until <= Instant::now() => Err(End::Silence(silence)),
                _ => Ok(()),
            },
            Some(memory) = self.request_memory.reserve(LONG_BUFFER_LEN), if may_read && needs_memory => {
                self.input.reserve(memory);
                Ok(())
            },
            received = self.input.receive(&mut self.context.stream, self.wanted_len), if may_read && !needs_memory => match received? {
                0 => Err(End::Client),
                _ => Ok(()),
            },
        }
    }

    /// Handles waiting events, up to the limit of one turn.
    async fn handle_events(&mut self) -> Result<(), End> {
        for _ in 0..EVENTS_QUEUED_MAX {
            let Ok(event) = self.receiver.try_recv() else { break };
            self.handle_event(event).await?;
        }
        Ok(())
    }

    async fn handle_event(&mut self, event: Event) -> Result<(), End> {
        match event {
            Event::Frame(frame) => self.context.output.send_frame(&self.context.stream, frame).await?,
            Event::Opened(opened) => self.context.opened(opened),
            Event::Examined(examined) => {
                self.context.examined(&mut self.session, examined);
                if self.session.is_tls_due() {
                    self.start_tls().await?;
                }
            }
            // A parallel stream ends when its session does.
            Event::Drain => self.is_draining = !matches!(self.context.role, Role::Bound { .. }),
        }
        Ok(())
    }
}
