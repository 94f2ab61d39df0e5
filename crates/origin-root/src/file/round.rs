//! One round of requests over one session: all missing bytes of some jobs, delivered as they arrive.

use super::{
    assembly::Assembly,
    job::Job,
    open_handle::OpenHandle,
    plan::{Form, Planned},
    repair::{Arrived, repair},
    state::FileState,
};
use crate::{
    options::Options,
    route::call::{lost, pause, protocol, refused, timed_out},
    session::{
        buffers,
        connection::{Message, Submission},
        pending::{Event, Events, Sink, Ticket},
    },
};
use forebay_origin::{Chunk, OriginError, RefusalKind};
use forebay_proto::{
    Request, Status,
    request::{PageRead, Prereads, Read, ReadElement},
};
use forebay_telemetry::{Fault, OriginMetrics, RequestKind};
use forebay_types::ByteRange;
use std::{
    collections::{HashMap, VecDeque},
    pin::pin,
    sync::atomic::Ordering::Relaxed,
};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    time::{Instant, sleep_until, timeout_at},
};

/// Bytes of one read that are requested at a time. The reader has reserved memory for all of them; this keeps one large read
/// from taking every stream id.
const WINDOW_LEN_MAX: u64 = 64 << 20;

/// Requests of one read under way at a time.
pub(super) const WINDOW_REQUESTS_MAX: usize = 256;

const DOING: &str = "reading";

/// The requests of some jobs. Jobs come out finished or with a failure that says why not.
pub(super) struct Round<'a> {
    opened: &'a OpenHandle,
    file: &'a FileState,
    options: &'a Options,
    metrics: &'a OriginMetrics,
    jobs: &'a mut [Job],
    assembly: Assembly,
    queue: VecDeque<(Planned, Instant)>,
    /// To be sent again when the server's pause is over.
    paused: Vec<(Instant, (Planned, Instant))>,
    under_way: HashMap<usize, UnderWay>,
    last_tag: usize,
    sender: Events,
    events: UnboundedReceiver<(usize, Event)>,
}

/// A request whose answer is owed.
struct UnderWay {
    planned: Planned,
    ticket: Ticket,
    len: u64,
    /// When the request was first made; a pause that the server imposes does not change it.
    asked_at: Instant,
    progress_at: Instant,
    has_begun: bool,
    /// The server has said that the answer takes time.
    is_deferred: bool,
}

