//! Answers of requests that have a task of their own.

use crate::base::{
    event::{Event, Events, Frame},
    status::Failure,
};
use forebay_proto::response::ReplyTo;
use forebay_telemetry::Metrics;
use std::{pin::pin, time::Duration};
use tokio::time::{Instant, timeout_at};

/// The answer of one request that has a task of its own.
///
/// Its frames go to the task of the connection that sends them. If the first one is late, the client gets a wait response
/// (once), and then the whole answer as one unsolicited message.
pub(crate) struct Answer {
    /// Deferred once the client has got a wait response, and so expects the whole answer in one frame.
    pub(crate) reply: ReplyTo,
    pub(crate) events: Events,
    /// The session's main connection, when `events` belongs to another one that may be gone.
    pub(crate) main: Option<Events>,
    /// The wait response, if the client understands one and has not got it yet.
    pub(crate) defer: Option<Defer>,
    pub(crate) has_begun: bool,
    pub(crate) metrics: Metrics,
}

/// When a wait response is sent, and its contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defer {
    pub(crate) at: Instant,
    /// Silence after a frame until the next wait response is due.
    pub(crate) after: Duration,
    /// The upper bound of the wait, for the client.
    pub(crate) seconds: u32,
}

/// The connection has ended, or the answer has failed: nothing more is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone;

impl Answer {
    /// Sends ordinary frames although the client has got a wait response. Some answers are too long for one frame, and the
    /// reference client accepts this (versions 5.5.3 and 6.2.1).
    pub(crate) const fn answer_directly(&mut self) {
        self.reply.is_deferred = false;
    }

    /// Does `work`, and sends a wait response if that takes too long.
    pub(crate) async fn wait_for<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        if let Some(Defer { at, seconds, .. }) = self.defer {
            if let Ok(done) = timeout_at(at, &mut work).await {
                return done;
            }
            // One wait response is enough: clients wait for its whole bound.
            self.defer = None;
            let mut head = Vec::new();
            self.reply.wait_response(seconds, &mut head);
            // The work may hold memory that other clients wait for: a slow client must not stop it.
            let (sent, done) = tokio::join!(self.deliver(head.into()), work);
            // An answer that has begun in ordinary frames continues in them.
            self.reply.is_deferred = sent.is_ok() && !self.has_begun;
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

    /// After its first part an answer cannot move to another connection. The time of silence starts again.
    pub(crate) fn note_part(&mut self) {
        self.has_begun = true;
        self.main = None;
        if let Some(defer) = &mut self.defer {
            defer.at = Instant::now() + defer.after;
        }
    }

    /// Sends the only or the last frame.
    pub(crate) async fn finish(mut self, encode: impl FnOnce(ReplyTo, &mut Vec<u8>)) {
        self.send_encoded(encode).await;
    }

    pub(crate) async fn fail(mut self, failure: Failure) {
        self.send_failure(failure).await;
    }

    /// Sends an error as the last frame.
    pub(crate) async fn send_failure(&mut self, failure: Failure) {
        self.metrics.add_client_error(failure.side);
        self.send_encoded(|reply, out| reply.error(failure.code, &failure.text, out)).await;
    }

    async fn send_encoded(&mut self, encode: impl FnOnce(ReplyTo, &mut Vec<u8>)) {
        let mut head = Vec::new();
        encode(self.reply, &mut head);
        // An error means that the connection has ended: no client waits.
        let _ = self.send(head.into()).await;
    }

    /// Sends the value of `result`, or its error.
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

    pub(crate) async fn hand_over(&self, event: Event) -> Result<(), Gone> {
        self.events.send(event).await.map_err(|_| Gone)
    }

    /// Sends a frame to the connection's task. If a parallel stream has ended, the frame goes to the main connection, unless
    /// the answer has begun.
    async fn deliver(&mut self, frame: Frame) -> Result<(), Gone> {
        let Err(refused) = self.events.send(Event::Frame(frame)).await else { return Ok(()) };
        // Parts of one answer must not arrive on two connections.
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
    async fn work_continues_while_a_slow_client_delays_the_wait_response() {
        let (events, mut receiver) = mpsc::channel(1);
        events.send(Event::Drain).await.unwrap();
        let defer = Defer { at: Instant::now(), after: Duration::from_secs(10), seconds: 1800 };
        let (reply, metrics) = (ReplyTo::direct(StreamId::ZERO), Metrics::new());
        let mut answer = Answer { reply, events, main: None, defer: Some(defer), has_begun: false, metrics };
        let (give, given) = oneshot::channel();
        let waiting = tokio::spawn(async move {
            let work = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                give.send(()).unwrap();
            };
            answer.wait_for(work).await;
            answer.reply.is_deferred
        });
        tokio::time::timeout(Duration::from_secs(60), given)
            .await
            .expect("the work does not wait for the client")
            .unwrap();
        assert!(matches!(receiver.recv().await, Some(Event::Drain)));
        assert!(matches!(receiver.recv().await, Some(Event::Frame(_))), "the client gets a wait response");
        assert!(waiting.await.unwrap());
    }
}
