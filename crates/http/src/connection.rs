//! The task of a client's connection.

use crate::{
    http2,
    input::Input,
    options::REQUESTS_PER_TURN,
    peer::Peer,
    request::{Broken, Context},
    state::State,
};
use forebay_front::{ConnectionPlaces, DeliveryError, NewClient};
use forebay_http_proto::{Next, Refusal, Session};
use forebay_net::{Stream, TlsError};
use forebay_telemetry::TlsResult;
use forebay_types::Side;
use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::Arc,
};
use tokio::{
    sync::watch,
    time::{Instant, Sleep, sleep_until, timeout},
};

/// First byte of a TLS handshake.
pub(crate) const TLS_FIRST_BYTE: u8 = 0x16;

/// Serves a client until it leaves, or until `stop` is true and its request is answered.
pub(crate) async fn serve(state: Arc<State>, client: NewClient, stop: watch::Receiver<bool>) {
    let NewClient { stream, first_byte, peer: address, places } = client;
    let ConnectionPlaces { in_total: _in_total, of_client, login } = places;
    let _gauge = state.front.backend.metrics().open_connection();
    let mut stream = Stream::from(stream);
    if first_byte == TLS_FIRST_BYTE
        && let Err(error) = Box::pin(start_tls(&state, &mut stream)).await
    {
        tracing::info!(peer = %address, %error, side = %error.side(), "connection closed");
        return;
    }
    // There is no login to wait for.
    drop(login);
    let peer = Arc::new(Peer::new(state, address, stream.tls().cloned(), of_client.handles().clone()));
    let end = if peer.tls.as_ref().is_some_and(|facts| facts.is_http2) {
        Box::pin(http2::run(peer, stream, stop)).await
    } else {
        Connection::new(Context::new(peer, stream)).run(stop).await
    };
    match end {
        // These are ordinary ends. Others are of interest to the administrator.
        End::Client | End::Server | End::Idle | End::Broken(Broken::Left) => {
            tracing::debug!(peer = %address, %end, "connection closed");
        }
        end => tracing::info!(peer = %address, %end, side = %end.side(), "connection closed"),
    }
}

async fn start_tls(state: &State, stream: &mut Stream) -> Result<(), TlsError> {
    let Some(tls) = &state.options.tls else { return Ok(()) };
    let handshake = timeout(tls.handshake_time_max, stream.accept_tls(&tls.acceptor, &[]));
    let done = handshake.await.unwrap_or(Err(TlsError::TimedOut { limit: tls.handshake_time_max })).map(drop);
    state.front.backend.metrics().add_tls_handshake(match &done {
        Ok(()) => TlsResult::Done,
        Err(TlsError::TimedOut { .. }) => TlsResult::TimedOut,
        Err(_) => TlsResult::Failed,
    });
    done
}

