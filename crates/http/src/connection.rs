//! The task of a client's connection.

use crate::{
    http2,
    options::{RECEIVE_LEN, REQUESTS_PER_TURN},
    peer::Peer,
    request::{Broken, Context},
    state::State,
};
use forebay_front::{ConnectionPlaces, DeliveryError, NewClient};
use forebay_http_proto::{HEAD_LEN_MAX, Next, Refusal, Session};
use forebay_net::{Stream, TlsError};
use forebay_telemetry::TlsResult;
use forebay_types::Side;
use std::{future::poll_fn, io, mem::MaybeUninit, pin::Pin, sync::Arc, task::Poll};
use tokio::{
    io::ReadBuf,
    sync::watch,
    time::{Instant, Sleep, sleep, sleep_until, timeout},
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
        && let Err(error) = start_tls(&state, &mut stream).await
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
        Connection::new(Context::new(peer, stream), stop).run().await
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
    /// Received bytes; those before `start` have been consumed.
    input: Vec<u8>,
    start: usize,
    session: Session,
    stop: watch::Receiver<bool>,
    /// Wakes the task when the client has been silent for too long, or before that.
    deadline: Pin<Box<Sleep>>,
    /// Since when the client has to send something.
    waits_since: Instant,
    /// Requests served in this turn.
    served: usize,
    /// Whether no request has been served yet.
    is_new: bool,
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
    fn new(context: Context<Stream>, stop: watch::Receiver<bool>) -> Self {
        let idle_since = Instant::now();
        let deadline = Box::pin(sleep_until(idle_since + context.peer.state.options.header_time_max));
        let session = Session::default();
        Self {
            context,
            input: Vec::new(),
            start: 0,
            session,
            stop,
            deadline,
            waits_since: idle_since,
            served: 0,
            is_new: true,
        }
    }

    async fn run(mut self) -> End {
        let end = loop {
            if let Err(end) = self.turn().await {
                break end;
            }
        };
        if let End::Refused(refusal) = &end {
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
    async fn turn(&mut self) -> Result<(), End> {
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
        if needs_more { self.wait().await } else { Ok(()) }
    }

    /// Serves received requests, up to the limit of one turn; whether more bytes are needed.
    async fn serve_input(&mut self) -> Result<bool, End> {
        while self.served < REQUESTS_PER_TURN && !self.context.is_ending {
            let waiting = self.input.get(self.start..).unwrap_or_default();
            if waiting.is_empty() {
                return Ok(true);
            }
            match self.session.handle_input(waiting)? {
                Next::NeedMore => return Ok(true),
                Next::Skipped { consumed } => self.start += consumed,
                Next::Request { consumed, head } => {
                    self.served += 1;
                    self.is_new = false;
                    self.context.is_ending |= !head.is_kept_alive;
                    self.context.answer(&head).await?;
                    self.start += consumed;
                    // The time of a request counts from the answer to the one before.
                    self.waits_since = Instant::now();
                    self.context.peer.files.note_answer(self.waits_since.into_std());
                }
            }
            if self.context.output.is_full() {
                self.context.output.flush(&mut self.context.wire).await?;
            }
        }
        Ok(false)
    }

    /// Waits for bytes of the client.
    async fn wait(&mut self) -> Result<(), End> {
        self.input.drain(..self.start.min(self.input.len()));
        self.start = 0;
        if self.input.is_empty() {
            // An idle connection holds no buffers.
            self.input = Vec::new();
            self.context.output.release();
        }
        let is_idle = self.input.is_empty() && self.session.is_idle();
        let options = &self.context.peer.state.options;
        let (time_max, silence) =
            if is_idle { (options.idle_time_max, End::Idle) } else { (options.header_time_max, End::Slow) };
        let silent_until = self.waits_since + time_max;
        let wake = self
            .context
            .peer
            .files
            .next_close()
            .map_or(silent_until, |close| silent_until.min(Instant::from_std(close)));
        // Later times need no new timer: it wakes the task early, which then looks again. Timers cost a lock.
        if wake < self.deadline.deadline() || self.deadline.is_elapsed() {
            self.deadline.as_mut().reset(wake);
        }
        let was_empty = self.input.is_empty();
        let grace = self.is_new.then_some(self.context.peer.state.front.first_request_time_max);
        let stopped = async {
            // An error means that the server is gone.
            let _ = self.stop.wait_for(|&is_stopped| is_stopped).await;
            if let Some(grace) = grace {
                sleep(grace).await;
            }
        };
        tokio::select! {
            biased;
            received = receive(&mut self.context.wire, &mut self.input) => {
                if received? == 0 {
                    return Err(End::Client);
                }
                if was_empty {
                    self.waits_since = Instant::now();
                }
                Ok(())
            }
            () = stopped, if is_idle => Err(End::Server),
            () = &mut self.deadline => {
                let now = Instant::now();
                self.context.peer.files.close_unused(now.into_std());
                if silent_until <= now { Err(silence) } else { Ok(()) }
            }
        }
    }

    /// Waits until the client has closed its side, and drops what it still sends.
    async fn linger(&mut self) -> io::Result<()> {
        poll_fn(|context| tokio::io::AsyncWrite::poll_shutdown(Pin::new(&mut self.context.wire), context)).await?;
        let mut dropped_len = 0;
        while dropped_len < LINGER_LEN_MAX {
            self.input.clear();
            match receive(&mut self.context.wire, &mut self.input).await? {
                0 => break,
                len => dropped_len += len,
            }
        }
        Ok(())
    }
}

/// Waits for bytes and appends them; 0 at the end of the stream. The buffer is taken only when there are some.
async fn receive(stream: &mut Stream, input: &mut Vec<u8>) -> io::Result<usize> {
    poll_fn(|context| {
        let mut room = [MaybeUninit::uninit(); RECEIVE_LEN];
        let mut room = ReadBuf::uninit(&mut room);
        let polled = stream.poll_receive(context, &mut room);
        let received = room.filled();
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => {
                input.extend_from_slice(received);
                Poll::Ready(Ok(received.len()))
            }
        }
    })
    .await
}

const _: () = assert!(RECEIVE_LEN < HEAD_LEN_MAX, "a head is received in several steps");
