//! The task of a data connection. dCache calls its counterpart a mover.

use crate::{
    control_line::ControlLine,
    end::End,
    expected_connections::DataConnection,
    options::{PART_LEN, SENDFILE_LEN_MIN},
    output::Output,
    socket::receive,
    state::stopped,
};
use forebay_dcap_proto::{DataAnswer, DataRequest, DataSession, Reading};
use forebay_engine::Handle;
use forebay_front::{AnswerMemory, ReadKind, ReadStream, answered_now, report_read};
use forebay_net::probe_cached;
use forebay_telemetry::RequestKind;
use forebay_types::{ByteRange, Outcome};
use std::{sync::Arc, time::Instant};
use tokio::{
    sync::watch,
    task::coop::consume_budget,
    time::{Instant as Deadline, sleep_until},
};

/// A data connection and its open file.
pub(crate) struct Mover {
    line: Arc<ControlLine>,
    handle: Handle,
    connection: DataConnection,
    session: DataSession,
    output: Output,
    /// When the request in progress was received.
    received: Instant,
    /// Memory of an answer that is complete before its first byte is sent.
    held: Option<AnswerMemory>,
}

/// Bytes of one read that are taken at a time.
const BATCH_LEN: u64 = 1 << 20;

impl Mover {
    pub(crate) fn new(line: Arc<ControlLine>, handle: Handle, mut connection: DataConnection) -> Self {
        let mut session = DataSession::new(handle.size());
        session.handle_bytes(&std::mem::take(&mut connection.received));
        let output = Output::new(line.state.options.write_stall_max);
        Self { line, handle, connection, session, output, received: forebay_net::clock::monotonic(), held: None }
    }

    /// Serves the client until it closes the file, the connection cannot continue, or `stop` is true.
    pub(crate) async fn run(&mut self, mut stop: watch::Receiver<bool>) -> End {
        loop {
            let next = match self.session.poll_request() {
                Ok(Some(request)) => self.answer(request).await,
                Ok(None) => self.wait(&mut stop).await,
                Err(error) => Err(error.into()),
            };
            if let Err(end) = next {
                return end;
            }
            if *stop.borrow() {
                return End::Server;
            }
            // A client that sends requests without waiting must not keep a worker thread to itself.
            consume_budget().await;
        }
    }

    /// Waits for bytes of the client.
    async fn wait(&mut self, stop: &mut watch::Receiver<bool>) -> Result<(), End> {
        let is_within_request = self.session.is_within_request();
        let deadline = Deadline::now() + self.line.state.options.request_time_max;
        let session = &mut self.session;
        let is_open = tokio::select! {
            received = receive(&self.connection.stream, |bytes| session.handle_bytes(bytes)) => received?,
            () = sleep_until(deadline), if is_within_request => return Err(End::Slow),
            () = stopped(stop) => return Err(End::Server),
        };
        self.received = forebay_net::clock::monotonic();
        if is_open { Ok(()) } else { Err(End::Left) }
    }

    async fn close(&mut self) -> Result<(), End> {
        DataAnswer::CLOSE.acknowledge(&[], &mut self.output.waiting);
        self.output.flush(&self.connection.stream).await?;
        Err(End::Closed)
    }

    async fn answer(&mut self, request: DataRequest) -> Result<(), End> {
        self.line.state.front.backend.metrics().add_client_request(kind_of(&request));
        let out = &mut self.output.waiting;
        match request {
            DataRequest::Read(reading) => self.read(reading).await?,
            DataRequest::Vector(parts) => self.read_vector(&parts).await?,
            DataRequest::Seek { position } => DataAnswer::SEEK.acknowledge(&[position], out),
            DataRequest::Locate { size, position } => DataAnswer::LOCATE.acknowledge(&[size, position], out),
            DataRequest::Close => return self.close().await,
        }
        self.output.flush(&self.connection.stream).await
    }

    async fn read(&mut self, Reading { range, answer }: Reading) -> Result<(), End> {
        answer.begin(&mut self.output.waiting);
        if !range.is_empty() {
            self.handle.note_operation(ReadKind::Read, range);
            let outcome = self.send_ranges(&[range]).await?;
            report_read(&self.handle, ReadKind::Read, range, self.received, outcome);
            self.observe(outcome);
        }
        answer.finish(&mut self.output.waiting);
        Ok(())
    }

