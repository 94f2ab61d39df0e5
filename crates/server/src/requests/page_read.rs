//! Reads of one range with page checksums.

use crate::{
    answers::{answer::Gone, slow_read::SlowRead},
    base::{event::Frame, output::OutputError},
    requests::{context::ConnectionContext, read::RangeRead},
};
use bytes::Bytes;
use forebay_engine::Handle;
use forebay_engine::Segment;
use forebay_front::{Failure, ReadKind, ReadSource, ReadStream, Reservation, into_bytes, report_read, with_memory};
use forebay_net::{probe_cached, read_nowait_vectored};
use forebay_proto::{
    StreamId,
    page::{FrameKind, PAGE_LEN, StatusFrame, crc32c, encoded_len, frames, pages, seal_pages},
    request::PageRead,
};
use forebay_types::{ByteRange, Outcome};
use std::{collections::VecDeque, fs::File, io::IoSliceMut, sync::Arc};

/// Bytes of a slow answer that are taken at a time.
const SLOW_BATCH_LEN: u64 = 512 << 10;

/// Bytes of a page's checksum.
const CHECKSUM_BYTES: usize = size_of::<u32>();

impl ConnectionContext {
    /// Answers a page read: at once if the page cache holds the bytes, by a task of its own otherwise. The option to verify the
    /// bytes against the storage has no effect: all bytes are verified when they come from the origin.
    pub(crate) async fn page_read(&mut self, stream_id: StreamId, read: &PageRead) -> Result<(), OutputError> {
        let handle = match self.handle(read.handle) {
            Ok(handle) => handle,
            Err(failure) => {
                self.fail(stream_id, &failure);
                return Ok(());
            }
        };
        let range = ByteRange::at(read.offset, u64::from(read.len)).clipped_to(handle.size());
        handle.note_operation(ReadKind::PageRead, range);
        let is_for_this_stream = read.path_id == 0;
        if is_for_this_stream && range.is_empty() {
            report_read(handle, ReadKind::PageRead, range, self.received, Outcome::Hit);
            self.output.encode(|out| past_the_end(stream_id, read.offset).encode(out));
            return Ok(());
        }
        // The file is cloned because flushing borrows this context.
        let file = if is_for_this_stream { handle.hit(range).cloned() } else { None };
        let handle = handle.clone();
        let Some(file) = file else {
            self.start_page_read(stream_id, read, ReadSource::Handle(handle), range);
            return Ok(());
        };
        if let Some(rest) = self.send_cached_pages(stream_id, (&handle, &file), range).await? {
            let source = ReadSource::Disk(ReadStream::absent(&handle, &file, rest));
            self.start_page_read(stream_id, read, source, rest);
        } else {
            report_read(&handle, ReadKind::PageRead, range, self.received, Outcome::Hit);
            self.note_hit();
        }
        Ok(())
    }

    /// Sends the frames of `range` while the page cache holds them. Returns the rest.
    async fn send_cached_pages(
        &mut self,
        stream_id: StreamId,
        (handle, file): (&Handle, &Arc<File>),
        range: ByteRange,
    ) -> Result<Option<ByteRange>, OutputError> {
        self.output.expect(usize::try_from(encoded_len(range)).unwrap_or(usize::MAX));
        for frame in frames(range) {
            // A begun frame must be completed, so the whole frame is probed before its header is written.
            if !probe_cached(file, handle.nowait_reads(), frame.start(), frame.len()) {
                return Ok(Some(ByteRange::between(frame.start(), range.end())));
            }
            let kind = if frame.end() == range.end() { FrameKind::Final } else { FrameKind::Partial };
            self.output.append(&StatusFrame::page_read(stream_id, kind, frame).to_bytes());
            for piece in cut(frame, self.output.assembly_len() as u64 / PAGE_LEN) {
                self.append_pages((handle, file), piece).await?;
                if self.output.is_full() {
                    self.output.flush(&self.stream).await?;
                }
            }
        }
        Ok(None)
    }

