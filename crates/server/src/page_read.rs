//! Reads of one range with page checksums.

use crate::{
    answer::{Answer, Gone},
    buffers::Buffers,
    event::Frame,
    exchange::Exchange,
    options::{ASSEMBLED_PER_ANSWER_MAX, ASSEMBLY_LEN},
    output::OutputError,
    read::ended_early,
    source::{Source, into_bytes, read_disk},
    status::Failure,
};
use bytes::Bytes;
use forebay_engine::{Handle, Segment};
use forebay_net::{probe_cached, read_nowait_vectored};
use forebay_proto::{
    StreamId,
    page::{CHECKSUM_LEN, FrameKind, PAGE_LEN, StatusFrame, encoded_len, frames, pages, seal_pages},
    request::PageRead,
};
use forebay_types::{ByteRange, Outcome};
use std::{fs::File, io::IoSliceMut, sync::Arc};

/// Pages that are assembled before they are sent: few system calls, yet still in the processor's cache.
const PAGES_PER_PIECE: u64 = ASSEMBLY_LEN as u64 / PAGE_LEN;

/// Pages in a frame of an answer whose bytes are still on their way: as few frames as when they are at hand, yet a part of
/// what clients read at a time.
const PAGES_PER_SLOW_FRAME: u64 = PAGES_PER_PIECE;

impl Exchange {
    /// Answers a page read: at once when disk and page cache hold the bytes, by a task of its own otherwise.
    ///
    /// The wish to verify the bytes against the storage is not granted: whatever is served was verified when it came.
    pub(crate) async fn page_read(&mut self, stream_id: StreamId, read: &PageRead) -> Result<(), OutputError> {
        let handle = match self.handle(read.handle) {
            Ok(handle) => handle,
            Err(failure) => {
                self.fail(stream_id, &failure);
                return Ok(());
            }
        };
        let range = ByteRange::at(read.offset, u64::from(read.len)).clipped_to(handle.size());
        if read.path_id != 0 {
            let supply = Supply::Handle(handle.clone());
            self.start_page_read(stream_id, read, supply, range);
            return Ok(());
        }
        if range.is_empty() {
            self.output.encode(|out| past_the_end(stream_id, read.offset).encode(out));
            return Ok(());
        }
        let Some(file) = handle.hit(range).cloned() else {
            let supply = Supply::Handle(handle.clone());
            self.start_page_read(stream_id, read, supply, range);
            return Ok(());
        };
        if let Some(rest) = self.send_cached_pages(stream_id, &file, range).await? {
            self.start_page_read(stream_id, read, Supply::Source(Source::disk(&file, rest)), rest);
        } else {
            self.observe_hit();
        }
        Ok(())
    }

    /// Sends the frames of `range` as long as the page cache holds them; gives back what remains.
    async fn send_cached_pages(
        &mut self,
        stream_id: StreamId,
        file: &Arc<File>,
        range: ByteRange,
    ) -> Result<Option<ByteRange>, OutputError> {
        for frame in frames(range) {
            if !probe_cached(file, frame.start(), frame.len()) {
                return Ok(Some(ByteRange::between(frame.start(), range.end())));
            }
            let kind = if frame.end() == range.end() { FrameKind::Final } else { FrameKind::Partial };
            self.output.append(&StatusFrame::page_read(stream_id, kind, frame).to_bytes());
            for piece in cut(frame, PAGES_PER_PIECE) {
                self.append_pages(file, piece).await?;
                if self.output.len() >= ASSEMBLY_LEN {
                    self.output.flush(&self.stream).await?;
                }
            }
        }
        Ok(None)
    }

    /// Appends the pages of `piece`, of which the page cache probably holds all.
    async fn append_pages(&mut self, file: &Arc<File>, piece: ByteRange) -> Result<(), OutputError> {
        let len = usize::try_from(encoded_len(piece)).unwrap_or(usize::MAX);
        let room = self.output.room(len);
        let is_read = matches!(
            read_nowait_vectored(file, piece.start(), &mut data_slices(piece, room)),
            Ok(Some(read_len)) if read_len as u64 == piece.len()
        );
        if !is_read {
            // Dropped from the page cache since it was probed. The frame has begun, so there is no way but to wait.
            let data =
                read_disk(Arc::clone(file), piece).await.map_err(|failure| OutputError::Disk(failure.text.into()))?;
            copy_pages(piece, &data, self.output.room(len));
        }
        seal_pages(piece.start(), self.output.room(len));
        self.output.commit(len);
        Ok(())
    }

