//! The bytes of files, as bodies of answers.

use crate::{
    error_answers::ErrorAnswer,
    options::{PART_LEN, SENDFILE_LEN_MIN, SENDFILE_PART_LEN_MIN},
    request::{Broken, Context, unless_left},
};
use forebay_engine::Handle;
use forebay_front::{Failure, ReadKind, ReadStream, report_read};
use forebay_http_proto::{Answer, Head, PartHeads};
use forebay_net::probe_cached;
use forebay_types::{ByteRange, Outcome};

/// Ranges of a file, as they are to be sent.
pub(crate) struct Content<'a> {
    pub(crate) handle: &'a Handle,
    pub(crate) ranges: Vec<ByteRange>,
    /// Of a body of several parts.
    pub(crate) parts: Option<PartHeads>,
    pub(crate) is_chunked: bool,
}

/// Why the bytes of a body ended.
enum Cut {
    Broken(Broken),
    Failure(Failure),
}

impl<E: Into<Broken>> From<E> for Cut {
    fn from(error: E) -> Self {
        Self::Broken(error.into())
    }
}

/// Bytes of one read that are taken at a time.
const BATCH_LEN: u64 = 1 << 20;

impl Context {
    /// Sends a head and the content after it. An error is returned if none of it was sent.
    pub(crate) async fn send_content(
        &mut self,
        head: &Head<'_>,
        answer: Answer,
        content: Content<'_>,
    ) -> Result<Result<(), ErrorAnswer>, Broken> {
        let before = self.output.mark();
        self.write_head(head, answer);
        match self.send_ranges(&content).await {
            Ok(outcome) => {
                if content.is_chunked {
                    self.output.append(b"0\r\nX-Transfer-Status: 200: OK\r\n\r\n");
                }
                for range in &content.ranges {
                    report_read(content.handle, ReadKind::Read, *range, self.received, outcome);
                }
                match outcome {
                    Outcome::Hit => self.hits += 1,
                    outcome => self.observe(outcome, 1),
                }
                Ok(Ok(()))
            }
            Err(Cut::Broken(broken)) => Err(broken),
            // The client gets the reason, as long as it has not got anything else.
            Err(Cut::Failure(failure)) if self.output.take_back(before) => Ok(Err(failure.into())),
            Err(Cut::Failure(failure)) if content.is_chunked => {
                let text = failure.text.replace(|c: char| c.is_control(), " ");
                self.output.append(format!("0\r\nX-Transfer-Status: 500: {text}\r\n\r\n").as_bytes());
                Ok(Ok(()))
            }
            Err(Cut::Failure(failure)) => {
                self.output.flush(&self.stream).await?;
                Err(Broken::Content(failure.text.into_owned()))
            }
        }
    }

    async fn send_ranges(&mut self, content: &Content<'_>) -> Result<Outcome, Cut> {
        note_operation(content);
        let mut outcome = Outcome::Hit;
        for (number, range) in content.ranges.iter().enumerate() {
            self.begin_part(content, *range);
            let rest = self.send_hits(content, *range).await?;
            if !rest.is_empty() {
                let others = content.ranges.get(number + 1..).unwrap_or_default();
                Box::pin(self.send_missing(content, rest, others)).await?;
                outcome = Outcome::Missed;
                break;
            }
            if self.output.is_full() {
                self.output.flush(&self.stream).await?;
            }
        }
        if content.parts.is_some() {
            self.append(content, PartHeads::end().as_bytes());
        }
        Ok(outcome)
    }

    /// Sends the beginning of `range` that is on disk, and returns the rest.
    async fn send_hits(&mut self, content: &Content<'_>, range: ByteRange) -> Result<ByteRange, Cut> {
        let handle = content.handle;
        let sendfile_len_min = if content.parts.is_some() { SENDFILE_PART_LEN_MIN } else { SENDFILE_LEN_MIN };
        let mut rest = range;
        while !rest.is_empty() {
            let part = ByteRange::at(rest.start(), rest.len().min(PART_LEN));
            let Some(file) = handle.hit(part) else { break };
            let nowait = handle.nowait_reads();
            let is_long = part.len() >= sendfile_len_min;
            let before = self.output.mark();
            self.begin_chunk(content, part.len());
            let is_cached = if is_long {
                probe_cached(file, nowait, part.start(), part.len())
            } else {
                self.output.append_cached(file, nowait, part)
            };
            if is_cached {
                if is_long {
                    self.output.send_file(&self.stream, file, part).await?;
                }
                self.end_chunk(content);
            } else {
                self.output.take_back(before);
                let stream = ReadStream::absent(handle, file, part);
                Box::pin(self.send_stream(content, stream, part.len())).await?;
            }
            rest = ByteRange::between(part.end(), rest.end());
        }
        Ok(rest)
    }

    /// Sends `rest` of a range, and the ranges after it, as the engine gets them.
    async fn send_missing(&mut self, content: &Content<'_>, rest: ByteRange, others: &[ByteRange]) -> Result<(), Cut> {
        let ranges: Vec<ByteRange> = std::iter::once(rest).chain(others.iter().copied()).collect();
        // Started together: what is missing of all of them is requested at once.
        let reads = content.handle.read_many(&ranges);
        for (number, (read, range)) in reads.into_iter().zip(ranges).enumerate() {
            if number > 0 {
                self.begin_part(content, range);
            }
            self.send_stream(content, ReadStream::engine(read), range.len()).await?;
        }
        Ok(())
    }

    /// Sends `len` bytes as they come. A chunk holds the bytes that are there: it cannot be cut short.
    async fn send_stream(&mut self, content: &Content<'_>, mut stream: ReadStream, len: u64) -> Result<(), Cut> {
        let memory = self.memory.answer();
        let mut rest_len = len;
        while rest_len > 0 {
            let next = stream.next_batch(&memory, rest_len.min(BATCH_LEN));
            let batch = unless_left(&self.stream, next).await?;
            rest_len = rest_len.saturating_sub(batch.len);
            if batch.len > 0 {
                self.begin_chunk(content, batch.len);
                self.output.send_segments(&self.stream, batch.segments).await?;
                self.end_chunk(content);
            }
            if let Some(failure) = batch.failure {
                return Err(Cut::Failure(failure));
            }
        }
        Ok(())
    }

    fn begin_part(&mut self, content: &Content<'_>, range: ByteRange) {
        if let Some(parts) = &content.parts {
            self.append(content, parts.head(range).as_bytes());
        }
    }

    /// Appends bytes of the body that are not of the file.
    fn append(&mut self, content: &Content<'_>, bytes: &[u8]) {
        self.begin_chunk(content, bytes.len() as u64);
        self.output.append(bytes);
        self.end_chunk(content);
    }

    fn begin_chunk(&mut self, content: &Content<'_>, len: u64) {
        if content.is_chunked {
            self.output.append(format!("{len:x}\r\n").as_bytes());
        }
    }

    fn end_chunk(&mut self, content: &Content<'_>) {
        if content.is_chunked {
            self.output.append(b"\r\n");
        }
    }
}

/// Counts the ranges of an answer as one read, or as one vector read.
fn note_operation(content: &Content<'_>) {
    match content.ranges.as_slice() {
        [range] => content.handle.note_operation(ReadKind::Read, *range),
        ranges => {
            let bytes = ranges.iter().map(|range| range.len()).sum();
            content.handle.note_vector(u64::try_from(ranges.len()).unwrap_or(u64::MAX), bytes);
        }
    }
}
