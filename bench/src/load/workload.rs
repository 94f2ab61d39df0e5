//! The operations of a load, and their order over the file.

use forebay_bench::wan::Random;
use serde::Serialize;

/// Random offsets are multiples of this, as a file system's pages are.
const RANDOM_STEP: u64 = 4096;

/// One operation, as it is counted and timed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Operation {
    /// One `read` of `len` bytes.
    Read { len: u32 },
    /// One `readv` of `elements` ranges of `len` bytes each, spread over the file in ascending order.
    ReadVector {
        elements: u16,
        /// Bytes of each range.
        len: u32,
    },
    /// One `pgread` of `len` bytes; the checksum of every page is compared.
    PageRead { len: u32 },
    /// `open`, `stat` by name and `close`, one after the other.
    OpenStatClose,
    /// `open`, one `read` of the whole file and `close`, one after the other.
    OpenReadClose,
}

/// In which order a file is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// From a connection's own starting point onwards, and around.
    Sequential,
    /// Anywhere, aligned to 4 KiB; the same places in each run.
    Random,
    /// Anywhere, not aligned, with any length from one byte to that of the operation; the same places in each run.
    RandomLengths,
}

/// An endless row of places to read at.
#[derive(Clone, Debug)]
pub(crate) struct Offsets {
    order: Order,
    file_len: u64,
    len: u32,
    cursor: u64,
    random: Random,
}

impl Offsets {
    /// Places for reads of `len` bytes in a file of `file_len` bytes, for connection `index` of `count`.
    pub(crate) fn new(order: Order, file_len: u64, len: u32, index: u64, count: u64) -> Self {
        let share = file_len / count.max(1) * index;
        Self { order, file_len, len, cursor: share - share % RANDOM_STEP, random: Random::new(index) }
    }

    /// Offset and length of the next read; the range ends within the file.
    pub(crate) fn next_range(&mut self) -> (u64, u32) {
        match self.order {
            Order::Sequential => self.next_in_order(),
            Order::Random => {
                let places = self.file_len.saturating_sub(u64::from(self.len)) / RANDOM_STEP + 1;
                (self.random.below(places) * RANDOM_STEP, self.clipped(0))
            }
            Order::RandomLengths => {
                let len = 1 + self.random.below(u64::from(self.clipped(0)).max(1));
                let offset = self.random.below(self.file_len.saturating_sub(len) + 1);
                (offset, self.clipped(offset).min(u32::try_from(len).unwrap_or(u32::MAX)))
            }
        }
    }

    fn next_in_order(&mut self) -> (u64, u32) {
        if self.cursor >= self.file_len {
            self.cursor = 0;
        }
        let (offset, len) = (self.cursor, self.clipped(self.cursor));
        self.cursor += u64::from(len);
        (offset, len)
    }

    /// A range for each of `count` elements of a vector read: one somewhere in each of `count` equal parts of the file,
    /// so that no two overlap.
    pub(crate) fn next_vector(&mut self, count: u16) -> impl Iterator<Item = (u64, u32)> + use<'_> {
        let part_len = self.file_len / u64::from(count.max(1));
        let len = self.len.min(u32::try_from(part_len).unwrap_or(u32::MAX));
        let places = (part_len - u64::from(len)) / RANDOM_STEP + 1;
        (0..u64::from(count)).map(move |part| (part * part_len + self.random.below(places) * RANDOM_STEP, len))
    }

    fn clipped(&self, offset: u64) -> u32 {
        u32::try_from(self.file_len.saturating_sub(offset)).unwrap_or(u32::MAX).min(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_reads_cover_the_file_once_per_round() {
        let mut offsets = Offsets::new(Order::Sequential, 10_000, 4_096, 0, 1);
        let ranges: Vec<_> = (0..4).map(|_| offsets.next_range()).collect();
        assert_eq!(ranges, [(0, 4_096), (4_096, 4_096), (8_192, 1_808), (0, 4_096)]);
    }

    #[test]
    fn random_reads_lie_within_the_file_and_repeat_from_run_to_run() {
        let file_len = 1 << 20;
        let mut offsets = Offsets::new(Order::Random, file_len, 32_768, 3, 8);
        let mut again = offsets.clone();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..10_000 {
            let (offset, len) = offsets.next_range();
            assert_eq!((offset, len), again.next_range());
            assert_eq!(offset % RANDOM_STEP, 0);
            assert!(offset + u64::from(len) <= file_len);
            seen.insert(offset);
        }
        assert_eq!(seen.len() as u64, (file_len - 32_768) / RANDOM_STEP + 1, "every place is visited");
    }

    #[test]
    fn reads_of_random_lengths_lie_within_the_file_and_differ() {
        let mut offsets = Offsets::new(Order::RandomLengths, 200_000, 131_072, 0, 1);
        let ranges: Vec<_> = (0..10_000).map(|_| offsets.next_range()).collect();
        assert!(ranges.iter().all(|(offset, len)| *len > 0 && offset + u64::from(*len) <= 200_000));
        assert!(ranges.iter().any(|(_, len)| *len < 1_000) && ranges.iter().any(|(_, len)| *len > 130_000));
        assert!(ranges.iter().any(|(offset, _)| offset % RANDOM_STEP != 0));
    }

    #[test]
    fn elements_of_a_vector_do_not_overlap() {
        let mut offsets = Offsets::new(Order::Random, (2 << 20) + 17, 16_384, 0, 1);
        for _ in 0..100 {
            let ranges: Vec<_> = offsets.next_vector(64).collect();
            assert_eq!(ranges.len(), 64);
            assert!(ranges.is_sorted_by(|a, b| a.0 + u64::from(a.1) <= b.0));
            assert!(ranges.iter().all(|(offset, len)| offset + u64::from(*len) <= (2 << 20) + 17));
        }
    }

    #[test]
    fn connections_start_at_their_own_share() {
        let starts: Vec<_> = (0..4).map(|at| Offsets::new(Order::Sequential, 1 << 20, 4_096, at, 4).cursor).collect();
        assert_eq!(starts, [0, 1 << 18, 2 << 18, 3 << 18]);
    }
}
