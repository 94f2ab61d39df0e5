//! One request and its answer, through waits and deferred answers, within a deadline.

use crate::{
    options::Options,
    refusal::refusal_of,
    session::{
        connection::{Connection, Message, Submission},
        pending::{Event, Sink, Ticket},
    },
};
use bytes::{Bytes, BytesMut};
use forebay_origin::OriginError;
use forebay_proto::{
    FileHandle, Request, Status,
    response::{ErrorBody, Wait},
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    time::{Instant, sleep, timeout_at},
};

/// Bytes of a whole answer, all its frames together: a directory of some 300 000 entries.
const ANSWER_LEN_MAX: u32 = 64 << 20;

#[derive(Debug)]
pub(crate) enum Answer {
    /// The bodies of all frames, joined.
    Body(Bytes),
    /// The body of a redirect.
    Redirect(Bytes),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CallLimits {
    /// Longest silence of the connection while the answer is owed.
    pub(crate) silence: Duration,
    /// Longest pause that the server may impose.
    pub(crate) wait_max: Duration,
    /// When the call ends at the latest.
    pub(crate) deadline: Instant,
    /// The time from which the deadline was reckoned, for the error's text.
    pub(crate) total: Duration,
}

impl CallLimits {
    pub(crate) fn from_now(options: &Options) -> Self {
        Self {
            silence: options.first_byte_timeout,
            wait_max: options.wait_max,
            deadline: Instant::now() + options.deadline,
            total: options.deadline,
        }
    }
}

/// Sends a request for anything but file bytes, and waits for its whole answer. Errors name the action `doing`.
///
/// Dropping the future gives the answer up; a file that is opened by a late answer is closed.
///
/// # Errors
/// `Refused` with the server's text, `Lost`, `TimedOut`, or `Protocol`.
pub(crate) async fn call(
    connection: &Arc<Connection>,
    request: &Request<'_>,
    doing: &'static str,
    limits: CallLimits,
) -> Result<Answer, OriginError> {
    loop {
        // A caller with many questions in a row must not start another one when the time is over.
        if Instant::now() >= limits.deadline {
            return Err(timed_out(connection, doing, limits.total));
        }
        // Sending waits while the session has as many outstanding requests as it may.
        let opens = matches!(request, Request::Open(_));
        let sink = if opens { Sink::Opened } else { Sink::Reply { len_max: ANSWER_LEN_MAX } };
        let sent = timeout_at(limits.deadline, Call::send(connection, request, sink, doing)).await;
        let call = sent.map_err(|_| timed_out(connection, doing, limits.total))??;
        match call.answer(limits).await? {
            Outcome::Answer(answer) => return Ok(answer),
            Outcome::AskAgain(pause) => {
                let pause = pause.min(limits.wait_max);
                // The server could not be asked again in time: the caller gets the error now.
                if Instant::now() + pause >= limits.deadline {
                    return Err(timed_out(connection, doing, limits.total));
                }
                sleep(pause).await;
            }
        }
    }
}

enum Outcome {
    Answer(Answer),
    AskAgain(Duration),
}

/// A request whose answer is owed. Dropping it gives the answer up.
pub(crate) struct Call<'a> {
    connection: &'a Connection,
    doing: &'static str,
    opens: bool,
    ticket: Ticket,
    pub(crate) events: UnboundedReceiver<(usize, Event)>,
    is_answered: bool,
}

impl<'a> Call<'a> {
    pub(crate) async fn send(
        connection: &'a Connection,
        request: &Request<'_>,
        sink: Sink,
        doing: &'static str,
    ) -> Result<Self, OriginError> {
        // Only the session keeps a sender, so that `events` ends when the session drops the request.
        let (sender, events) = mpsc::unbounded_channel();
        let opens = sink == Sink::Opened;
        let submission = Submission { tag: 0, sink, message: Message::Request(*request) };
        let tickets = connection.submit(vec![submission], &sender).await;
        let ticket =
            tickets.and_then(|tickets| tickets.first().copied().ok_or_else(|| "the request was not sent".to_owned()));
        let ticket = ticket.map_err(|reason| lost(connection, doing, reason))?;
        Ok(Self { connection, doing, opens, ticket, events, is_answered: false })
    }

