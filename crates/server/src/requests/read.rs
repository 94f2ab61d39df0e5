//! Reads of one range.

use crate::{
    answers::{
        answer::Gone,
        slow_read::{SlowRead, append_batch},
    },
    base::{
        handles::HandleTable,
        options::SENDFILE_LEN_MIN,
        output::{Output, OutputError},
        status::Failure,
    },
    requests::{
        context::ConnectionContext,
        page_read::{past_the_end, stream_pages},
    },
};
use forebay_engine::Handle;
use forebay_front::{ReadKind, ReadSource, ReadStream, report_read};
use forebay_net::{NowaitReads, probe_cached, read_nowait};
use forebay_proto::{ReplyTo, Status, StreamId, limits::READ_FRAME_LEN_MAX, page::encoded_len, request::Read};
use forebay_types::{ByteRange, Outcome};
use std::{fs::File, sync::Arc};

/// A read of one range, and the form of its answer.
#[derive(Clone, Copy)]
pub(crate) struct RangeRead {
    pub(crate) kind: ReadKind,
    /// The bytes that are still to be sent.
    pub(crate) range: ByteRange,
    /// All bytes of the request.
    pub(crate) requested: ByteRange,
}

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
        handle.note_operation(ReadKind::Read, range);
        // Another connection sends the answer, so only its task may write it.
        if read.path_id != 0 {
            let handle = handle.clone();
            self.start_read(stream_id, read.path_id, ReadSource::Handle(handle), range);
            return Ok(());
        }
        // A read after the end of the file is an empty answer, not an error.
        if range.is_empty() {
            report_read(handle, ReadKind::Read, range, self.received, Outcome::Hit);
            self.reply(stream_id, ReplyTo::ok);
            return Ok(());
        }
        // Checked before the hit: a redirected client must not be accounted bytes.
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
        let nowait = handle.nowait_reads();
        // Before the header: a connection that waits for the disk must not hold a buffer.
        if range.len() >= SENDFILE_LEN_MIN && !probe_cached(file, nowait, range.start(), range.len()) {
            let stream = ReadStream::absent(handle, file, range);
            self.start_read(stream_id, 0, ReadSource::Disk(stream), range);
            return Ok(());
        }
        // The header is removed again if the page cache does not hold the bytes of a short read.
        let waiting_len = self.output.len();
        // A read is at most 2 GiB long, because its length is a signed number of 32 bits.
        let body_len = u32::try_from(range.len()).unwrap_or(u32::MAX);
        self.output.encode(|out| ReplyTo::direct(stream_id).header(Status::OK, body_len, out));
        if range.len() >= SENDFILE_LEN_MIN {
            self.output.send_file(&self.stream, file, range).await?;
        } else if !append_cached(&mut self.output, file, nowait, range) {
            let stream = ReadStream::absent(handle, file, range);
            self.output.truncate(waiting_len);
            self.start_read(stream_id, 0, ReadSource::Disk(stream), range);
            return Ok(());
        }
        report_read(handle, ReadKind::Read, range, self.received, Outcome::Hit);
        self.note_hit();
        Ok(())
    }

    /// Redirects the client to the file if it is as complete as it seems. Otherwise answers the read.
    fn start_switch(&mut self, stream_id: StreamId, handle: Handle, range: ByteRange) {
        let read = RangeRead { kind: ReadKind::Read, range, requested: range };
        let state = Arc::clone(&self.state);
        match self.slow_read(stream_id, 0) {
            Ok(mut slow) => self.start(async move {
                match slow.answer.wait_for(state.front.switch_to_file(&handle)).await {
                    Some(url) => slow.answer.finish(|reply, out| reply.redirect_to_url(&url, out)).await,
                    None => answer_range(slow, ReadSource::Handle(handle), read).await,
                }
            }),
            Err(failure) => self.fail(stream_id, &failure),
        }
    }

    fn start_read(&mut self, stream_id: StreamId, path_id: u8, source: ReadSource, range: ByteRange) {
        let read = RangeRead { kind: ReadKind::Read, range, requested: range };
        self.start_range_read(stream_id, path_id, source, read);
    }

    /// Starts the task of a read of one range.
    pub(crate) fn start_range_read(&mut self, stream_id: StreamId, path_id: u8, source: ReadSource, read: RangeRead) {
        match self.slow_read(stream_id, path_id) {
            Ok(slow) => self.start(answer_range(slow, source, read)),
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
pub(crate) fn append_cached(output: &mut Output, file: &File, nowait: NowaitReads, range: ByteRange) -> bool {
    let Ok(len) = usize::try_from(range.len()) else { return false };
    let read = read_nowait(file, nowait, range.start(), output.room(len));
    let is_cached = matches!(read, Ok(Some(read_len)) if read_len == len);
    if is_cached {
        output.commit(len);
    }
    is_cached
}

async fn answer_range(mut slow: SlowRead, source: ReadSource, read: RangeRead) {
    let RangeRead { kind, range, requested } = read;
    if range.is_empty() {
        return match kind {
            ReadKind::Read => slow.answer.finish(ReplyTo::ok).await,
            ReadKind::PageRead => {
                let offset = requested.start();
                slow.answer.finish(|reply, out| past_the_end(reply.stream_id, offset).encode(out)).await;
            }
        };
    }
    // Pages are held back until they are whole. Plain bytes are sent from where they are.
    if kind == ReadKind::PageRead {
        slow.reserve(encoded_len(range)).await;
    }
    let reported = source.reported();
    let (stream, outcome) = source.start(range);
    let sent = match kind {
        ReadKind::Read => stream_bytes(&mut slow, stream, range.len()).await,
        ReadKind::PageRead => stream_pages(&mut slow, stream, range).await,
    };
    if sent.is_ok() {
        if let Some(handle) = reported {
            report_read(&handle, kind, requested, slow.received, outcome);
        }
        slow.observe(outcome);
    }
}

/// Sends `len` bytes as they come: each frame holds the bytes that are available when it is made. After a wait response, all
/// bytes are sent in one frame.
async fn stream_bytes(slow: &mut SlowRead, mut stream: ReadStream, len: u64) -> Result<(), Gone> {
    let mut rest_len = len;
    while rest_len > 0 {
        let mut batch = slow.next_batch(&mut stream, rest_len.min(u64::from(READ_FRAME_LEN_MAX))).await;
        if batch.failure.is_none() && slow.is_whole(len) {
            let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
            let mut appended = append_batch(batch, &mut bytes);
            if appended.is_ok() {
                let missing = len.saturating_sub(bytes.len() as u64);
                appended = slow.append(&mut stream, usize::try_from(missing).unwrap_or(usize::MAX), &mut bytes).await;
            }
            match appended {
                Ok(()) => slow.send_assembled(Status::OK, bytes).await?,
                Err(failure) => slow.fail(failure).await,
            }
            return Ok(());
        }
        rest_len = rest_len.saturating_sub(batch.len);
        if batch.len > 0 {
            let status = if rest_len == 0 { Status::OK } else { Status::OKSOFAR };
            slow.send(status, std::mem::take(&mut batch.segments)).await?;
        }
        if let Some(failure) = batch.failure {
            slow.fail(failure).await;
            return Ok(());
        }
    }
    Ok(())
}
