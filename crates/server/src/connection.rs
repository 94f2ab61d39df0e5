//! One client's connection: the task that reads its requests and is the only one to write to its socket.

use crate::{
    event::{Event, Events},
    exchange::{Exchange, Role},
    input::Input,
    options::{ASSEMBLY_LEN, EVENTS_QUEUED_MAX, REQUESTS_PER_TURN},
    output::OutputError,
    server::Shared,
};
use forebay_front::ConnectionPlaces;
use forebay_net::TlsError;
use forebay_proto::{Fatal, Input as Next, ServerFlags, ServerOptions, ServerSession, TlsPolicy};
use forebay_telemetry::TlsResult;
use forebay_types::Side;
use std::{io, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};
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
    pub(crate) shared: Arc<Shared>,
}

/// Serves a connection until it ends. `connection` ends this very task, for the session's owner to use.
pub(crate) async fn serve_connection(
    accepted: Accepted,
    events: Events,
    receiver: mpsc::Receiver<Event>,
    connection: AbortHandle,
) {
    let Accepted { stream, peer, local, places, shared } = accepted;
    let ConnectionPlaces { login, in_total: _in_total, of_client: _of_client } = places;
    let _gauge = shared.front.engine.metrics().open_connection();
    let role = match &shared.front.engine {
        engine if engine.is_manager() => ServerOptions::MANAGER,
        engine if engine.is_cache() => ServerOptions::CACHE,
        _ => ServerOptions::FILES,
    };
    let policy = shared.options.tls.as_ref().map_or(TlsPolicy::None, |tls| tls.policy);
    let signing_level = shared.front.gate.options().signing.to_wire();
    let offers_pages = shared.front.direct.offers_pages(peer.ip());
    let flags = if offers_pages { role.flags } else { role.flags.without(ServerFlags::SUPPORTS_PAGES) };
    let connection = Connection {
        input: Input::default(),
        session: ServerSession::new(ServerOptions { flags, tls: policy, signing_level, ..role }),
        deadline: Box::pin(sleep(shared.options.login_time_max)),
        idle_time_max: shared.options.idle_time_max,
        exchange: Exchange::new(stream.into(), (peer, local), login, shared, events),
        receiver,
        connection,
        wanted_len: 0,
        served: 0,
        has_heard: false,
        is_draining: false,
    };
    match connection.run().await {
        end @ (End::Client | End::Drained | End::Session) => tracing::debug!(%peer, %end, "connection closed"),
        end => tracing::info!(%peer, %end, side = %end.side(), "connection closed"),
    }
}

