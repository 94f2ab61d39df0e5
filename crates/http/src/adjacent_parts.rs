//! Adjacent ranges of one request, which are read by one system call.

use crate::waiting::Waiting;
use forebay_http_proto::PartHeads;
use forebay_net::{NowaitReads, read_nowait_vectored};
use forebay_types::ByteRange;
use std::{fs::File, io::IoSliceMut, mem::take};

/// Ranges of a file, each of which begins at the end of the one before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct AdjacentParts<'a> {
    pub(crate) ranges: &'a [ByteRange],
    /// The range of all of them.
    pub(crate) range: ByteRange,
}

/// Bytes of all ranges: vectored reads of more gain nothing.
const LEN_MAX: u64 = 128 << 10;

/// Ranges, and so buffers of one system call.
const RANGES_MAX: usize = 256;

impl<'a> AdjacentParts<'a> {
    /// The first ones of `ranges`, if at least two are adjacent.
    pub(crate) fn of(ranges: &'a [ByteRange]) -> Option<Self> {
        let (first, others) = ranges.split_first()?;
        let mut range = *first;
        let mut count = 1;
        for next in others {
            if next.start() != range.end() || next.end() - range.start() > LEN_MAX || count == RANGES_MAX {
                break;
            }
            range = ByteRange::between(range.start(), next.end());
            count += 1;
        }
        let ranges = ranges.get(..count).filter(|ranges| ranges.len() > 1)?;
        Some(Self { ranges, range })
    }

    /// Appends the ranges with their heads to `waiting`, if the page cache holds them; returns how many are whole, from the first
    /// one on.
    pub(crate) fn append_cached(
        &self,
        (file, nowait): (&File, NowaitReads),
        heads: &PartHeads,
        waiting: &mut Waiting,
    ) -> usize {
        let lens: Vec<(usize, usize)> = self.ranges.iter().map(|range| lens_of(heads, *range)).collect();
        let mut room = waiting.room(lens.iter().map(|(head, body)| head + body).sum());
        let mut bodies: Vec<IoSliceMut<'_>> = Vec::with_capacity(lens.len());
        let mut text = String::new();
        for (range, (head_len, body_len)) in self.ranges.iter().zip(&lens) {
            text.clear();
            heads.push(*range, &mut text);
            // The head is written even if the body is missing: only whole parts are appended.
            let Some((head, behind)) = take(&mut room).split_at_mut_checked(*head_len) else { return 0 };
            head.copy_from_slice(text.as_bytes());
            let Some((body, next)) = behind.split_at_mut_checked(*body_len) else { return 0 };
            bodies.push(IoSliceMut::new(body));
            room = next;
        }
        let read = read_nowait_vectored(file, nowait, self.range.start(), &mut bodies);
        let read_end = self.range.start().saturating_add(read.ok().flatten().map_or(0, |len| len as u64));
        let whole = self.ranges.iter().take_while(|range| range.end() <= read_end).count();
        waiting.commit(lens.iter().take(whole).map(|(head, body)| head + body).sum());
        whole
    }
}

/// Bytes of a part's head and body.
fn lens_of(heads: &PartHeads, range: ByteRange) -> (usize, usize) {
    let len = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    (len(heads.len(range)), len(range.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn ranges(lens: &[(u64, u64)]) -> Vec<ByteRange> {
        lens.iter().map(|(start, len)| ByteRange::at(*start, *len)).collect()
    }

    #[test]
    fn a_gap_and_the_limits_end_the_run() {
        let found = |lens: &[(u64, u64)]| AdjacentParts::of(&ranges(lens)).map(|run| (run.ranges.len(), run.range));
        assert_eq!(found(&[(5, 3), (8, 2), (11, 1)]), Some((2, ByteRange::at(5, 5))));
        assert_eq!(found(&[(5, 3), (7, 2)]), None);
        assert_eq!(found(&[(0, LEN_MAX - 1), (LEN_MAX - 1, 1)]), Some((2, ByteRange::at(0, LEN_MAX))));
        assert_eq!(found(&[(0, LEN_MAX), (LEN_MAX, 1)]), None);
        let many: Vec<_> = (0..1000).map(|start| (start, 1)).collect();
        assert_eq!(found(&many), Some((RANGES_MAX, ByteRange::at(0, RANGES_MAX as u64))));
        assert_eq!((found(&[]), found(&[(0, 1)])), (None, None));
    }

    #[test]
    fn parts_are_written_after_their_heads_while_there_is_data() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let (ranges, heads) = (ranges(&[(1, 3), (4, 2), (6, 9)]), PartHeads::new(15));
        let mut waiting = Waiting::default();
        waiting.append(b"before");
        let run = AdjacentParts::of(&ranges).unwrap();
        let whole = run.append_cached((&file, NowaitReads::default()), &heads, &mut waiting);
        assert_eq!(whole, 2, "the file ends within the third");
        let mut expected = "before".to_owned();
        for (range, body) in ranges.iter().zip(["123", "45"]) {
            heads.push(*range, &mut expected);
            expected.push_str(body);
        }
        assert_eq!(waiting.bytes(), expected.as_bytes());
    }
}
