//! Reads of one range.

use crate::{
    answers::answer::{Answer, Gone},
    base::{
        event::Frame,
        handles::HandleTable,
        options::SENDFILE_LEN_MIN,
        output::{Output, OutputError},
        status::Failure,
    },
    requests::context::ConnectionContext,
};
use forebay_engine::{Handle, Segment};
use forebay_front::{AnswerMemory, Batch, ReadSource, ReadStream, append_segment, trace_read, with_memory};
use forebay_net::{probe_cached, read_nowait};
use forebay_proto::{ReplyTo, Status, StreamId, limits::READ_FRAME_LEN_MAX, request::Read};
use forebay_telemetry::TracedRead;
use forebay_types::{ByteRange, Outcome};
use std::{fs::File, sync::Arc};

impl ConnectionContext {
    /// Answers a read: at once if the page cache holds the bytes, by a task of its own otherwise.
    pub(crate) async fn read(&mut self, stream_id: StreamId, read: &Read<'_>) -> Result<(), OutputError> {
        let handle = match read_target(&self.handles, read) {
            Ok(handle) => handle,
            Err(failure) => {
                self.fail(stream_id, &failure);
                return Ok(());
            }
        };
        let range = ByteRange::at(read.offset, u64::from(read.len)).clipped_to(handle.size());
        if read.path_id != 0 {
            let handle = handle.clone();
            self.start_read(stream_id, read.path_id, ReadSource::Handle(handle), range);
            return Ok(());
        }
        if range.is_empty() {
            trace_read(handle, TracedRead::Read, range, self.received, Outcome::Hit);
            self.reply(stream_id, ReplyTo::ok);
            return Ok(());
        }
        if handle.may_switch() {
            let handle = handle.clone();
            self.start_switch(stream_id, handle, range);
            return Ok(());
        }
        let Some(file) = handle.hit(range) else {
            let handle = handle.clone();
            self.start_read(stream_id, 0, ReadSource::Handle(handle), range);
            return Ok(());
        };
        let waiting_len = self.output.len();
        // A read is at most 2 GiB long, because its length is a signed number of 32 bits.
        let body_len = u32::try_from(range.len()).unwrap_or(u32::MAX);
        self.output.encode(|out| ReplyTo::direct(stream_id).header(Status::OK, body_len, out));
        if range.len() >= SENDFILE_LEN_MIN && is_probably_cached(file, range) {
            self.output.send_file(&self.stream, file, range).await?;
        } else if range.len() >= SENDFILE_LEN_MIN || !append_cached(&mut self.output, file, range) {
            let stream = ReadStream::disk(handle, file, range);
            self.output.truncate(waiting_len);
            self.start_read(stream_id, 0, ReadSource::Disk(stream), range);
            return Ok(());
        }
        trace_read(handle, TracedRead::Read, range, self.received, Outcome::Hit);
        self.note_hit();
        Ok(())
    }

    /// Redirects the client to the file if it is as complete as it seems. Otherwise answers the read.
    fn start_switch(&mut self, stream_id: StreamId, handle: Handle, range: ByteRange) {
        let (state, received) = (Arc::clone(&self.state), self.received);
        let memory = self.answer_memory();
        self.start_answer(stream_id, |mut answer| async move {
            match answer.wait_for(state.front.switch_to_file(&handle)).await {
                Some(url) => answer.finish(|reply, out| reply.redirect_to_url(&url, out)).await,
                None => answer_read(answer, memory, ReadSource::Handle(handle), range, received).await,
            }
        });
    }

    fn start_read(&mut self, stream_id: StreamId, path_id: u8, source: ReadSource, range: ByteRange) {
        match self.answer_by(stream_id, path_id) {
            Ok(answer) => self.start(answer_read(answer, self.answer_memory(), source, range, self.received)),
            Err(failure) => self.fail(stream_id, &failure),
        }
    }
}

/// The file to read from. Hints for later reads must name open files too; they have no other effect.
fn read_target<'a>(handles: &'a HandleTable, read: &Read<'_>) -> Result<&'a Handle, Failure> {
    let find = |name| handles.get(name).ok_or_else(Failure::not_open);
    read.prereads.iter().try_for_each(|preread| find(preread.handle).map(drop))?;
    find(read.handle)
}

