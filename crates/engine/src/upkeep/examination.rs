//! Reading through an entry: each block is compared with its sum, and checksums of the whole file are made on the way.

use crate::{
    Checksum, Workers,
    base::{
        digest::{ChecksumAlgorithm, Digest},
        disk_queues::DiskQueue,
    },
    entries::block_sums::{READ_LEN, read_through},
};
use forebay_cache::{BlockSet, BlockSums, Crc32cAppend, Geometry, RateLimiter};
use forebay_net::NowaitReads;
use forebay_store::{DataFile, Entry};
use forebay_types::{BlockIndex, ByteRange};
use rustix::fs::{Advice, fadvise};
use std::{num::NonZeroU64, sync::Arc};

/// Bytes that are read in one piece of work: a few milliseconds for a disk.
const SLICE_LEN: u64 = 2 << 20;

/// Whether what was read is to stay in the page cache.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Behind {
    /// As if a client had read it.
    Stays,
    /// Only what was there before: the page cache belongs to the clients.
    Dropped,
}

/// An entry that is read through. Only blocks that its record names are looked at.
pub(crate) struct Examination {
    data: Arc<dyn DataFile>,
    geometry: Geometry,
    blocks: BlockSet,
    sums: BlockSums,
    behind: Behind,
    /// The next block to read.
    next: u64,
    /// Checksums of the file that need its bytes; made only when every block is there.
    digests: Vec<Digest>,
    /// The CRC-32C of the file, made of those of its blocks, when it is wanted.
    crc32c: Option<(Crc32cAppend, u32)>,
    findings: Findings,
}

#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) bytes: u64,
    pub(crate) intact: u64,
    /// Blocks without a sum, with the one computed now.
    pub(crate) learned: Vec<(BlockIndex, u32)>,
    pub(crate) damaged: Vec<BlockIndex>,
    /// Blocks that the disk does not give.
    pub(crate) unreadable: Vec<BlockIndex>,
    /// Checksums of the whole file; none when a block is missing or cannot be used.
    pub(crate) checksums: Vec<Checksum>,
}

impl Findings {
    /// Blocks that cannot be used, in order.
    pub(crate) fn bad(&self) -> Vec<BlockIndex> {
        let mut bad: Vec<BlockIndex> = self.damaged.iter().chain(&self.unreadable).copied().collect();
        bad.sort_unstable();
        bad
    }
}

impl Examination {
    /// An examination of `entry`, whose blocks have the sums `sums`, that also makes `algorithms` if the file is complete.
    pub(crate) fn new(entry: Entry, sums: BlockSums, algorithms: &[ChecksumAlgorithm], behind: Behind) -> Self {
        let Entry { data, cinfo, .. } = entry;
        // The CRC-32C is made of the sums of the blocks: no second pass over the bytes.
        let wanted = |algorithm: &&ChecksumAlgorithm| cinfo.is_complete() && **algorithm != ChecksumAlgorithm::Crc32c;
        let digests = algorithms.iter().filter(wanted).map(|algorithm| Digest::new(*algorithm)).collect();
        let wants_crc32c = cinfo.is_complete() && algorithms.contains(&ChecksumAlgorithm::Crc32c);
        let crc32c = wants_crc32c.then(|| (Crc32cAppend::of_len(cinfo.geometry.block_size()), 0));
        Self {
            data,
            geometry: cinfo.geometry,
            blocks: cinfo.blocks,
            sums,
            behind,
            next: 0,
            digests,
            crc32c,
            findings: Findings::default(),
        }
    }

    /// Reads to the end of the entry on the workers, at a pace if there is one, and after the clients of its disk. `None` when the work
    /// breaks off.
    pub(crate) async fn run(
        mut self,
        workers: &Workers,
        queue: &DiskQueue,
        mut pace: Option<&mut RateLimiter>,
    ) -> Option<Findings> {
        while let Some(slice) = self.next_slice() {
            // Waited before the read: the disk stays within the rate even at the first slice.
            if let Some(pace) = &mut pace {
                let wait = pace.wait_for(slice.len.get(), forebay_net::clock::monotonic());
                tokio::time::sleep(wait).await;
            }
            queue.quiet().await;
            self = workers
                .run(move || {
                    self.read(&slice);
                    self
                })
                .await
                .ok()?;
        }
        Some(self.finish())
    }

