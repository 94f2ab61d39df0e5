//! The way back of a request that is answered by a task of its own.

use crate::{
    event::{Event, Events, Frame},
    status::Failure,
};
use forebay_proto::response::ReplyTo;
use forebay_telemetry::Metrics;
use std::{pin::pin, time::Duration};
use tokio::time::{Instant, timeout_at};

/// The way back of one request that is answered by a task of its own.
///
/// The answer's frames go to the task of the connection that sends them. When the first one is late, the client is told to
/// go on waiting (once), and then gets the whole answer as one unsolicited message.
pub(crate) struct Answer {
    reply: ReplyTo,
    events: Events,
    /// The session's main connection, when `events` belongs to another one that may be gone.
    main: Option<Events>,
    /// When the client is to be told to go on waiting, if it understands that and has not been told yet.
    defer: Option<Defer>,
    /// Whether a part has been sent.
    has_begun: bool,
    metrics: Metrics,
}

/// When and how a client is told to go on waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defer {
    /// When.
    pub(crate) at: Instant,
    /// How long after a part has been sent.
    pub(crate) after: Duration,
    /// The bound of the wait that the client is told.
    pub(crate) seconds: u32,
}

/// The connection has ended: nobody waits for the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone;

/// Where answers go.
pub(crate) struct Way {
    /// The connection that sends the answer.
    pub(crate) events: Events,
    /// The session's main connection, when `events` is not its own.
    pub(crate) main: Option<Events>,
}

impl Answer {
    /// The answer `reply` on its `way`, deferred as `defer` says.
    pub(crate) fn new(reply: ReplyTo, way: Way, defer: Option<Defer>, metrics: Metrics) -> Self {
        Self { reply, events: way.events, main: way.main, defer, has_begun: false, metrics }
    }

    /// How to encode the answer's frames.
    pub(crate) const fn reply(&self) -> ReplyTo {
        self.reply
    }

    /// This answer, of which a part has been sent already.
    pub(crate) fn begun(mut self) -> Self {
        self.note_part();
        self
    }

    /// Where requests are counted.
    pub(crate) const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Whether the client has been told to go on waiting, and so expects one frame with the whole answer.
    pub(crate) const fn is_deferred(&self) -> bool {
        self.reply.is_deferred
    }

    /// Answers by ordinary frames although the client has been told to go on waiting: some answers are too long for one
    /// frame, and the reference client takes them (versions 5.5.3 and 6.2.1).
    pub(crate) const fn answer_directly(&mut self) {
        self.reply.is_deferred = false;
    }

    /// Does `work`. When it takes too long, the client is told to go on waiting, once.
    pub(crate) async fn wait_for<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        if let Some(Defer { at, seconds, .. }) = self.defer {
            if let Ok(done) = timeout_at(at, &mut work).await {
                return done;
            }
            self.defer = None;
            let mut head = Vec::new();
            self.reply.wait_response(seconds, &mut head);
            // The work may hold what other clients wait for, so it goes on however slow this client is to be told.
            let (told, done) = tokio::join!(self.deliver(head.into()), work);
            // What has begun in ordinary frames goes on in such.
            self.reply.is_deferred = told.is_ok() && !self.has_begun;
            return done;
        }
        work.await
    }

    /// Sends one frame of several.
    pub(crate) async fn send(&mut self, frame: Frame) -> Result<(), Gone> {
        let sent = self.deliver(frame).await;
        self.note_part();
        sent
    }

    /// From now on the answer stays on its way, and silence counts anew.
    fn note_part(&mut self) {
        self.has_begun = true;
        self.main = None;
        if let Some(defer) = &mut self.defer {
            defer.at = Instant::now() + defer.after;
        }
    }

    /// Sends the only or the last frame.
    pub(crate) async fn finish(mut self, encode: impl FnOnce(ReplyTo, &mut Vec<u8>)) {
        let mut head = Vec::new();
        encode(self.reply, &mut head);
        // Nobody is left to hear that the connection has ended.
        let _ = self.send(head.into()).await;
    }

    /// Sends an error.
    pub(crate) async fn fail(self, failure: Failure) {
        self.metrics.add_client_error(failure.side);
        self.finish(|reply, out| reply.error(failure.code, &failure.text, out)).await;
    }

    /// Sends what `result` holds: an answer to encode, or an error.
    pub(crate) async fn conclude<T, E: Into<Failure>>(
        self,
        result: Result<T, E>,
        encode: impl FnOnce(ReplyTo, T, &mut Vec<u8>),
    ) {
        match result {
            Ok(value) => self.finish(|reply, out| encode(reply, value, out)).await,
            Err(error) => self.fail(error.into()).await,
        }
    }

    /// Hands an event to the connection's task.
    pub(crate) async fn hand_over(&self, event: Event) -> Result<(), Gone> {
        self.events.send(event).await.map_err(|_| Gone)
    }

    /// Hands a frame to the connection's task; when that is a stream that has ended, to the main connection, as long as
    /// the answer has not begun elsewhere.
    async fn deliver(&mut self, frame: Frame) -> Result<(), Gone> {
        let Err(refused) = self.events.send(Event::Frame(frame)).await else { return Ok(()) };
        let main = self.main.take().ok_or(Gone)?;
        self.events = main;
        self.events.send(refused.0).await.map_err(|_| Gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_proto::StreamId;
    use tokio::sync::{mpsc, oneshot};

    #[tokio::test(start_paused = true)]
    async fn work_goes_on_while_the_client_is_too_slow_to_be_told_to_wait() {
        let (events, mut receiver) = mpsc::channel(1);
        events.send(Event::Drain).await.unwrap();
        let defer = Defer { at: Instant::now(), after: Duration::from_secs(10), seconds: 1800 };
        let way = Way { events, main: None };
        let reply = ReplyTo::direct(StreamId::ZERO);
        let mut answer = Answer::new(reply, way, Some(defer), Metrics::new());
        let (give, given) = oneshot::channel();
        let waiting = tokio::spawn(async move {
            let work = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                give.send(()).unwrap();
            };
            answer.wait_for(work).await;
            answer.is_deferred()
        });
        tokio::time::timeout(Duration::from_secs(60), given).await.expect("the work is not held up").unwrap();
        assert!(matches!(receiver.recv().await, Some(Event::Drain)));
        assert!(matches!(receiver.recv().await, Some(Event::Frame(_))), "the client is told to wait");
        assert!(waiting.await.unwrap());
    }
}
