//! Reads one range, resuming it where a connection ends.

use super::shared::{Begun, Shared};
use crate::{
    answer::{
        content_range::ContentRange,
        facts::{is_identity, range_in, size_in},
    },
    exchange::{Answer, Failure, protocol},
    options::SKIP_MAX,
    pool::Connection,
    servers::{Attempts, Order},
};
use bytes::Bytes;
use forebay_origin::{Chunk, Chunks, OriginError, count_failure};
use forebay_types::ByteRange;
use std::sync::Arc;
use tokio::sync::mpsc;

/// A range on its way to a reader.
pub(super) struct RangeRead {
    pub(super) shared: Arc<Shared>,
    /// The bytes that have not come yet.
    pub(super) rest: ByteRange,
    /// The server to ask, by its position in the list of the client.
    pub(super) server: usize,
    /// Servers with another version of the file.
    excluded: Vec<usize>,
    /// For the first request.
    pub(super) kept: Option<Connection>,
    /// The answer to the first request, if it was sent before.
    begun: Option<Begun>,
    sender: mpsc::UnboundedSender<Result<Chunk, OriginError>>,
}

/// Why an attempt ended before the last byte.
enum Stop {
    Failed(Failure),
    /// The server has another version than the one that opened the file.
    OtherVersion,
    /// The reader has left.
    Abandoned,
}

impl<T: Into<Failure>> From<T> for Stop {
    fn from(failure: T) -> Self {
        Self::Failed(failure.into())
    }
}

impl Drop for RangeRead {
    fn drop(&mut self) {
        if let Some(unused) = self.kept.take() {
            self.shared.client.pool.park(unused);
        }
    }
}

impl RangeRead {
    pub(super) fn new(shared: Arc<Shared>, range: ByteRange) -> (Self, Chunks) {
        let (sender, chunks) = Chunks::channel();
        let server = shared.target.lock().as_ref().map_or(shared.opened_at, |known| known.server);
        (Self { shared, rest: range, server, excluded: Vec::new(), kept: None, begun: None, sender }, chunks)
    }

    /// The read with the answer to its first request.
    pub(super) fn with(mut self, begun: Begun) -> Self {
        self.server = self.shared.opened_at;
        self.begun = Some(begun);
        self
    }

    /// Begins to read. A task of its own receives the bytes: a connection must not wait for a slow reader, since others wait
    /// for their turn.
    pub(super) fn start(mut self) {
        // Now, and not in the task: tasks begin in any order, and the reader waits for the first of several ranges.
        self.take_kept_connection();
        tokio::spawn(self.run());
    }

    /// Takes an unused connection, unless others wait for their turn.
    pub(super) fn take_kept_connection(&mut self) {
        if self.kept.is_none() && self.begun.is_none() && self.shared.turns.available_permits() > 0 {
            self.kept = self.shared.client.kept_connection(&self.shared.target(self.server).0);
        }
    }

    pub(super) fn has_left(&self) -> bool {
        self.sender.is_closed()
    }

    /// Resolves when the reader has left.
    pub(super) async fn left(&self) {
        self.sender.closed().await;
    }

