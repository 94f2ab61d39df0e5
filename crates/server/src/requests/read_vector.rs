//! Reads of several ranges in one request.

use crate::{
    answers::{answer::Gone, slow_read::SlowRead},
    base::{
        contiguous_elements::{ContiguousElements, encoded_len, range_of},
        output::OutputError,
        status::Failure,
    },
    requests::context::ConnectionContext,
};
use forebay_engine::Handle;
use forebay_front::{Failure as ReadFailure, ReadStream, answered_now};
use forebay_proto::{
    ErrorCode, FileHandle, ReplyTo, Status, StreamId,
    request::{ReadElement, ReadVector},
    response::element_header,
};
use forebay_types::{ByteRange, Outcome};
use std::{sync::Arc, time::Instant};

/// Bytes of elements in one frame of a slow answer.
const SLOW_FRAME_LEN: usize = 512 << 10;

/// The progress of a vector read before its task starts.
#[derive(Default)]
struct Progress {
    /// Elements that are assembled or sent.
    done: usize,
    /// The next elements that are on disk, and accounted, but not in the page cache.
    on_disk: Vec<ReadStream>,
    has_begun: bool,
    /// The file that the client can read itself, if it is as complete as it seems.
    switching: Option<Handle>,
}

impl ConnectionContext {
    /// Answers a vector read: at once while the page cache holds the elements, the rest by a task of its own. A frame never
    /// ends within an element.
    pub(crate) async fn read_vector(&mut self, stream_id: StreamId, read: &ReadVector<'_>) -> Result<(), OutputError> {
        if let Err(failure) = self.check_elements(read) {
            self.fail(stream_id, &failure);
            return Ok(());
        }
        self.note_vector(read);
        if read.path_id != 0 {
            self.start_read_vector(stream_id, read, Vec::new(), Progress::default());
            return Ok(());
        }
        // Leases are granted asynchronously, so a redirect needs a task.
        if let Some(handle) = self.switching(read) {
            let progress = Progress { switching: Some(handle), ..Progress::default() };
            self.start_read_vector(stream_id, read, Vec::new(), progress);
            return Ok(());
        }
        let frame_start = self.output.len();
        let mut progress = Progress::default();
        let body_len = usize::try_from(read.elements.body_len()).unwrap_or(usize::MAX);
        self.begin_frame(stream_id, body_len);
        let mut body_start = self.output.len();
        let mut elements = read.elements.iter().peekable();
        while let Some(first) = elements.next() {
            let mut run = ContiguousElements::of(first);
            // Adjacent elements are one system call: sorted vectors of ROOT have many.
            while let Some(next) = elements.next_if(|next| run.continues_with(next)) {
                run.push(next);
            }
            let appended = self.append_run(&run, &mut progress.on_disk);
            progress.done += appended;
            // The order of elements is fixed, so one that is missing delays all after it.
            if appended < run.elements.len() {
                break;
            }
            // Sent early, so that the client receives while the rest is assembled.
            if self.output.is_full() && progress.done < read.elements.len() {
                self.end_frame(stream_id, Status::OKSOFAR, body_start);
                self.flush().await?;
                progress.has_begun = true;
                self.begin_frame(stream_id, body_len);
                body_start = self.output.len();
            }
        }
        if progress.done == read.elements.len() {
            self.end_frame(stream_id, Status::OK, body_start);
            let reported = self.reported_elements(read);
            report_vector(|name| self.handles.get(name), &reported, self.received, Outcome::Hit);
            self.note_hit();
        } else {
            // This frame has not been sent: the task sends it with the elements that follow.
            let assembled = self.output.behind(body_start).to_vec();
            // Answers of earlier requests may wait before this frame, unless a flush has sent them.
            self.output.truncate(if progress.has_begun { 0 } else { frame_start });
            self.start_read_vector(stream_id, read, assembled, progress);
        }
        Ok(())
    }

    /// The file that the client can be redirected to: a vector read of one file only.
    fn switching(&self, read: &ReadVector<'_>) -> Option<Handle> {
        let name = read.elements.iter().next()?.handle;
        let handle = self.handles.get(name).filter(|handle| handle.may_switch())?;
        read.elements.iter().all(|element| element.handle == name).then(|| handle.clone())
    }

    /// Refuses vectors with an element beyond the end of its file: the protocol has no form for a part of an element.
    fn check_elements(&self, read: &ReadVector<'_>) -> Result<(), Failure> {
        for element in read.elements.iter() {
            let handle = self.handle(element.handle)?;
            if range_of(&element).end() > handle.size() {
                return Err(Failure::client(ErrorCode::FS_ERROR, "readv past EOF"));
            }
        }
        Ok(())
    }

