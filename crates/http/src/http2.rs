//! Connections of HTTP/2, which clients choose in the TLS handshake.
//!
//! Each request has a task of its own, and is answered by the same code as over HTTP/1.1.

use crate::{
    connection::End,
    exchange::Exchange,
    options::{DRAIN_TIME_MAX, REQUEST_WINDOW_LEN, RESETS_PENDING_MAX, STREAM_PIECE_LEN, STREAMS_MAX},
    peer::Peer,
    request::{Broken, Context},
};
use bytes::Bytes;
use forebay_http_proto::{BODY_LEN_MAX, HEAD_LEN_MAX, Head, Refusal};
use forebay_net::Stream;
use h2::{
    RecvStream,
    server::{Builder, Connection, SendResponse},
};
use http::{Request, request::Parts};
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, Sleep, sleep_until, timeout},
};

/// Serves a client until it leaves, or until `stop` is true and its requests are answered.
pub(crate) async fn run(peer: Arc<Peer>, stream: Stream, mut stop: watch::Receiver<bool>) -> End {
    let Ok(begun) = timeout(peer.state.options.header_time_max, builder().handshake::<_, Bytes>(stream)).await else {
        return End::Slow;
    };
    let mut session = match begun {
        Ok(connection) => Session::new(connection, peer),
        Err(error) => return error.into(),
    };
    loop {
        let next = tokio::select! {
            next = session.next() => next,
            _ = stop.wait_for(|&is_stopped| is_stopped), if !session.is_draining => {
                session.drain(End::Server);
                Ok(())
            }
        };
        if let Err(end) = next {
            return end;
        }
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(u32::try_from(STREAMS_MAX).unwrap_or(u32::MAX))
        .max_header_list_size(u32::try_from(HEAD_LEN_MAX).unwrap_or(u32::MAX))
        .initial_window_size(REQUEST_WINDOW_LEN)
        .initial_connection_window_size(REQUEST_WINDOW_LEN)
        .max_pending_accept_reset_streams(RESETS_PENDING_MAX)
        .max_send_buffer_size(STREAM_PIECE_LEN);
    builder
}

struct Session {
    connection: Connection<Stream, Bytes>,
    peer: Arc<Peer>,
    answers: JoinSet<()>,
    /// Wakes the task when the client has been idle for too long, or files are to be closed.
    deadline: Pin<Box<Sleep>>,
    /// Since when there is no request.
    idle_since: Instant,
    is_draining: bool,
    /// The reason for the end of the connection, while the last requests are answered.
    end: Option<End>,
}

impl Session {
    fn new(connection: Connection<Stream, Bytes>, peer: Arc<Peer>) -> Self {
        let idle_since = Instant::now();
        let deadline = Box::pin(sleep_until(idle_since + peer.state.options.idle_time_max));
        Self { connection, peer, answers: JoinSet::new(), deadline, idle_since, is_draining: false, end: None }
    }

    /// Waits for the next request, the end of one, or a deadline.
    async fn next(&mut self) -> Result<(), End> {
        let wake = self.next_wake();
        // Later times need no new timer: it wakes the task early, which then looks again.
        if wake < self.deadline.deadline() || self.deadline.is_elapsed() {
            self.deadline.as_mut().reset(wake);
        }
        // A client may reset requests whose answers have not ended yet, and send others.
        let has_room = self.answers.len() < STREAMS_MAX;
        let connection = &mut self.connection;
        tokio::select! {
            biased;
            accepted = poll_fn(|context| {
                if has_room { connection.poll_accept(context) } else { connection.poll_closed(context).map(|closed| closed.err().map(Err)) }
            }) => match accepted {
                Some(Ok((request, respond))) => {
                    self.answers.spawn(answer(Arc::clone(&self.peer), request, respond));
                    Ok(())
                }
                Some(Err(error)) => Err(self.end.take().unwrap_or_else(|| error.into())),
                None => Err(self.end.take().unwrap_or(End::Client)),
            },
            Some(_) = self.answers.join_next() => {
                let now = Instant::now();
                self.peer.note_answer(now.into_std());
                if self.answers.is_empty() {
                    self.idle_since = now;
                }
                if self.peer.guesses_tokens() {
                    self.drain(End::Server);
                }
                Ok(())
            }
            () = &mut self.deadline => self.handle_deadline(),
        }
    }

    fn next_wake(&self) -> Instant {
        let state = &self.peer.state;
        let limit = if self.is_draining { DRAIN_TIME_MAX } else { state.options.idle_time_max };
        let idle = self.idle_since + limit;
        // While requests are answered, their own limits count.
        let idle = if self.answers.is_empty() { idle } else { Instant::now() + limit };
        self.peer.files.next_close().map_or(idle, |close| idle.min(Instant::from_std(close)))
    }

    fn handle_deadline(&mut self) -> Result<(), End> {
        let now = Instant::now();
        self.peer.files.close_unused(now.into_std());
        if !self.answers.is_empty() {
            return Ok(());
        }
        if self.is_draining && now >= self.idle_since + DRAIN_TIME_MAX {
            return Err(self.end.take().unwrap_or(End::Idle));
        }
        if !self.is_draining && now >= self.idle_since + self.peer.state.options.idle_time_max {
            self.drain(End::Idle);
        }
        Ok(())
    }

    /// Takes no further requests. The connection ends when those in progress are answered.
    fn drain(&mut self, end: End) {
        if !self.is_draining {
            self.is_draining = true;
            self.idle_since = Instant::now();
            self.end = Some(end);
            self.connection.graceful_shutdown();
        }
    }
}

/// Answers one request, in a task of its own.
async fn answer(peer: Arc<Peer>, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
    let (parts, body) = request.into_parts();
    let header_time_max = peer.state.options.header_time_max;
    let exchange = Exchange::new(respond, &peer.memory);
    let mut context = Context::new(peer, exchange);
    let answered = match head_of(&parts) {
        Ok(head) => Box::pin(context.answer(&head)).await,
        Err(refusal) => {
            context.refuse(refusal);
            Ok(())
        }
    };
    context.count_hits();
    let finished = match answered {
        Ok(()) => context.finish().await,
        Err(broken) => Err(broken),
    };
    match finished {
        // The client sees an end of the request after that of its answer.
        Ok(()) => drop(timeout(header_time_max, skip(body)).await),
        Err(broken) => {
            context.wire.reset();
            log(&context, &broken);
        }
    }
}

fn log(context: &Context<Exchange>, broken: &Broken) {
    let peer = &context.peer.address;
    match broken {
        Broken::Left => tracing::debug!(%peer, "a request was given up by its client"),
        broken => tracing::info!(%peer, %broken, side = %broken.side(), "an answer was broken off"),
    }
}

/// The head of a request. The name of the server is in a pseudo-header field.
fn head_of(parts: &Parts) -> Result<Head<'_>, Refusal> {
    let target = parts.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str);
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    let mut fields: Vec<(&str, &str)> = authority.map(|authority| ("host", authority)).into_iter().collect();
    for (name, value) in &parts.headers {
        if name != http::header::HOST || authority.is_none() {
            // Fields of other characters carry nothing that is read here.
            fields.push((name.as_str(), std::str::from_utf8(value.as_bytes()).unwrap_or_default()));
        }
    }
    Head::of_parts(parts.method.as_str(), target, fields)
}