/// Appends a range of a file if the page cache holds all of it.
pub(crate) fn append_cached(output: &mut Output, file: &File, range: ByteRange) -> bool {
    let Ok(len) = usize::try_from(range.len()) else { return false };
    let is_cached = matches!(read_nowait(file, range.start(), output.room(len)), Ok(Some(read_len)) if read_len == len);
    if is_cached {
        output.commit(len);
    }
    is_cached
}

/// Whether the page cache very likely holds `range`. The system reads ahead: if it holds the last page of a short range, it
/// holds those before it, except in rare cases, which cost one wait for the disk.
fn is_probably_cached(file: &File, range: ByteRange) -> bool {
    let probed = if range.len() > PROBED_BY_LAST_PAGE_LEN_MAX {
        range
    } else {
        ByteRange::between(range.end() - 1, range.end())
    };
    probe_cached(file, probed.start(), probed.len())
}

/// Longest range of which only the last page is probed: the default read-ahead of Linux.
const PROBED_BY_LAST_PAGE_LEN_MAX: u64 = 128 << 10;

async fn answer_read(
    answer: Answer,
    memory: AnswerMemory,
    source: ReadSource,
    range: ByteRange,
    received: std::time::Instant,
) {
    if range.is_empty() {
        return answer.finish(ReplyTo::ok).await;
    }
    let metrics = answer.metrics().clone();
    let traced = source.traced();
    let (stream, outcome) = source.start(range);
    if stream_read(answer, memory, stream, range.len()).await.is_ok() {
        if let Some(handle) = traced {
            trace_read(&handle, TracedRead::Read, range, received, outcome);
        }
        metrics.observe_request(outcome, forebay_net::clock::monotonic().saturating_duration_since(received));
    }
}

/// Sends `len` bytes as they come: each frame holds the bytes that are available when it is made.
async fn stream_read(
    mut answer: Answer,
    mut memory: AnswerMemory,
    mut stream: ReadStream,
    len: u64,
) -> Result<(), Gone> {
    let mut rest_len = len;
    while rest_len > 0 {
        let batch = answer.wait_for(stream.next_batch(&memory, rest_len.min(u64::from(READ_FRAME_LEN_MAX)))).await;
        if answer.is_deferred() && batch.failure.is_none() {
            if memory.try_reserve(len) {
                return finish_whole(answer, memory, stream, batch, len).await;
            }
            answer.answer_directly();
        }
        rest_len = rest_len.saturating_sub(batch.len);
        if batch.len > 0 {
            answer.send(read_frame(answer.reply(), batch.segments, batch.len, rest_len == 0)).await?;
        }
        if let Some(failure) = batch.failure {
            answer.fail(failure.into()).await;
            return Ok(());
        }
    }
    Ok(())
}

fn read_frame(reply: ReplyTo, body: Vec<Segment>, body_len: u64, is_last: bool) -> Frame {
    let mut head = Vec::with_capacity(reply.header_len());
    let status = if is_last { Status::OK } else { Status::OKSOFAR };
    reply.header(status, u32::try_from(body_len).unwrap_or(u32::MAX), &mut head);
    Frame { head, body }
}

/// Sends the whole answer in one frame, which a client expects after a wait response. `batch` is the beginning.
async fn finish_whole(
    mut answer: Answer,
    memory: AnswerMemory,
    mut stream: ReadStream,
    batch: Batch,
    len: u64,
) -> Result<(), Gone> {
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
    let mut batch = batch;
    loop {
        let appended = batch.segments.iter().try_for_each(|segment| append_segment(segment, &mut bytes));
        if let Some(failure) = appended.err().or(batch.failure) {
            answer.fail(failure.into()).await;
            return Ok(());
        }
        let rest_len = len.saturating_sub(bytes.len() as u64);
        if rest_len == 0 {
            return answer
                .send(read_frame(
                    answer.reply(),
                    vec![Segment::Memory(with_memory(bytes, memory.reserved()))],
                    len,
                    true,
                ))
                .await;
        }
        batch = answer.wait_for(stream.next_batch(&memory, rest_len)).await;
    }
}