impl<'a> Round<'a> {
    pub(super) fn new(
        opened: &'a OpenHandle,
        file: &'a FileState,
        jobs: &'a mut [Job],
        assembly: Assembly,
        planned: VecDeque<Planned>,
    ) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let now = Instant::now();
        Self {
            opened,
            file,
            options: &file.servers.router.options,
            metrics: &file.servers.router.metrics,
            jobs,
            assembly,
            queue: planned.into_iter().map(|planned| (planned, now)).collect(),
            paused: Vec::new(),
            under_way: HashMap::new(),
            last_tag: 0,
            sender,
            events,
        }
    }

    /// Makes the requests and delivers the answers, until nothing is missing or nothing more can come.
    pub(super) async fn run(mut self) {
        // A quarter of the shorter limit: silence is detected at most that much too late.
        let tick = self.options.first_byte_timeout.min(self.options.stall_timeout) / 4;
        let mut timer = pin!(sleep_until(Instant::now() + tick));
        loop {
            self.send_what_fits().await;
            // Watching one reader is enough: when it leaves, the next iteration watches another one.
            let Some(watched) = self.jobs.iter().find(|job| job.is_running()) else { return };
            tokio::select! {
                event = self.events.recv() => {
                    let Some((tag, event)) = event else { return };
                    self.handle_event(tag, event).await;
                    // The pause may end before the next tick.
                    if let Some(first) = self.first_pause_end()
                        && first < timer.deadline()
                    {
                        timer.as_mut().reset(first);
                    }
                }
                () = watched.left() => self.abandon_useless(),
                () = &mut timer => {
                    self.end_pauses();
                    // With events in the queue it is this task that is late, not the server.
                    if self.events.is_empty() {
                        self.check_time();
                    }
                    let next = Instant::now() + tick;
                    timer.as_mut().reset(self.first_pause_end().map_or(next, |first| first.min(next)));
                }
            }
        }
    }

    async fn send_what_fits(&mut self) {
        let mut len: u64 = self.under_way.values().map(|request| request.len).sum();
        let mut batch = Vec::new();
        while len <= WINDOW_LEN_MAX && self.under_way.len() + batch.len() < WINDOW_REQUESTS_MAX {
            let Some((planned, asked_at)) = self.queue.pop_front() else { break };
            // Its readers may have left, or its jobs failed, while it was queued.
            if self.is_wanted(&planned) {
                // After a pause or a refusal only the rest of a part is requested.
                let request_len = planned.parts.iter().map(|&part| self.assembly.missing(part).len()).sum();
                len += request_len;
                self.last_tag += 1;
                batch.push((self.last_tag, planned, asked_at, request_len));
            }
        }
        if batch.is_empty() {
            return;
        }
        let submissions = batch.iter().map(|(tag, planned, _, _)| self.submission(*tag, planned)).collect();
        // The session's outstanding requests may be used up by other reads: that wait is limited, too.
        let deadline = Instant::now() + self.options.deadline;
        let submitted = timeout_at(deadline, self.opened.connection.submit(submissions, &self.sender)).await;
        let now = Instant::now();
        let error = match submitted {
            Ok(Ok(tickets)) => {
                for ((tag, planned, asked_at, len), ticket) in batch.into_iter().zip(tickets) {
                    let (has_begun, is_deferred, progress_at) = (false, false, now);
                    let request = UnderWay { planned, ticket, len, asked_at, progress_at, has_begun, is_deferred };
                    self.under_way.insert(tag, request);
                }
                return;
            }
            Ok(Err(reason)) => lost(&self.opened.connection, DOING, reason),
            Err(_) => timed_out(&self.opened.connection, DOING, self.options.deadline),
        };
        batch.iter().for_each(|(_, planned, _, _)| self.fail(planned, &error));
    }

    fn submission(&self, tag: usize, planned: &Planned) -> Submission<'static> {
        let handle = self.opened.handle;
        let range = planned.parts.first().map_or_else(ByteRange::default, |&part| self.assembly.missing(part));
        let len = u32_len(range);
        let offset = range.start();
        let (kind, sink, message) = match planned.form {
            Form::Pages => {
                let read = PageRead { handle, offset, len, path_id: 0, retry: false };
                let sink = Sink::Pages { next: offset, remaining: range.len() };
                (RequestKind::Pgread, sink, Message::Request(Request::PageRead(read)))
            }
            Form::Range => {
                let read = Read { handle, offset, len, path_id: 0, prereads: Prereads::default() };
                (RequestKind::Read, Sink::Bytes { next: offset, remaining: len }, Message::Request(Request::Read(read)))
            }
            Form::Vector => {
                let ranges = planned.parts.iter().map(|&part| self.assembly.missing(part));
                let elements: Vec<ReadElement> =
                    ranges.map(|range| ReadElement { handle, offset: range.start(), len: u32_len(range) }).collect();
                let due = elements.iter().map(|element| (element.offset, element.len)).collect();
                (RequestKind::Readv, Sink::Elements(due), Message::Vector(elements))
            }
        };
        self.metrics.add_request(kind);
        Submission { tag, sink, message }
    }

    async fn handle_event(&mut self, tag: usize, event: Event) {
        // Requests that were given up have no entry any more, but events of theirs may still arrive.
        if !self.under_way.contains_key(&tag) {
            return;
        }
        match event {
            Event::Data { offset, bytes, page_sums, bad_pages } => {
                self.handle_data(tag, Arrived { offset, bytes, page_sums }, &bad_pages).await;
            }
            Event::Reply { status: Status::WAITRESP, .. } => {
                if let Some(request) = self.under_way.get_mut(&tag) {
                    request.is_deferred = true;
                }
            }
            last => {
                let Some(request) = self.under_way.remove(&tag) else { return };
                self.handle_end(request, last);
            }
        }
    }

    async fn handle_data(&mut self, tag: usize, mut arrived: Arrived, bad_pages: &[u64]) {
        self.metrics.add_bytes(u64::try_from(arrived.bytes.len()).unwrap_or(u64::MAX));
        let mut error = None;
        if !bad_pages.is_empty() {
            // Repaired before delivery: damaged bytes never reach a reader.
            error = repair(self.opened, &mut arrived, bad_pages, self.options).await.err();
        }
        let Arrived { offset, bytes, page_sums } = arrived;
        let Some(request) = self.under_way.get_mut(&tag) else { return };
        request.progress_at = Instant::now();
        request.has_begun = true;
        // The answer that took its time has come: silence counts again.
        request.is_deferred = false;
        if request.planned.form != Form::Pages {
            self.file.has_unverified.store(true, Relaxed);
        }
        let chunk = Chunk { bytes: buffers::freeze(bytes), page_sums };
        let server = self.opened.connection.endpoint();
        self.metrics.note_answer(server, true, forebay_net::clock::monotonic());
        if error.is_none() && !place(&mut self.assembly, self.jobs, &request.planned, offset, chunk) {
            error = Some(protocol(&self.opened.connection, "file bytes at another offset than requested"));
        }
        if let Some(error) = error {
            let planned = request.planned.clone();
            self.fail(&planned, &error);
        }
    }

    /// Handles the last event of a request.
    fn handle_end(&mut self, request: UnderWay, event: Event) {
        let UnderWay { planned, asked_at, .. } = request;
        let connection = &self.opened.connection;
        let error = match event {
            Event::Data { .. } => return,
            Event::Done => return self.check_complete(&planned),
            Event::Lost(reason) => lost(connection, DOING, reason),
            Event::Reply { status: Status::ERROR, body } => {
                let error = refused(connection, &body);
                if self.ask_otherwise(&planned, &error, asked_at) {
                    return;
                }
                error
            }
            Event::Reply { status: Status::WAIT, body } => match pause(connection, &body) {
                Ok(pause) => {
                    // The server may ask for any time: the limit keeps a single `wait` from using up the deadline.
                    let until = Instant::now() + pause.min(self.options.wait_max);
                    // Counted from the first request: repeated pauses must not extend the deadline.
                    if until < asked_at + self.options.deadline {
                        return self.paused.push((until, (planned, asked_at)));
                    }
                    timed_out(connection, DOING, self.options.deadline)
                }
                Err(error) => error,
            },
            Event::Reply { status: Status::REDIRECT, .. } => {
                // Redirects during reads were not offered at login. As after a lost session, the file is opened again.
                lost(connection, DOING, "it redirects an open file".to_owned())
            }
            Event::Reply { status, .. } => protocol(connection, format!("an answer of status {status} to a read")),
        };
        self.fail(&planned, &error);
    }

    /// Fails the jobs of parts that have ended early. Callers know the size of the file, so all requested bytes must exist.
    fn check_complete(&mut self, planned: &Planned) {
        for &part in &planned.parts {
            let missing = self.assembly.missing(part);
            if let Some(job) = self.assembly.job_of(part).and_then(|job| self.jobs.get_mut(job))
                && !missing.is_empty()
            {
                let asked = self.assembly.asked(part);
                self.metrics.add_error();
                job.fail(OriginError::ShortRead {
                    endpoint: self.opened.connection.endpoint().clone(),
                    offset: asked.start(),
                    received_bytes: missing.start() - asked.start(),
                    expected_bytes: asked.len(),
                });
            }
        }
        self.abandon_useless();
    }

    /// Queues plain reads for a refused request, where these can serve instead; returns whether they can.
    fn ask_otherwise(&mut self, planned: &Planned, error: &OriginError, asked_at: Instant) -> bool {
        let is_unknown = matches!(error.refusal(), Some(RefusalKind::Unsupported | RefusalKind::InvalidRequest));
        match planned.form {
            // For the rest of the session: otherwise each read would cost a refused request.
            Form::Pages if is_unknown => self.opened.connection.page_reads.store(false, Relaxed),
            Form::Vector if is_unknown => self.opened.connection.vector_reads.store(false, Relaxed),
            // A single bad element fails a vector read as a whole.
            Form::Vector => {}
            Form::Pages | Form::Range => return false,
        }
        // Some elements may have arrived before the error.
        let ranges = planned.parts.iter().filter(|&&part| !self.assembly.missing(part).is_empty());
        self.queue.extend(ranges.map(|&part| (Planned { form: Form::Range, parts: vec![part] }, asked_at)));
        true
    }

    fn fail(&mut self, planned: &Planned, error: &OriginError) {
        self.metrics.add_error();
        for &part in &planned.parts {
            if let Some(job) = self.assembly.job_of(part).and_then(|job| self.jobs.get_mut(job)) {
                // A request may serve several jobs: each ends, or is retried, on its own.
                job.fail(error.clone());
            }
        }
        self.abandon_useless();
    }

    /// Gives up the answers that no running job needs.
    fn abandon_useless(&mut self) {
        let useless: Vec<usize> = self
            .under_way
            .iter()
            .filter(|(_, request)| !self.is_wanted(&request.planned))
            .map(|(&tag, _)| tag)
            .collect();
        for request in useless.iter().filter_map(|tag| self.under_way.remove(tag)) {
            self.opened.connection.abandon(request.ticket);
        }
    }

    fn is_wanted(&self, planned: &Planned) -> bool {
        planned.parts.iter().any(|&part| {
            let job = self.assembly.job_of(part).and_then(|job| self.jobs.get(job));
            !self.assembly.missing(part).is_empty() && job.is_some_and(Job::is_running)
        })
    }

    fn first_pause_end(&self) -> Option<Instant> {
        self.paused.iter().map(|(until, _)| *until).min()
    }

    /// Queues requests again whose pause is over.
    fn end_pauses(&mut self) {
        let now = Instant::now();
        for (_, due) in self.paused.extract_if(.., |(until, _)| *until <= now) {
            self.queue.push_back(due);
        }
    }

    /// Gives up answers that take too long.
    fn check_time(&mut self) {
        let now = Instant::now();
        let last_activity = self.opened.connection.last_activity();
        let Options { first_byte_timeout, stall_timeout, deadline, .. } = *self.options;
        let is_late = |request: &&UnderWay| request.progress_at.max(request.asked_at) + deadline <= now;
        // An answer queued after a long one on a slow link is not late: any byte on the session counts. After
        // `waitresp` only the deadline applies.
        let is_silent = |request: &&UnderWay| {
            let limit = if request.has_begun { stall_timeout } else { first_byte_timeout };
            !request.is_deferred && request.progress_at.max(last_activity) + limit <= now
        };
        if let Some(silent) = self.under_way.values().find(is_silent) {
            let limit = if silent.has_begun { stall_timeout } else { first_byte_timeout };
            let error = timed_out(&self.opened.connection, DOING, limit);
            let now = forebay_net::clock::monotonic();
            self.metrics.add_failure_of(self.opened.connection.endpoint(), Fault::Reads, &error, now);
            // All jobs, not only those of the silent request: the session is closed for all of them.
            self.jobs.iter_mut().filter(|job| job.is_open()).for_each(|job| job.fail(error.clone()));
            self.opened.connection.break_with("the server went silent");
            return;
        }
        // A late answer alone does not close the session: other answers still arrive on it.
        let late: Vec<Planned> = self.under_way.values().filter(is_late).map(|late| late.planned.clone()).collect();
        let error = timed_out(&self.opened.connection, DOING, deadline);
        late.iter().for_each(|planned| self.fail(planned, &error));
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        for request in self.under_way.values() {
            self.opened.connection.abandon(request.ticket);
        }
    }
}

/// Puts bytes into the part for which they were requested; `false` when there is no such part.
fn place(assembly: &mut Assembly, jobs: &mut [Job], planned: &Planned, offset: u64, chunk: Chunk) -> bool {
    let len = u64::try_from(chunk.bytes.len()).unwrap_or(u64::MAX);
    let part = match planned.form {
        Form::Pages | Form::Range => planned.parts.first(),
        // Elements arrive in any order, each of them whole.
        Form::Vector => planned.parts.iter().find(|&&part| assembly.missing(part) == ByteRange::at(offset, len)),
    };
    part.is_some_and(|&part| assembly.take(part, offset, chunk, jobs).is_ok())
}

/// The length of a part, which is far below 2^31.
fn u32_len(range: ByteRange) -> u32 {
    u32::try_from(range.len()).expect("parts are cut to `REQUEST_LEN_MAX`")
}