    /// The next blocks to be read together, of which there is one at least.
    fn next_slice(&mut self) -> Option<Slice> {
        let is_there = |index: &u64| self.blocks.contains(BlockIndex(*index)) && self.geometry.file_size() > 0;
        let first = (self.next..self.geometry.block_count()).find(is_there)?;
        let mut end = first + 1;
        let mut len = self.geometry.range_of(BlockIndex(first)).len();
        while len < SLICE_LEN && is_there(&end) && end < self.geometry.block_count() {
            len += self.geometry.range_of(BlockIndex(end)).len();
            end += 1;
        }
        self.next = end;
        Some(Slice { first, end, len: NonZeroU64::new(len)? })
    }

    fn read(&mut self, slice: &Slice) {
        let start = self.geometry.range_of(BlockIndex(slice.first)).start();
        let range = ByteRange::at(start, slice.len.get());
        // Asked before the read: pages that a client has brought in stay.
        let was_cached = self.behind == Behind::Stays
            || forebay_net::probe_cached(self.data.file(), NowaitReads::default(), range.start(), range.len());
        let mut buffer = vec![0; READ_LEN];
        for index in (slice.first..slice.end).map(BlockIndex) {
            self.read_block(index, &mut buffer);
        }
        if !was_cached {
            // Advice is all it is: what becomes of it does not matter.
            let _ = fadvise(self.data.file(), range.start(), Some(slice.len), Advice::DontNeed);
        }
    }

    fn read_block(&mut self, index: BlockIndex, buffer: &mut [u8]) {
        let range = self.geometry.range_of(index);
        let mut found = 0;
        let digests = &mut self.digests;
        let read = read_through(self.data.as_ref(), range, buffer, |piece| {
            found = crc32c::crc32c_append(found, piece);
            digests.iter_mut().for_each(|digest| digest.update(piece));
        });
        self.findings.bytes += range.len();
        // The digests are of no use any more, which `finish` sees by this entry.
        if read.is_err() {
            self.findings.unreadable.push(index);
            return;
        }
        match self.sums.get(index) {
            Some(expected) if expected == found => self.findings.intact += 1,
            Some(_) => self.findings.damaged.push(index),
            None => self.findings.learned.push((index, found)),
        }
        if let Some((whole_block, sum)) = &mut self.crc32c {
            // Only the last block may be shorter: the others use a table made once.
            let is_whole = range.len() == self.geometry.block_size();
            *sum = if is_whole {
                whole_block.append(*sum, found)
            } else {
                forebay_cache::crc32c_append(*sum, found, range.len())
            };
        }
    }

    fn finish(mut self) -> Findings {
        // A checksum over damaged bytes would be recorded as the file's own.
        if self.findings.damaged.is_empty() && self.findings.unreadable.is_empty() {
            let computed = self.digests.iter().map(|digest| (digest.algorithm(), digest.value()));
            let crc32c = self.crc32c.iter().map(|(_, sum)| (ChecksumAlgorithm::Crc32c, format!("{sum:08x}")));
            let checksum = |(algorithm, value): (ChecksumAlgorithm, String)| Checksum {
                algorithm: algorithm.as_str().to_owned(),
                value,
            };
            self.findings.checksums = computed.chain(crc32c).map(checksum).collect();
        }
        self.findings
    }
}

struct Slice {
    first: u64,
    end: u64,
    len: NonZeroU64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::disk_queues::DiskQueues;
    use forebay_cache::{CacheKey, ChecksumState, Cinfo};
    use forebay_store::{Disk as _, LocalDisk};
    use forebay_types::Lfn;

