//! The bytes of files, as bodies of answers.

use crate::{
    adjacent_parts::AdjacentParts,
    error_answers::ErrorAnswer,
    options::{PART_LEN, SENDFILE_LEN_MIN, SENDFILE_PART_LEN_MIN, STREAM_UNRESERVED_LEN},
    request::{Broken, Context, unless_left},
    wire::Wire,
};
use forebay_engine::Handle;
use forebay_front::{Failure, ReadKind, ReadStream, report_read};
use forebay_http_proto::{Answer, Head, PartHeads};
use forebay_net::probe_cached;
use forebay_types::{ByteRange, Outcome};

/// Ranges of a file, as they are to be sent.
pub(crate) struct Content<'a> {
    pub(crate) handle: &'a Handle,
    pub(crate) ranges: &'a [ByteRange],
    /// Of a body of several parts.
    pub(crate) parts: Option<PartHeads>,
    /// Bytes of the body.
    pub(crate) len: u64,
    /// Whether the status of the delivery follows the body.
    pub(crate) has_status: bool,
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

impl<W: Wire> Context<W> {
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
                if content.has_status {
                    self.end_body("200: OK");
                }
                for range in content.ranges {
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
            Err(Cut::Failure(failure)) if self.output.take_back(before) && self.wire.take_back() => {
                Ok(Err(failure.into()))
            }
            Err(Cut::Failure(failure)) if content.has_status => {
                self.end_body(&format!("500: {}", failure.text.replace(|c: char| c.is_control(), " ")));
                Ok(Ok(()))
            }
            Err(Cut::Failure(failure)) => {
                self.output.flush(&mut self.wire).await?;
                Err(Broken::Content(failure.text.into_owned()))
            }
        }
    }

    async fn send_ranges(&mut self, content: &Content<'_>) -> Result<Outcome, Cut> {
        note_operation(content);
        if content.parts.is_some() {
            self.output.expect(content.len);
        }
        let mut text = String::new();
        let mut others = content.ranges;
        while let Some((range, behind)) = others.split_first() {
            let sent = self.send_adjacent_hits(content, others).await?;
            if sent > 0 {
                others = others.get(sent..).unwrap_or_default();
            } else {
                others = behind;
                self.begin_part(content, *range, &mut text);
                let rest = self.send_hits(content, *range).await?;
                if !rest.is_empty() {
                    Box::pin(self.send_missing(content, rest, others)).await?;
                    self.end_parts(content);
                    return Ok(Outcome::Missed);
                }
            }
            if self.output.is_full() {
                self.output.flush(&mut self.wire).await?;
                // Otherwise the next buffer grows, and is copied, several times.
                if !others.is_empty() {
                    self.output.expect(content.len);
                }
            }
        }
        self.end_parts(content);
        Ok(Outcome::Hit)
    }

    /// Sends the first ones of `ranges` if at least two are adjacent, and all of these on disk. Returns their number.
    async fn send_adjacent_hits(&mut self, content: &Content<'_>, ranges: &[ByteRange]) -> Result<usize, Cut> {
        let handle = content.handle;
        let (Some(parts), Some(waiting)) = (&content.parts, self.output.as_they_are()) else { return Ok(0) };
        let Some(run) = AdjacentParts::of(ranges) else { return Ok(0) };
        let Some(file) = handle.hit(run.range) else { return Ok(0) };
        let whole = run.append_cached((file, handle.nowait_reads()), parts, waiting);
        let mut text = String::new();
        for range in run.ranges.iter().skip(whole) {
            self.begin_part(content, *range, &mut text);
            let stream = ReadStream::absent(handle, file, *range);
            Box::pin(self.send_stream(content, stream, range.len())).await?;
        }
        Ok(run.ranges.len())
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
            self.output.begin_chunk(part.len());
            let is_cached = if is_long {
                probe_cached(file, nowait, part.start(), part.len())
            } else {
                self.output.append_cached(file, nowait, part)
            };
            if is_cached {
                if is_long {
                    self.output.send_file(&mut self.wire, file, part).await?;
                }
                self.output.end_chunk();
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
        let mut text = String::new();
        for (number, (read, range)) in reads.into_iter().zip(ranges).enumerate() {
            if number > 0 {
                self.begin_part(content, range, &mut text);
            }
            self.send_stream(content, ReadStream::engine(read), range.len()).await?;
        }
        Ok(())
    }

    /// Sends `len` bytes as they come. A chunk holds the bytes that are there: it cannot be cut short.
    async fn send_stream(&mut self, content: &Content<'_>, mut stream: ReadStream, len: u64) -> Result<(), Cut> {
        let is_short = content.len <= STREAM_UNRESERVED_LEN as u64;
        let connection = &self.peer.memory;
        let memory = if is_short { connection.short_answer() } else { self.wire.read_memory(connection).await? };
        let mut rest_len = len;
        while rest_len > 0 {
            let next = stream.next_batch(&memory, rest_len.min(BATCH_LEN));
            let batch = unless_left(&mut self.wire, next).await?;
            rest_len = rest_len.saturating_sub(batch.len);
            if batch.len > 0 {
                self.output.begin_chunk(batch.len);
                self.output.send_segments(&mut self.wire, batch.segments).await?;
                self.output.end_chunk();
            }
            if let Some(failure) = batch.failure {
                return Err(Cut::Failure(failure));
            }
        }
        Ok(())
    }

    fn end_parts(&mut self, content: &Content<'_>) {
        if content.parts.is_some() {
            self.output.append_chunk(PartHeads::END.as_bytes());
        }
    }

    /// Appends the bytes before a part of several. Their text is made in the memory of `text`.
    fn begin_part(&mut self, content: &Content<'_>, range: ByteRange, text: &mut String) {
        if let Some(parts) = &content.parts {
            text.clear();
            parts.push(range, text);
            self.output.append_chunk(text.as_bytes());
        }
    }
}

/// Counts the ranges of an answer as one read, or as one vector read.
fn note_operation(content: &Content<'_>) {
    match content.ranges {
        [range] => content.handle.note_operation(ReadKind::Read, *range),
        ranges => {
            let bytes = ranges.iter().map(|range| range.len()).sum();
            content.handle.note_vector(u64::try_from(ranges.len()).unwrap_or(u64::MAX), bytes);
        }
    }
}