    /// Counts the vector for each file that it reads from: mostly one, so others are kept apart and cost nothing then.
    fn note_vector(&self, read: &ReadVector<'_>) {
        let Some(first) = read.elements.iter().next().map(|element| element.handle) else { return };
        let mut of_first = (first, 0, 0);
        let mut others: Vec<(FileHandle, u64, u64)> = Vec::new();
        for ReadElement { handle, len, .. } in read.elements.iter() {
            let of_handle = if handle == first {
                Some(&mut of_first)
            } else {
                others.iter_mut().find(|(name, ..)| *name == handle)
            };
            match of_handle {
                Some((_, elements, bytes)) => (*elements, *bytes) = (*elements + 1, *bytes + u64::from(len)),
                None => others.push((handle, 1, u64::from(len))),
            }
        }
        for (name, elements, bytes) in others.into_iter().chain([of_first]) {
            if let Some(handle) = self.handles.get(name) {
                handle.note_vector(elements, bytes);
            }
        }
    }

    /// Appends the header of a frame, and makes room for a body of up to `body_len` bytes.
    fn begin_frame(&mut self, stream_id: StreamId, body_len: usize) {
        self.output.expect(body_len);
        self.reply(stream_id, |reply, out| reply.header(Status::OKSOFAR, 0, out));
    }

    /// Completes the header of the frame whose body starts at `body_start` of the waiting answers.
    fn end_frame(&mut self, stream_id: StreamId, status: Status, body_start: usize) {
        let body_len = u32::try_from(self.output.len() - body_start).unwrap_or(u32::MAX);
        // The length is known only now, so the header is written a second time.
        let mut header = Vec::new();
        let reply = ReplyTo::direct(stream_id);
        reply.header(status, body_len, &mut header);
        self.output.overwrite(body_start - reply.header_len(), &header);
    }

    /// Appends the elements of a run that the page cache holds, from the first one on, and returns how many. `on_disk` gets the
    /// streams of the others, if they are on disk: these are accounted already.
    fn append_run(&mut self, run: &ContiguousElements, on_disk: &mut Vec<ReadStream>) -> usize {
        let Self { handles, output, .. } = self;
        let elements = &run.elements;
        // An empty element has only a header.
        if run.range.is_empty() {
            elements.iter().for_each(|element| output.append(&element_header(element)));
            return elements.len();
        }
        let hit = elements.first().and_then(|first| handles.get(first.handle));
        let Some((handle, file)) = hit.and_then(|handle| Some((handle, handle.hit(run.range)?))) else { return 0 };
        let cached = run.read_cached((file, handle.nowait_reads()), output.room(run.encoded_len(elements.len())));
        output.commit(run.encoded_len(cached));
        on_disk.extend(elements.iter().skip(cached).map(|element| ReadStream::disk(handle, file, range_of(element))));
        cached
    }

    fn start_read_vector(
        &mut self,
        stream_id: StreamId,
        read: &ReadVector<'_>,
        assembled: Vec<u8>,
        progress: Progress,
    ) {
        let mut slow = match self.slow_read(stream_id, read.path_id) {
            Ok(slow) => slow,
            Err(failure) => return self.fail(stream_id, &failure),
        };
        if progress.has_begun {
            slow.answer.note_part();
        }
        let elements: Vec<ReadElement> = read.elements.iter().skip(progress.done).collect();
        let reported = self.reported_elements(read);
        // A subscriber gets all elements of its file, also those that are answered already.
        let handles = self.handles_of(if reported.is_empty() { &elements } else { &reported });
        let body_len = read.elements.body_len();
        let state = Arc::clone(&self.state);
        self.start(async move {
            if let Some(handle) = &progress.switching
                && let Some(url) = slow.answer.wait_for(state.front.switch_to_file(handle)).await
            {
                return slow.answer.finish(|reply, out| reply.redirect_to_url(&url, out)).await;
            }
            slow.reserve(body_len).await;
            let elements = start_elements(elements, &handles, progress.on_disk);
            if answer_read_vector(&mut slow, elements, assembled, body_len).await.is_ok() {
                slow.observe(Outcome::Missed);
                let find = |name| handles.iter().find(|(known, _)| *known == name).map(|(_, handle)| handle);
                report_vector(find, &reported, slow.received, Outcome::Missed);
            }
        });
    }