    pub(super) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let options = &shared.client.options;
        let mut attempts = Attempts::new(options, Order::of_list(shared.client.count()), options.read_attempts);
        while !self.rest.is_empty() {
            let before = self.rest.start();
            let failure = match self.attempt(&attempts).await {
                Ok(()) => continue,
                Err(Stop::Abandoned) => return,
                Err(Stop::OtherVersion) => {
                    self.excluded.push(self.server);
                    self.move_on();
                    continue;
                }
                Err(Stop::Failed(failure)) => failure,
            };
            count_failure(&shared.client.metrics, &failure.error, true);
            if self.rest.start() > before {
                attempts.restart();
            }
            if let Err(error) = attempts.after(failure, true).await {
                // A reader that has left needs no error.
                let _ = self.sender.send(Err(error));
                return;
            }
            self.move_on();
        }
    }

    /// Goes to the next server with this version of the file.
    fn move_on(&mut self) {
        let count = self.shared.client.count();
        let next = (1..=count).map(|step| (self.server + step) % count).find(|next| !self.excluded.contains(next));
        self.server = next.unwrap_or(self.shared.opened_at);
    }

    /// Requests the rest once and passes on what comes.
    async fn attempt(&mut self, attempts: &Attempts<'_>) -> Result<(), Stop> {
        let shared = Arc::clone(&self.shared);
        if let Some(Begun { answer, range, turn: _turn }) = self.begun.take() {
            return self.receive(answer, range).await;
        }
        let turn = tokio::select! {
            turn = shared.turns.acquire() => turn,
            () = self.sender.closed() => return Err(Stop::Abandoned),
        };
        let _turn = turn.map_err(|_| self.broken("it is shutting down"))?;
        let (kept, requested) = (self.kept.take(), self.rest);
        let asked = tokio::select! {
            asked = shared.ask(self.server, kept, vec![requested], attempts.deadline()) => asked,
            () = self.sender.closed() => return Err(Stop::Abandoned),
        };
        self.receive(asked?, requested).await
    }

    fn broken(&self, what: &'static str) -> Stop {
        protocol(&self.shared.identity.origin.endpoint, what).into()
    }

    /// Receives the answer to a request for `requested`, which begins with the rest.
    async fn receive(&mut self, answer: Answer, requested: ByteRange) -> Result<(), Stop> {
        let shared = Arc::clone(&self.shared);
        let Some(mut skip_len) = self.check(&answer, requested)? else {
            return Err(answer.refuse(&shared.client.options).await.into());
        };
        shared.note_target(self.server, &answer);
        let is_partial = range_in(&answer.headers).is_some();
        let mut body = answer.body;
        while !self.rest.is_empty() {
            let received = tokio::select! {
                received = body.next() => received?,
                () = self.sender.closed() => return Err(Stop::Abandoned),
            };
            let Some(bytes) = received else {
                let (endpoint, offset) = (shared.identity.origin.endpoint.clone(), self.rest.start());
                let expected_bytes = self.rest.len();
                return Err(OriginError::ShortRead { endpoint, offset, received_bytes: 0, expected_bytes }.into());
            };
            self.pass_on(bytes, &mut skip_len)?;
        }
        // The rest of a file whose server ignores ranges is not wanted.
        if is_partial {
            body.finish().await;
        }
        Ok(())
    }

    /// Bytes to drop before the wanted ones; `None` if the answer refuses the request.
    fn check(&self, answer: &Answer, requested: ByteRange) -> Result<Option<u64>, Stop> {
        let identity = &self.shared.identity;
        let endpoint = answer.endpoint();
        let changed = || {
            if self.shared.is_home(self.server) {
                OriginError::Changed { endpoint: endpoint.clone() }.into()
            } else {
                Stop::OtherVersion
            }
        };
        match answer.status.as_u16() {
            206 | 200 => {}
            // The entity tag is another one, or the file is shorter than the range.
            412 | 416 => return Err(changed()),
            _ => return Ok(None),
        }
        if !is_identity(&answer.headers) {
            return Err(protocol(endpoint, "it sends compressed bytes although it was asked for none").into());
        }
        // Servers that ignore `If-Match` are found out here.
        if self.shared.is_other_version(self.server, answer) {
            return Err(changed());
        }
        if answer.status.as_u16() == 200 {
            if size_in(&answer.headers).is_some_and(|size| size != identity.size) {
                return Err(changed());
            }
            let skip_len = self.rest.start();
            if skip_len > SKIP_MAX {
                let what = "it serves no ranges, and the file is too long to be read from its beginning each time";
                return Err(protocol(endpoint, what).into());
            }
            return Ok(Some(skip_len));
        }
        let Some(ContentRange { range, size }) = range_in(&answer.headers) else {
            return Err(protocol(endpoint, "it sends a part of the file without stating which").into());
        };
        if size.is_some_and(|size| size != identity.size) {
            return Err(changed());
        }
        if range.start() != requested.start() || range.end() > requested.end() {
            return Err(
                protocol(endpoint, format!("it sends bytes {range} although {requested} were requested")).into()
            );
        }
        Ok(Some(0))
    }

    /// Passes on the part of `bytes` that comes next, if they begin at `offset` of the file.
    pub(super) fn pass_on_from(&mut self, offset: u64, bytes: &Bytes) {
        let start = self.rest.start();
        if let Some(skipped) = start.checked_sub(offset).and_then(|skipped| usize::try_from(skipped).ok())
            && skipped < bytes.len()
        {
            // A reader that has left is noticed by the next request.
            let _ = self.pass_on(bytes.slice(skipped..), &mut 0);
        }
    }

    fn pass_on(&mut self, mut bytes: Bytes, skip_len: &mut u64) -> Result<(), Stop> {
        let len = |bytes: &Bytes| u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let skipped = usize::try_from((*skip_len).min(len(&bytes))).unwrap_or(bytes.len());
        drop(bytes.split_to(skipped));
        *skip_len -= u64::try_from(skipped).unwrap_or_default();
        bytes.truncate(usize::try_from(self.rest.len()).unwrap_or(usize::MAX));
        if bytes.is_empty() {
            return Ok(());
        }
        self.shared.client.metrics.add_bytes(len(&bytes));
        self.rest = ByteRange::between(self.rest.start() + len(&bytes), self.rest.end());
        self.sender.send(Ok(Chunk::from(bytes))).map_err(|_| Stop::Abandoned)
    }
}