    /// Appends the pages of `piece`, of which the page cache probably holds all.
    async fn append_pages(
        &mut self,
        (handle, file): (&Handle, &Arc<File>),
        piece: ByteRange,
    ) -> Result<(), OutputError> {
        let len = usize::try_from(encoded_len(piece)).unwrap_or(usize::MAX);
        let room = self.output.room(len);
        let is_read = matches!(
            read_nowait_vectored(file, handle.nowait_reads(), piece.start(), &mut data_slices(piece, room)),
            Ok(Some(read_len)) if read_len as u64 == piece.len()
        );
        if !is_read {
            // Evicted from the page cache after the probe. The frame has begun, so the connection has to wait for the disk.
            let read = handle.read_disk(file, piece).await;
            let data = read.map_err(|error| OutputError::Disk(error.to_string()))?;
            copy_pages(piece, &data, self.output.room(len));
        }
        // The data lies in its place already: only the checksums are filled in.
        seal_pages(piece.start(), self.output.room(len));
        self.output.commit(len);
        Ok(())
    }

    fn start_page_read(&mut self, stream_id: StreamId, read: &PageRead, source: ReadSource, range: ByteRange) {
        // `range` may be only the rest of the request, or empty after the end of the file.
        let start = if range.is_empty() { read.offset } else { read.offset.min(range.start()) };
        let requested = ByteRange::between(start, range.end().max(start));
        let page_read = RangeRead { kind: ReadKind::PageRead, range, requested };
        self.start_range_read(stream_id, read.path_id, source, page_read);
    }
}

/// Sends the pages of `range` in order: each frame holds the whole pages that are available when it is made.
pub(crate) async fn stream_pages(slow: &mut SlowRead, mut stream: ReadStream, range: ByteRange) -> Result<(), Gone> {
    let mut arrived = Arrived::default();
    let mut position = range.start();
    while position < range.end() {
        let batch_len = slow.piece_len(SLOW_BATCH_LEN.min(range.end() - position));
        let batch = slow.next_batch(&mut stream, batch_len).await;
        let reserved = slow.reserved();
        if let Err(failure) = batch.segments.into_iter().try_for_each(|segment| arrived.push(segment, &reserved)) {
            slow.fail(failure).await;
            return Err(Gone);
        }
        for frame in frames(whole_pages(position, arrived.len, range.end())) {
            // Page reads are answered by ordinary frames, also after a wait response.
            slow.answer.answer_directly();
            let kind = if frame.end() == range.end() { FrameKind::Final } else { FrameKind::Partial };
            let page_frame = page_frame(slow.answer.reply.stream_id, kind, frame, &mut arrived, reserved.clone());
            slow.answer.send(page_frame).await?;
            position = frame.end();
        }
        arrived.detach();
        if let Some(failure) = batch.failure {
            slow.fail(failure).await;
            return Err(Gone);
        }
        if position < range.end() {
            drop(reserved);
            slow.next_piece().await;
        }
    }
    Ok(())
}

/// The whole pages among `arrived_len` bytes at `position`. The last page of the answer may be short.
fn whole_pages(position: u64, arrived_len: u64, end: u64) -> ByteRange {
    let arrived_end = position + arrived_len;
    let whole_end = if arrived_end >= end { end } else { arrived_end - arrived_end % PAGE_LEN };
    ByteRange::between(position, whole_end)
}

/// A frame of the pages of `range`, whose data has arrived. The data is not copied, only the checksums are new. They hold `memory`.
fn page_frame(
    stream_id: StreamId,
    kind: FrameKind,
    range: ByteRange,
    arrived: &mut Arrived,
    memory: Vec<Arc<Reservation>>,
) -> Frame {
    let mut checksums = Vec::new();
    let mut data = Vec::new();
    for page in pages(range) {
        let bytes = arrived.take(usize::try_from(page.len()).unwrap_or(usize::MAX));
        checksums.extend_from_slice(&crc32c(&bytes).to_be_bytes());
        data.push(bytes);
    }
    let mut checksums = with_memory(checksums, memory);
    let body = data.into_iter().flat_map(|bytes| {
        let checksum = checksums.split_to(CHECKSUM_BYTES.min(checksums.len()));
        [Segment::Memory(checksum), Segment::Memory(bytes)]
    });
    let head = StatusFrame::page_read(stream_id, kind, range).to_bytes().to_vec();
    Frame { head, body: body.collect() }
}

/// Bytes that have arrived and are not sent yet.
#[derive(Default)]
struct Arrived {
    parts: VecDeque<Bytes>,
    len: u64,
}

