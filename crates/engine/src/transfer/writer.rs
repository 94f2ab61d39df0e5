//! A fill's way to the disk: blocks are written as they become complete, and their bits set after the write.

use crate::{
    base::digest::ChecksumAlgorithm,
    entries::{block_sums::WrittenSums, cached_file::CachedFile, fill::Fill, stored_entry::StoredEntry},
};
use forebay_origin::{Chunk, Chunks, OriginError, OriginFile};
use forebay_types::{BlockIndex, ByteRange};
use std::{io, sync::Arc};
use tokio::task::JoinHandle;

/// Writes a fill's blocks as they become complete, one write at a time; what completes meanwhile goes into the next one.
pub(crate) struct Writer<'a> {
    file: &'a Arc<CachedFile>,
    fill: &'a Arc<Fill>,
    /// Complete blocks that are not written yet.
    ready: Vec<ByteRange>,
    writing: Option<(ByteRange, JoinHandle<io::Result<WrittenSums>>)>,
    /// Blocks of the first part that are complete once the second part has come.
    split_block: Option<ByteRange>,
    seen: u64,
    /// Whom the bytes come from.
    origin: &'a dyn OriginFile,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(file: &'a Arc<CachedFile>, fill: &'a Arc<Fill>, origin: &'a dyn OriginFile) -> Self {
        let first = fill.requests().first().map_or(0, |range| range.start());
        let head = ByteRange::between(fill.blocks().start(), first);
        let geometry = file.geometry;
        let split_block = (!head.is_empty())
            .then(|| ByteRange::between(fill.blocks().start(), geometry.range_of(geometry.index_of(first)).end()));
        Self { file, fill, ready: Vec::new(), writing: None, split_block, seen: fill.blocks().start(), origin }
    }

    /// The next chunk, while a write runs in parallel.
    pub(crate) async fn next(
        &mut self,
        stored: &StoredEntry,
        chunks: &mut Chunks,
    ) -> Option<Result<Chunk, OriginError>> {
        loop {
            // Without a write there is nothing to wait for but the next chunk.
            let Some((range, write)) = &mut self.writing else { return chunks.next().await };
            let range = *range;
            tokio::select! {
                biased;
                written = write => {
                    self.writing = None;
                    self.written(stored, range, written.map_err(io::Error::other).flatten());
                    self.start(stored);
                }
                chunk = chunks.next() => return chunk,
            }
        }
    }

    /// Notes that the part has arrived up to `end`, and which blocks that completes.
    pub(crate) fn arrived(&mut self, part_index: usize, end: u64) {
        if part_index == 0 {
            // The block that is split between the two parts is complete only with the second one.
            let from = self.split_block.map_or(self.seen, |block| self.seen.max(block.end()));
            let complete = ByteRange::between(from, self.complete_up_to(end));
            if !complete.is_empty() {
                self.ready.push(complete);
                self.seen = complete.end();
            }
        } else if let Some(block) = self.split_block
            && Some(end) == self.fill.requests().first().map(|first| first.start())
        {
            self.ready.push(block);
        }
    }

    /// Where the last block ends that is complete when bytes up to `end` have arrived.
    fn complete_up_to(&self, end: u64) -> u64 {
        // The last block may be shorter than the others.
        if end == self.fill.blocks().end() {
            end
        } else {
            end / self.file.geometry.block_size() * self.file.geometry.block_size()
        }
    }

    /// Starts writing what is ready, unless a write is under way, the disk takes nothing or the file is not cached any longer.
    pub(crate) fn start(&mut self, stored: &StoredEntry) {
        // One write at a time: blocks that complete meanwhile go into the next, larger one.
        // Room is asked for again: all fills that were planned before the disk became full would use its last space.
        if self.writing.is_some() || self.file.keeps_nothing() || self.file.is_retired() {
            return;
        }
        self.ready.sort_by_key(|range| range.start());
        let Some(range) = take_first_run(&mut self.ready) else { return };
        let data = Arc::clone(&stored.data);
        let bytes = self.fill.collect(range);
        assert_eq!(bytes.iter().map(|chunk| chunk.len() as u64).sum::<u64>(), range.len(), "blocks are written whole");
        let geometry = self.file.geometry;
        let blocks: Vec<ByteRange> =
            geometry.blocks_of(range).map(|index| geometry.range_of(BlockIndex(index))).collect();
        let known_sums = self.fill.sums(&blocks);
        let options = &self.file.context.options;
        let with_adler32 = options.integrity.checksums.contains(&ChecksumAlgorithm::Adler32);
        let write = move || {
            let sums = WrittenSums::new(&blocks, &known_sums, &bytes, with_adler32);
            data.write_vectored_at(range.start(), &bytes).map(|()| sums)
        };
        self.writing = Some((range, self.file.context.start_write(self.file.volume(), write)));
    }

    fn written(&mut self, stored: &StoredEntry, range: ByteRange, result: io::Result<WrittenSums>) {
        match result {
            Ok(sums) => {
                // Asked only after the bytes have arrived: in between, the file may be opened again at a server without checksums.
                self.file.note_written(stored, range, &sums, self.origin.verifies_pages());
                self.fill.release_memory(|chunk| stored.map.holds(chunk));
            }
            Err(error) => self.file.note_write_failure(&error, self.block_count(range)),
        }
    }

    /// Writes the remaining blocks, unless the disk fails.
    pub(crate) async fn finish(&mut self, stored: &StoredEntry) {
        loop {
            self.start(stored);
            let Some((range, mut write)) = self.writing.take() else { break };
            tokio::select! {
                biased;
                written = &mut write => self.written(stored, range, written.map_err(io::Error::other).flatten()),
                // The disk may never answer. A write that has begun keeps its bytes.
                () = self.file.lost() => {
                    write.abort();
                    self.ready.push(range);
                    break;
                }
            }
        }
        let not_written = self.ready.iter().map(|range| self.block_count(*range)).sum();
        self.file.note_not_written(not_written);
    }

    fn block_count(&self, range: ByteRange) -> u64 {
        self.file.geometry.blocks_of(range).count() as u64
    }
}

/// Takes the first contiguous run out of ranges sorted by start.
fn take_first_run(ranges: &mut Vec<ByteRange>) -> Option<ByteRange> {
    let mut run = *ranges.first()?;
    let mut taken = 1;
    for next in ranges.iter().skip(1) {
        if next.start() != run.end() {
            break;
        }
        run = ByteRange::between(run.start(), next.end());
        taken += 1;
    }
    ranges.drain(..taken);
    Some(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_taken_in_order() {
        let mut ranges = vec![ByteRange::at(0, 4), ByteRange::at(4, 4), ByteRange::at(12, 4)];
        assert_eq!(take_first_run(&mut ranges), Some(ByteRange::at(0, 8)));
        assert_eq!(take_first_run(&mut ranges), Some(ByteRange::at(12, 4)));
        assert_eq!(take_first_run(&mut ranges), None);
    }
}