    /// The elements of a vector read that is reported: one whose first file has a subscriber to its reads.
    fn reported_elements(&self, read: &ReadVector<'_>) -> Vec<ReadElement> {
        let first = read.elements.iter().next().and_then(|element| self.handles.get(element.handle));
        if first.is_some_and(|handle| handle.reads().is_some()) { read.elements.iter().collect() } else { Vec::new() }
    }

    /// The open files of `elements`, each once.
    fn handles_of(&self, elements: &[ReadElement]) -> Vec<(FileHandle, Handle)> {
        let mut handles: Vec<(FileHandle, Handle)> = Vec::new();
        for element in elements {
            if handles.iter().all(|(name, _)| *name != element.handle)
                && let Some(handle) = self.handles.get(element.handle)
            {
                handles.push((element.handle, handle.clone()));
            }
        }
        handles
    }
}

/// Reports a vector read that has been answered to the subscribers of each file that it reads from.
fn report_vector<'h>(
    find: impl Fn(FileHandle) -> Option<&'h Handle>,
    elements: &[ReadElement],
    received: Instant,
    outcome: Outcome,
) {
    let mut reported: Vec<FileHandle> = Vec::new();
    for name in elements.iter().map(|element| element.handle) {
        if reported.contains(&name) {
            continue;
        }
        reported.push(name);
        if let Some(reads) = find(name).and_then(Handle::reads) {
            let of_file = elements.iter().filter(|element| element.handle == name);
            reads.read_vector(&of_file.map(range_of).collect::<Vec<_>>(), &answered_now(received, outcome));
        }
    }
}

/// An element in progress. Without a source it is empty.
struct Element {
    element: ReadElement,
    source: Option<ReadStream>,
}

/// Starts the reads of all elements: those of one file together, so that adjacent ones become one origin request. The first
/// elements may have been found on disk before.
fn start_elements(
    elements: Vec<ReadElement>,
    handles: &[(FileHandle, Handle)],
    on_disk: Vec<ReadStream>,
) -> Vec<Element> {
    let mut on_disk = on_disk.into_iter();
    let mut elements: Vec<Element> =
        elements.into_iter().map(|element| Element { element, source: on_disk.next() }).collect();
    for (name, handle) in handles {
        let wanted =
            |element: &Element| element.element.handle == *name && element.element.len > 0 && element.source.is_none();
        let ranges: Vec<ByteRange> =
            elements.iter().filter(|element| wanted(element)).map(|element| range_of(&element.element)).collect();
        let reads = handle.read_many(&ranges);
        for (element, read) in elements.iter_mut().filter(|element| wanted(element)).zip(reads) {
            element.source = Some(ReadStream::engine(read));
        }
    }
    elements
}

/// Sends the elements in order, in frames of about [`SLOW_FRAME_LEN`].
async fn answer_read_vector(
    slow: &mut SlowRead,
    elements: Vec<Element>,
    mut assembled: Vec<u8>,
    body_len: u64,
) -> Result<(), Gone> {
    let mut is_whole = false;
    let mut rest_len = elements.iter().map(|element| encoded_len(&element.element)).fold(0, usize::saturating_add);
    let frame_len = usize::try_from(slow.piece_len(SLOW_FRAME_LEN as u64)).unwrap_or(SLOW_FRAME_LEN);
    for Element { element, source } in elements {
        is_whole = is_whole || slow.is_whole(body_len);
        let encoded_len = encoded_len(&element);
        if !assembled.is_empty() && assembled.len().saturating_add(encoded_len) > frame_len && !is_whole {
            slow.send_assembled(Status::OKSOFAR, std::mem::take(&mut assembled)).await?;
            slow.next_piece().await;
        }
        if assembled.capacity() - assembled.len() < encoded_len {
            // Memory for the whole frame: growing it step by step would copy it each time.
            let frame_rest = frame_len.saturating_sub(assembled.len());
            let frame_rest = if is_whole { rest_len } else { rest_len.min(frame_rest) };
            assembled.reserve_exact(frame_rest.max(encoded_len));
        }
        rest_len = rest_len.saturating_sub(encoded_len);
        assembled.extend_from_slice(&element_header(&element));
        let len = usize::try_from(element.len).unwrap_or(usize::MAX);
        let appended = match source {
            Some(mut stream) => slow.append(&mut stream, len, &mut assembled).await,
            None if len == 0 => Ok(()),
            None => Err(ReadFailure::ended_early()),
        };
        if let Err(failure) = appended {
            slow.fail(failure).await;
            return Err(Gone);
        }
    }
    slow.send_assembled(Status::OK, assembled).await
}