impl Arrived {
    fn push(&mut self, segment: Segment, memory: &[Arc<Reservation>]) -> Result<(), Failure> {
        self.len += segment.len();
        self.parts.push_back(into_bytes(segment, memory)?);
        Ok(())
    }

    /// The next `len` bytes, copied only if they lie in several parts.
    fn take(&mut self, len: usize) -> Bytes {
        let mut taken = Bytes::new();
        while taken.len() < len
            && let Some(mut part) = self.parts.pop_front()
        {
            let next = part.split_to(part.len().min(len - taken.len()));
            if !part.is_empty() {
                self.parts.push_front(part);
            }
            taken = if taken.is_empty() { next } else { Bytes::from([taken, next].concat()) };
        }
        self.len -= taken.len() as u64;
        taken
    }

    /// Copies the rest, which is less than a page, so that it does not keep a large buffer while the next bytes are awaited.
    fn detach(&mut self) {
        let parts: Vec<Bytes> = self.parts.drain(..).collect();
        if self.len > 0 {
            self.parts.push_back(Bytes::from(parts.concat()));
        }
    }
}

/// The answer to a page read at or after the end of the file.
pub(crate) fn past_the_end(stream_id: StreamId, offset: u64) -> StatusFrame {
    StatusFrame::page_read(stream_id, FrameKind::Final, ByteRange::at(offset, 0))
}

/// Cuts `range` into parts of at most `page_count` pages; all but the first begin at a page boundary.
fn cut(range: ByteRange, page_count: u64) -> impl Iterator<Item = ByteRange> {
    let mut start = range.start();
    std::iter::from_fn(move || {
        let end = (start / PAGE_LEN + page_count).saturating_mul(PAGE_LEN).min(range.end());
        let part = ByteRange::between(start, end);
        start = part.end();
        (!part.is_empty()).then_some(part)
    })
}

/// The data of each page of `range` in its wire form, after the gap for its checksum.
fn data_slices(range: ByteRange, mut encoded: &mut [u8]) -> Vec<IoSliceMut<'_>> {
    pages(range)
        .map_while(|page| {
            let page_len = usize::try_from(page.len()).ok()?;
            let (_, behind) = std::mem::take(&mut encoded).split_at_mut_checked(CHECKSUM_BYTES)?;
            let (data, next) = behind.split_at_mut_checked(page_len)?;
            encoded = next;
            Some(IoSliceMut::new(data))
        })
        .collect()
}

/// Copies `data`, the bytes of `range`, to their places in the wire form.
fn copy_pages(range: ByteRange, mut data: &[u8], encoded: &mut [u8]) {
    for mut slice in data_slices(range, encoded) {
        let Some((page, rest)) = data.split_at_checked(slice.len()) else { return };
        slice.copy_from_slice(page);
        data = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_proto::page::{decode_pages, page_count};

    #[test]
    fn parts_begin_at_page_boundaries_and_cover_the_range() {
        let range = ByteRange::at(100, 40_000);
        let parts: Vec<_> = cut(range, 2).collect();
        assert_eq!(parts.first().unwrap(), &ByteRange::between(100, 8192));
        assert!(parts.iter().skip(1).all(|part| part.start().is_multiple_of(PAGE_LEN)));
        assert!(parts.windows(2).all(|pair| pair[0].end() == pair[1].start()));
        assert_eq!(parts.last().unwrap().end(), range.end());
        assert_eq!(cut(ByteRange::at(5, 0), 2).count(), 0);
    }

    #[test]
    fn copied_pages_decode_to_the_same_bytes() {
        for (offset, len) in [(0, 4096), (0, 1), (100, 10_000), (4095, 2), (8192, 12_289)] {
            let range = ByteRange::at(offset, len);
            let data: Vec<u8> = (0..len).map(|i| u8::try_from(i % 251).unwrap()).collect();
            let mut encoded = vec![0xee; usize::try_from(encoded_len(range)).unwrap()];
            copy_pages(range, &data, &mut encoded);
            seal_pages(offset, &mut encoded);
            let decoded: Vec<_> = decode_pages(offset, &encoded).unwrap().collect();
            assert!(decoded.iter().all(|page| page.is_intact));
            assert_eq!(decoded.len() as u64, page_count(range));
            assert_eq!(decoded.iter().flat_map(|page| page.data).copied().collect::<Vec<_>>(), data);
        }
    }
}