/// Reads past the body of a request, to its end or the limit.
async fn skip(body: RecvStream) {
    let mut body = pin!(body);
    let mut skipped_len = 0;
    while skipped_len < BODY_LEN_MAX {
        let next = poll_fn(|context| -> Poll<_> { body.poll_data(context) }).await;
        let Some(Ok(data)) = next else { return };
        skipped_len += data.len() as u64;
        // An error means that the stream has ended.
        let _ = body.flow_control().release_capacity(data.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_http_proto::Method;

    fn head(request: http::request::Builder) -> Parts {
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn heads_have_target_and_host_of_the_pseudo_fields() {
        let parts =
            head(Request::get("https://cache:1094/a%20b?authz=x").header("host", "other").header("range", "bytes=0-1"));
        let read = head_of(&parts).unwrap();
        assert_eq!((read.method, read.target, read.field("host")), (Method::Get, "/a%20b?authz=x", Some("cache:1094")));
        assert_eq!((read.field("range"), read.is_kept_alive), (Some("bytes=0-1"), true));
        let parts = head(Request::options("*").header("host", "cache"));
        let read = head_of(&parts).unwrap();
        assert_eq!((read.target, read.field("host")), ("*", Some("cache")));
    }

    #[test]
    fn announced_bodies_are_limited() {
        let with = |method: &str, len: u64| {
            head(Request::builder().method(method).uri("https://h/f").header("content-length", len))
        };
        assert!(head_of(&with("PROPFIND", BODY_LEN_MAX)).is_ok());
        assert_eq!(head_of(&with("PROPFIND", BODY_LEN_MAX + 1)).unwrap_err().status.0, 413);
        // It is refused for its method.
        assert!(head_of(&with("PUT", BODY_LEN_MAX + 1)).is_ok());
    }
}