    fn start_page_read(&mut self, stream_id: StreamId, read: &PageRead, supply: Supply, range: ByteRange) {
        let received = self.received;
        let (offset, buffers) = (read.offset, self.shared.buffers.clone());
        match self.answer_by(stream_id, read.path_id) {
            Ok(answer) => self.start(async move {
                let metrics = answer.metrics().clone();
                let outcome = match supply {
                    _ if range.is_empty() => {
                        return answer.finish(|reply, out| past_the_end(reply.stream_id, offset).encode(out)).await;
                    }
                    Supply::Handle(_) => Outcome::Missed,
                    Supply::Source(_) => Outcome::Hit,
                };
                if answer_page_read(answer, supply, range, &buffers).await.is_ok() {
                    let duration = forebay_net::clock::monotonic().saturating_duration_since(received);
                    metrics.observe_request(outcome, duration);
                }
            }),
            Err(failure) => self.fail(stream_id, &failure),
        }
    }
}

/// What a slow page read is answered from.
enum Supply {
    Handle(Handle),
    Source(Source),
}

/// Sends the pages of `range` in strict order, frame by frame as the bytes come.
async fn answer_page_read(mut answer: Answer, supply: Supply, range: ByteRange, buffers: &Buffers) -> Result<(), Gone> {
    let _room = answer.reserve(encoded_len(range).min(ASSEMBLED_PER_ANSWER_MAX)).await;
    let source = match supply {
        Supply::Source(source) => Some(source),
        Supply::Handle(handle) => handle.read_many(&[range]).pop().map(Source::engine),
    };
    let Some(mut source) = source else { return fail(answer, ended_early()).await };
    let mut rest = Bytes::new();
    for frame in cut(range, PAGES_PER_SLOW_FRAME) {
        let mut encoded = buffers.lease(usize::try_from(encoded_len(frame)).unwrap_or(usize::MAX));
        let filled = fill(&mut data_slices(frame, encoded.as_mut()), &mut rest, &mut source, &mut answer).await;
        if let Err(failure) = filled {
            return fail(answer, failure).await;
        }
        seal_pages(frame.start(), encoded.as_mut());
        // Page reads are answered by ordinary frames even when the client has been told to go on waiting.
        answer.answer_directly();
        let kind = if frame.end() == range.end() { FrameKind::Final } else { FrameKind::Partial };
        let head = StatusFrame::page_read(answer.reply().stream_id, kind, frame).to_bytes().to_vec();
        answer.send(Frame { head, body: vec![Segment::Memory(Bytes::from_owner(encoded))] }).await?;
    }
    Ok(())
}

/// Fills `slices` in order, first from `rest` and then from `source`. What the last segment holds beyond them is left in
/// `rest`.
async fn fill(
    slices: &mut [IoSliceMut<'_>],
    rest: &mut Bytes,
    source: &mut Source,
    answer: &mut Answer,
) -> Result<(), Failure> {
    for slice in slices {
        let mut room = &mut slice[..];
        while !room.is_empty() {
            if rest.is_empty() {
                let segment = source.next(answer).await.unwrap_or_else(|| Err(ended_early()))?;
                *rest = into_bytes(segment)?;
            }
            let data = rest.split_to(room.len().min(rest.len()));
            let (filled, unfilled) = room.split_at_mut(data.len());
            filled.copy_from_slice(&data);
            room = unfilled;
        }
    }
    Ok(())
}

async fn fail(answer: Answer, failure: Failure) -> Result<(), Gone> {
    answer.fail(failure).await;
    Err(Gone)
}

/// The answer to a page read at or behind the end of the file.
fn past_the_end(stream_id: StreamId, offset: u64) -> StatusFrame {
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

/// Where the data of each page of `range` lies in its wire form, behind the gap for the checksum.
fn data_slices(range: ByteRange, mut encoded: &mut [u8]) -> Vec<IoSliceMut<'_>> {
    let gap_len = usize::try_from(CHECKSUM_LEN).unwrap_or(0);
    pages(range)
        .map_while(|page| {
            let page_len = usize::try_from(page.len()).ok()?;
            let (_, behind) = std::mem::take(&mut encoded).split_at_mut_checked(gap_len)?;
            let (data, next) = behind.split_at_mut_checked(page_len)?;
            encoded = next;
            Some(IoSliceMut::new(data))
        })
        .collect()
}

/// Puts `data`, the bytes of `range`, where its wire form has them.
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