struct Connection {
    input: Input,
    session: ServerSession,
    exchange: Exchange,
    receiver: mpsc::Receiver<Event>,
    connection: AbortHandle,
    /// When the connection ends if nothing is received: see [`Connection::has_deadline`].
    deadline: Pin<Box<Sleep>>,
    idle_time_max: Option<Duration>,
    /// Bytes of input that must be there before the session can go on.
    wanted_len: usize,
    /// Requests served since others had their turn.
    served: usize,
    /// Whether something was received since the deadline was put off.
    has_heard: bool,
    /// Whether nothing more is read because the server stops.
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
    #[error("nobody logged in in time, or the connection was idle for too long")]
    Silence,
    #[error(transparent)]
    Protocol(#[from] Fatal),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("it cannot be read from: {0}")]
    Input(#[from] io::Error),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("a request died of a fault of our own: {0}")]
    Fault(#[from] JoinError),
}

impl End {
    const fn side(&self) -> Side {
        match self {
            Self::Client | Self::Session | Self::Silence | Self::Protocol(_) | Self::Input(_) => Side::Client,
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
        // The last answer may tell the client why; it need not arrive.
        if matches!(end, End::Protocol(_)) {
            let _ = self.exchange.flush().await;
        }
        end
    }

    /// Serves what is there, sends the answers, and waits for more.
    async fn turn(&mut self) -> Result<(), End> {
        self.exchange.received = forebay_net::clock::monotonic();
        self.serve_input().await?;
        while let Some(ended) = self.exchange.tasks.try_join_next() {
            ended?;
        }
        if !self.receiver.is_empty() {
            self.handle_events().await?;
        }
        self.exchange.flush().await?;
        if self.exchange.is_ending || self.exchange.guesses_tokens() {
            return Err(End::Session);
        }
        if self.is_draining && self.exchange.tasks.is_empty() && self.receiver.is_empty() {
            return Err(End::Drained);
        }
        if self.served >= REQUESTS_PER_TURN {
            self.served = 0;
            tokio::task::yield_now().await;
        }
        if self.has_request() { Ok(()) } else { self.wait().await }
    }

    /// Serves the requests that have been received, as many as fit into this turn.
    async fn serve_input(&mut self) -> Result<(), End> {
        while self.served < REQUESTS_PER_TURN && self.may_serve() && !self.input.waiting().is_empty() {
            let Self { input, session, exchange, connection, .. } = self;
            let next = exchange.output.encode(|out| session.handle_input(input.waiting(), out))?;
            let consumed = match next {
                Next::NeedMore { at_least } => {
                    self.wanted_len = at_least;
                    return Ok(());
                }
                Next::Skipped { consumed } => consumed,
                Next::Request { consumed, stream_id, request } => {
                    let bytes = input.waiting().get(..consumed).unwrap_or_default();
                    if exchange.is_authentic(stream_id, &request, bytes) {
                        exchange.dispatch(session, connection, stream_id, &request).await?;
                    }
                    consumed
                }
            };
            input.consume(consumed);
            self.wanted_len = 0;
            self.served += 1;
            if exchange.output.len() >= ASSEMBLY_LEN {
                exchange.flush().await?;
            }
            if session.is_tls_due() {
                self.start_tls().await?;
            }
        }
        Ok(())
    }

    /// Sends what is still to be sent in clear, then goes through the TLS handshake. What has been received meanwhile is its
    /// beginning, and never a request.
    async fn start_tls(&mut self) -> Result<(), End> {
        self.exchange.flush().await?;
        let Some(tls) = self.exchange.shared.options.tls.clone() else { return Err(End::Session) };
        let received = self.input.take();
        let handshake = timeout(tls.handshake_time_max, self.exchange.stream.accept_tls(&tls.acceptor, &received));
        let done = handshake.await.unwrap_or(Err(TlsError::TimedOut { limit: tls.handshake_time_max }));
        self.exchange.metrics.add_tls_handshake(match &done {
            Ok(_) => TlsResult::Done,
            Err(TlsError::TimedOut { .. }) => TlsResult::TimedOut,
            Err(_) => TlsResult::Failed,
        });
        let facts = done?;
        tracing::debug!(peer = %self.exchange.peer, version = facts.version, cipher = facts.cipher, "encrypted");
        self.session.tls_started();
        self.exchange.read_certificate().await;
        Ok(())
    }

    /// Whether requests may be served now.
    fn may_serve(&self) -> bool {
        !self.is_draining
            && !self.exchange.is_ending
            && !self.exchange.guesses_tokens()
            && self.exchange.has_room_for_request()
    }

    /// Whether the input that is there may hold a request that can be served now.
    fn has_request(&self) -> bool {
        self.may_serve() && !self.input.waiting().is_empty() && self.input.waiting().len() >= self.wanted_len
    }

    /// Whether silence ends the connection: before login, and, when configured, while nothing is open or under way.
    fn has_deadline(&self) -> bool {
        match self.exchange.role {
            Role::New(_) | Role::Authenticating(_) => true,
            Role::Main(_) => {
                self.idle_time_max.is_some() && self.exchange.tasks.is_empty() && self.exchange.handles.len() == 0
            }
            Role::Bound { .. } => false,
        }
    }

    /// Waits for input, for an answer, or for the end.
    async fn wait(&mut self) -> Result<(), End> {
        self.put_off_deadline();
        let (may_read, has_deadline) = (self.may_serve(), self.has_deadline());
        let has_tasks = !self.exchange.tasks.is_empty();
        tokio::select! {
            // Input last: who sends without end still gets answers, and must log in in time.
            biased;
            event = self.receiver.recv() => match event {
                Some(event) => self.handle_event(event).await,
                None => Err(End::Session),
            },
            Some(ended) = self.exchange.tasks.join_next(), if has_tasks => Ok(ended?),
            () = &mut self.deadline, if has_deadline => Err(End::Silence),
            received = self.input.receive(&mut self.exchange.stream, self.wanted_len), if may_read => match received? {
                0 => Err(End::Client),
                _ => {
                    self.has_heard = true;
                    Ok(())
                }
            },
        }
    }

    /// Puts off the end by silence when something was received since.
    fn put_off_deadline(&mut self) {
        if let (true, Some(idle_time_max), Role::Main(_)) = (self.has_heard, self.idle_time_max, &self.exchange.role) {
            self.deadline.as_mut().reset(Instant::now() + idle_time_max);
        }
        self.has_heard = false;
    }

    /// Handles the events that are there, as many as fit into this turn.
    async fn handle_events(&mut self) -> Result<(), End> {
        for _ in 0..EVENTS_QUEUED_MAX {
            let Ok(event) = self.receiver.try_recv() else { break };
            self.handle_event(event).await?;
        }
        Ok(())
    }

    async fn handle_event(&mut self, event: Event) -> Result<(), End> {
        match event {
            Event::Frame(frame) => self.exchange.send_frame(frame).await?,
            Event::Opened(opened) => self.exchange.opened(opened),
            Event::Examined(examined) => {
                self.exchange.examined(&mut self.session, examined);
                if self.session.is_tls_due() {
                    self.start_tls().await?;
                }
            }
            // A parallel stream ends when its session does.
            Event::Drain => self.is_draining = !matches!(self.exchange.role, Role::Bound { .. }),
        }
        Ok(())
    }
}