    async fn answer(mut self, limits: CallLimits) -> Result<Outcome, OriginError> {
        let mut collected = BytesMut::new();
        let mut silent_since = Some(Instant::now());
        loop {
            let Event::Reply { status, body } = self.next_event(silent_since, limits).await? else {
                return Err(protocol(self.connection, "file bytes in reply to another request"));
            };
            self.is_answered = !matches!(status, Status::OKSOFAR | Status::WAITRESP);
            match status {
                // Most answers have one frame: their body is not copied.
                Status::OK if collected.is_empty() => return Ok(Outcome::Answer(Answer::Body(body))),
                Status::OK | Status::OKSOFAR => {
                    // Each frame is within the limit already; their sum must be, too.
                    if collected.len().saturating_add(body.len()) > ANSWER_LEN_MAX as usize {
                        return Err(protocol(self.connection, "the answer is too long"));
                    }
                    collected.extend_from_slice(&body);
                    if status == Status::OK {
                        return Ok(Outcome::Answer(Answer::Body(collected.freeze())));
                    }
                    silent_since = Some(Instant::now());
                }
                Status::ERROR => return Err(refused(self.connection, &body)),
                Status::REDIRECT => return Ok(Outcome::Answer(Answer::Redirect(body))),
                Status::WAIT => return Ok(Outcome::AskAgain(pause(self.connection, &body)?)),
                // The server has announced a later answer: from here on only the deadline counts.
                Status::WAITRESP => silent_since = None,
                _ => return Err(protocol(self.connection, format!("an answer of status {status}"))),
            }
        }
    }

    /// The next event; a connection that is silent for too long is given up.
    async fn next_event(&mut self, silent_since: Option<Instant>, limits: CallLimits) -> Result<Event, OriginError> {
        loop {
            let silence_ends = silent_since.map(|since| since.max(self.connection.last_activity()) + limits.silence);
            let wake_at = silence_ends.map_or(limits.deadline, |at| at.min(limits.deadline));
            match timeout_at(wake_at, self.events.recv()).await {
                Ok(Some((_, Event::Lost(reason)))) => {
                    // A broken session owes nothing: there is no answer to abandon.
                    self.is_answered = true;
                    return Err(lost(self.connection, self.doing, reason));
                }
                Ok(Some((_, event))) => return Ok(event),
                Ok(None) => return Err(lost(self.connection, self.doing, "the connection was given up".to_owned())),
                Err(_) if Instant::now() >= limits.deadline => {
                    return Err(timed_out(self.connection, self.doing, limits.total));
                }
                Err(_) => {
                    // Bytes of other answers may have arrived since the timer was set: then the wait continues.
                    let silence_ends = silent_since.map(|since| since.max(self.connection.last_activity()));
                    if silence_ends.is_some_and(|since| Instant::now() >= since + limits.silence) {
                        self.connection.break_with("the server went silent");
                        self.is_answered = true;
                        return Err(timed_out(self.connection, self.doing, limits.silence));
                    }
                }
            }
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        self.connection.abandon(self.ticket);
        // Closed first: a file opened by an answer that arrives later is closed by the task that reads the socket, one
        // opened before is closed here.
        self.events.close();
        while let Ok((_, event)) = self.events.try_recv() {
            if let Event::Reply { status: Status::OK, body } = event
                && self.opens
                && let Some(handle) = body.first_chunk()
            {
                self.connection.close_file(FileHandle(*handle));
            }
        }
    }
}

/// The pause that a `wait` demands; at least 50 ms, so that a server that says 0 is not asked in a tight loop.
pub(crate) fn pause(connection: &Connection, body: &[u8]) -> Result<Duration, OriginError> {
    const PAUSE_MIN: Duration = Duration::from_millis(50);
    let wait = Wait::parse(body).map_err(|error| protocol(connection, error))?;
    Ok(Duration::from_secs(u64::from(wait.seconds)).max(PAUSE_MIN))
}

/// The error that a server answered with.
pub(crate) fn refused(connection: &Connection, body: &[u8]) -> OriginError {
    match ErrorBody::parse(body) {
        Ok(ErrorBody { code, text }) => {
            let text = if text.is_empty() { code.to_string() } else { text };
            OriginError::Refused { endpoint: connection.endpoint().clone(), kind: refusal_of(code, &text), text }
        }
        Err(error) => protocol(connection, error),
    }
}

pub(crate) fn lost(connection: &Connection, doing: &'static str, reason: String) -> OriginError {
    OriginError::Lost { endpoint: connection.endpoint().clone(), doing, reason }
}

pub(crate) fn timed_out(connection: &Connection, doing: &'static str, limit: Duration) -> OriginError {
    OriginError::TimedOut { endpoint: connection.endpoint().clone(), doing, seconds: seconds(limit) }
}

pub(crate) fn protocol(connection: &Connection, what: impl ToString) -> OriginError {
    OriginError::Protocol { endpoint: connection.endpoint().clone(), what: what.to_string() }
}

/// A time limit in whole seconds, at least 1.
pub(crate) fn seconds(limit: Duration) -> u64 {
    limit.as_millis().div_ceil(1000).max(1).try_into().unwrap_or(u64::MAX)
}