struct Connection {
    context: Context<Stream>,
    input: Input,
    session: Session,
    /// Wakes the task when the client has been silent for too long, or before that.
    deadline: Pin<Box<Sleep>>,
    /// Since when the client has to send something.
    waits_since: Instant,
    /// Requests served in this turn.
    served: usize,
    /// Whether no request has been served yet.
    is_new: bool,
    /// Since when the server stops.
    stops_since: Option<Instant>,
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    #[error("the client closed it")]
    Client,
    #[error("the last answer was sent")]
    Server,
    #[error("the client was idle for too long")]
    Idle,
    #[error("the client did not complete a request in time")]
    Slow,
    #[error("a request was refused: {0}")]
    Refused(#[from] Refusal),
    #[error("it cannot be read from: {0}")]
    Input(#[from] io::Error),
    #[error("HTTP/2: {0}")]
    Http2(h2::Error),
    #[error(transparent)]
    Broken(#[from] Broken),
}

impl From<h2::Error> for End {
    fn from(error: h2::Error) -> Self {
        if error.is_io() {
            // A client that closes its connection in its own way has just left.
            return error.into_io().map_or(Self::Client, Self::Input);
        }
        Self::Http2(error)
    }
}

impl From<DeliveryError> for End {
    fn from(error: DeliveryError) -> Self {
        Self::Broken(error.into())
    }
}

impl End {
    const fn side(&self) -> Side {
        match self {
            Self::Client | Self::Idle | Self::Slow | Self::Refused(_) | Self::Input(_) | Self::Http2(_) => Side::Client,
            Self::Broken(broken) => broken.side(),
            Self::Server => Side::Internal,
        }
    }
}

/// Bytes of a client that are read past after the last answer: a reset would destroy the answer on its way.
const LINGER_LEN_MAX: usize = 256 << 10;

/// How long a client may take to close its side after the last answer.
const LINGER_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(2);

impl Connection {
    fn new(context: Context<Stream>) -> Self {
        let idle_since = Instant::now();
        let deadline = Box::pin(sleep_until(idle_since + context.peer.state.options.header_time_max));
        let session = Session::default();
        Self {
            context,
            input: Input::default(),
            session,
            deadline,
            waits_since: idle_since,
            served: 0,
            is_new: true,
            stops_since: None,
        }
    }

    async fn run(mut self, mut stop: watch::Receiver<bool>) -> End {
        // One future for all waits: each new one would take the locks of the channel.
        let mut stopped = pin!(async move {
            // An error means that the server is gone.
            let _ = stop.wait_for(|&is_stopped| is_stopped).await;
        });
        let end = loop {
            if let Err(end) = self.turn(stopped.as_mut()).await {
                break end;
            }
        };
        // A body that cannot be read past belongs to a request that has its answer.
        if let End::Refused(refusal) = &end
            && !self.session.has_body()
        {
            self.context.is_ending = true;
            self.context.refuse(*refusal);
        }
        if matches!(end, End::Refused(_) | End::Server)
            && self.context.output.flush(&mut self.context.wire).await.is_ok()
        {
            // An error means that the client did not wait.
            let _ = timeout(LINGER_TIME_MAX, self.linger()).await;
        }
        end
    }

    /// Serves the received requests, sends the answers, and waits for more.
    async fn turn(&mut self, stopped: Pin<&mut impl Future<Output = ()>>) -> Result<(), End> {
        self.context.received = forebay_net::clock::monotonic();
        let needs_more = self.serve_input().await?;
        self.context.count_hits();
        self.context.output.flush(&mut self.context.wire).await?;
        if self.context.is_ending || self.context.peer.guesses_tokens() {
            return Err(End::Server);
        }
        // Tokio cannot preempt a task whose socket always has bytes.
        if self.served >= REQUESTS_PER_TURN {
            self.served = 0;
            tokio::task::yield_now().await;
        }
        if needs_more { self.wait(stopped).await } else { Ok(()) }
    }

    /// Serves received requests, up to the limit of one turn; whether more bytes are needed.
    async fn serve_input(&mut self) -> Result<bool, End> {
        while self.served < REQUESTS_PER_TURN && !self.context.is_ending {
            if self.input.is_empty() {
                return Ok(true);
            }
            match self.session.handle_input(self.input.waiting())? {
                Next::NeedMore => return Ok(true),
                Next::Skipped { consumed } => self.input.consume(consumed),
                Next::Request { consumed, head } => {
                    self.served += 1;
                    self.is_new = false;
                    self.context.is_ending |= !head.is_kept_alive || self.session.has_long_body();
                    self.context.answer(&head).await?;
                    self.input.consume(consumed);
                    // The time of a request counts from the answer to the one before.
                    self.waits_since = Instant::now();
                    self.context.peer.note_answer(self.waits_since.into_std());
                }
            }
            if self.context.output.is_full() {
                self.context.output.flush(&mut self.context.wire).await?;
            }
        }
        Ok(false)
    }

    /// Waits for bytes of the client.
    async fn wait(&mut self, stopped: Pin<&mut impl Future<Output = ()>>) -> Result<(), End> {
        let is_idle = self.input.is_empty() && self.session.is_idle();
        let silent_until = self.silent_until(is_idle)?;
        let was_empty = self.input.is_empty();
        tokio::select! {
            biased;
            received = self.input.receive(&mut self.context.wire) => {
                if received? == 0 {
                    return Err(End::Client);
                }
                if was_empty {
                    self.waits_since = Instant::now();
                }
                Ok(())
            }
            () = stopped, if is_idle && self.stops_since.is_none() => {
                self.stops_since = Some(Instant::now());
                Ok(())
            }
            () = &mut self.deadline => {
                let now = Instant::now();
                self.context.peer.files.close_unused(now.into_std());
                match silent_until {
                    (until, end) if until <= now => Err(end),
                    _ => Ok(()),
                }
            }
        }
    }

    /// The time at which silence ends the connection, and why. The timer is set to it, or to an earlier time.
    fn silent_until(&mut self, is_idle: bool) -> Result<(Instant, End), End> {
        let State { options, front, .. } = &*self.context.peer.state;
        let mut silent_until = if is_idle {
            (self.waits_since + options.idle_time_max, End::Idle)
        } else {
            (self.waits_since + options.header_time_max, End::Slow)
        };
        if is_idle && let Some(since) = self.stops_since {
            // The first request of a client may be on its way.
            let end = if self.is_new { since + front.first_request_time_max } else { since };
            silent_until = (silent_until.0.min(end), End::Server);
            if silent_until.0 <= Instant::now() {
                return Err(End::Server);
            }
        }
        let close = self.context.peer.files.next_close().map(Instant::from_std);
        let wake = close.map_or(silent_until.0, |close| silent_until.0.min(close));
        // Later times need no new timer: it wakes the task early, which then looks again. Timers cost a lock.
        if wake < self.deadline.deadline() || self.deadline.is_elapsed() {
            self.deadline.as_mut().reset(wake);
        }
        Ok(silent_until)
    }

    /// Waits until the client has closed its side, and drops what it still sends.
    async fn linger(&mut self) -> io::Result<()> {
        poll_fn(|context| tokio::io::AsyncWrite::poll_shutdown(Pin::new(&mut self.context.wire), context)).await?;
        let mut dropped_len = 0;
        while dropped_len < LINGER_LEN_MAX {
            self.input = Input::default();
            match self.input.receive(&mut self.context.wire).await? {
                0 => break,
                len => dropped_len += len,
            }
        }
        Ok(())
    }
}