    const ALL: [ChecksumAlgorithm; 3] = ChecksumAlgorithm::ALL;
    const FILE_SIZE: u64 = 5_000_000;
    const BLOCK_SIZE: u64 = 65_536;

    fn content() -> Vec<u8> {
        forebay_testkit::bytes_at(0, usize::try_from(FILE_SIZE).unwrap())
    }

    /// An entry with all blocks but those of `missing`, and their sums.
    fn entry(root: &std::path::Path, missing: &[u64]) -> (Entry, BlockSums) {
        let disk = LocalDisk::open(root).unwrap();
        let geometry = Geometry::new(BLOCK_SIZE, FILE_SIZE).unwrap();
        let key = CacheKey::fixed(&Lfn::parse("/f").unwrap()).unwrap();
        let cinfo = Cinfo::new(geometry, 1, ChecksumState::None);
        let mut entry = disk.create_entry(&key, cinfo, None).unwrap();
        entry.data.write_vectored_at(0, &[content().into()]).unwrap();
        let mut sums = BlockSums::default();
        for index in (0..geometry.block_count()).filter(|index| !missing.contains(index)).map(BlockIndex) {
            let range = geometry.range_of(index);
            let bytes = forebay_testkit::bytes_at(range.start(), usize::try_from(range.len()).unwrap());
            sums.set(index, crc32c::crc32c(&bytes));
            entry.cinfo.blocks.insert(index);
        }
        (entry, sums)
    }

    fn examine(entry: Entry, sums: BlockSums) -> Findings {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let queue = DiskQueues::new(1).of(entry.data.file());
        let examination = Examination::new(entry, sums, &ALL, Behind::Dropped);
        runtime.block_on(examination.run(&Workers::Pool, &queue, None)).unwrap()
    }

    #[test]
    fn a_complete_file_gets_its_checksums() {
        let root = tempfile::tempdir().unwrap();
        let (entry, sums) = entry(root.path(), &[]);
        let findings = examine(entry, sums);
        assert_eq!((findings.bytes, findings.intact), (FILE_SIZE, FILE_SIZE.div_ceil(BLOCK_SIZE)));
        assert!(findings.bad().is_empty() && findings.learned.is_empty());
        for checksum in &findings.checksums {
            let mut digest = Digest::new(ChecksumAlgorithm::parse(&checksum.algorithm).unwrap());
            digest.update(&content());
            assert_eq!(checksum.value, digest.value());
        }
        assert_eq!(findings.checksums.len(), ALL.len());
    }

    #[test]
    fn damaged_blocks_are_found_and_make_no_checksum() {
        let root = tempfile::tempdir().unwrap();
        let (entry, sums) = entry(root.path(), &[]);
        entry.data.write_vectored_at(3 * BLOCK_SIZE + 7, &[bytes::Bytes::from_static(&[1, 2, 3])]).unwrap();
        let findings = examine(entry, sums);
        assert_eq!(findings.bad(), [BlockIndex(3)]);
        assert!(findings.checksums.is_empty());
    }

    #[test]
    fn only_blocks_of_the_record_are_read() {
        let root = tempfile::tempdir().unwrap();
        let (entry, _) = entry(root.path(), &[0, 5, 6, 7, 76]);
        let findings = examine(entry, BlockSums::default());
        assert_eq!(findings.learned.len(), 77 - 5);
        assert!(findings.checksums.is_empty() && findings.bad().is_empty());
    }

    #[test]
    fn a_data_file_that_is_too_short_is_unreadable_there() {
        let root = tempfile::tempdir().unwrap();
        let (entry, sums) = entry(root.path(), &[]);
        std::fs::File::options().write(true).open(root.path().join("f")).unwrap().set_len(BLOCK_SIZE).unwrap();
        let findings = examine(entry, sums);
        assert_eq!((findings.intact, findings.unreadable.len()), (1, 76));
    }
}