    async fn read_vector(&mut self, parts: &[ByteRange]) -> Result<(), End> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        self.handle.note_vector(u64::try_from(parts.len()).unwrap_or(u64::MAX), bytes);
        // libdcap 2.47 reads from a vector read without an end if the connection ends within the answer. Before it, the call fails.
        let mut memory = self.line.memory.answer();
        if memory.try_reserve(bytes) {
            self.output.hold();
            self.held = Some(memory);
        }
        DataAnswer::VECTOR.begin(&mut self.output.waiting);
        let outcome = self.send_ranges(parts).await?;
        if let Some(reads) = self.handle.reads() {
            reads.read_vector(parts, &answered_now(self.received, outcome));
        }
        self.observe(outcome);
        DataAnswer::VECTOR.finish(&mut self.output.waiting);
        self.output.release();
        self.output.flush(&self.connection.stream).await?;
        self.held = None;
        Ok(())
    }

    fn observe(&self, outcome: Outcome) {
        let duration = forebay_net::clock::monotonic().saturating_duration_since(self.received);
        self.line.state.front.backend.metrics().observe_requests(outcome, duration, 1);
    }

    /// Sends each range as one block.
    async fn send_ranges(&mut self, ranges: &[ByteRange]) -> Result<Outcome, End> {
        for (number, range) in ranges.iter().enumerate() {
            DataAnswer::begin_block(range.len(), &mut self.output.waiting);
            let rest = self.send_hits(*range).await?;
            if !rest.is_empty() {
                self.send_missing(rest, ranges.get(number + 1..).unwrap_or_default()).await?;
                return Ok(Outcome::Missed);
            }
            if self.output.is_full() {
                self.output.flush(&self.connection.stream).await?;
            }
        }
        Ok(Outcome::Hit)
    }

    /// Sends the beginning of `range` that is on disk, and returns the rest.
    async fn send_hits(&mut self, range: ByteRange) -> Result<ByteRange, End> {
        let handle = self.handle.clone();
        let nowait = handle.nowait_reads();
        let mut rest = range;
        while !rest.is_empty() {
            let part = ByteRange::at(rest.start(), rest.len().min(PART_LEN));
            let Some(file) = handle.hit(part) else { break };
            let is_long = part.len() >= SENDFILE_LEN_MIN;
            if is_long && probe_cached(file, nowait, part.start(), part.len()) {
                self.output.send_file(&self.connection.stream, file, part).await?;
            } else if is_long || !self.output.append_cached(file, nowait, part) {
                let stream = ReadStream::absent(&handle, file, part);
                self.send_stream(stream, part.len()).await?;
            }
            rest = ByteRange::between(part.end(), rest.end());
        }
        Ok(rest)
    }

    /// Sends `rest` of a range, and the ranges after it, as the engine gets them.
    async fn send_missing(&mut self, rest: ByteRange, others: &[ByteRange]) -> Result<(), End> {
        let ranges: Vec<ByteRange> = std::iter::once(rest).chain(others.iter().copied()).collect();
        // Started together: all missing bytes of them are requested at once.
        let reads = self.handle.read_many(&ranges);
        for (number, (read, range)) in reads.into_iter().zip(ranges).enumerate() {
            if number > 0 {
                DataAnswer::begin_block(range.len(), &mut self.output.waiting);
            }
            self.send_stream(ReadStream::engine(read), range.len()).await?;
        }
        Ok(())
    }

    /// Sends `len` bytes as they come. A read that fails leaves the block short, which clients notice.
    async fn send_stream(&mut self, mut stream: ReadStream, len: u64) -> Result<(), End> {
        let own = self.line.memory.answer();
        // An answer that holds memory never waits for more.
        let memory = self.held.as_ref().unwrap_or(&own);
        let mut rest_len = len;
        while rest_len > 0 {
            let batch = stream.next_batch(memory, rest_len.min(BATCH_LEN)).await;
            rest_len = rest_len.saturating_sub(batch.len);
            if batch.len > 0 {
                self.output.send_segments(&self.connection.stream, batch.segments).await?;
            }
            if let Some(failure) = batch.failure {
                return Err(End::Read(failure));
            }
        }
        Ok(())
    }
}

/// The kind of a request on a data connection.
const fn kind_of(request: &DataRequest) -> RequestKind {
    match request {
        DataRequest::Read(_) => RequestKind::Read,
        DataRequest::Vector(_) => RequestKind::Readv,
        DataRequest::Seek { .. } | DataRequest::Locate { .. } => RequestKind::Other,
        DataRequest::Close => RequestKind::Close,
    }
}
