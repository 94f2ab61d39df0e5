//! Adler-32 of a file, made of those of its pieces.

use forebay_types::ByteRange;
use std::collections::BTreeMap;

/// The Adler-32 of a file whose pieces come in any order, each once.
///
/// Pieces that touch become one. A piece that overlaps an earlier one is left out: the file has no sum then, unless the
/// earlier ones make it.
#[derive(Debug, Default)]
pub struct AdlerPieces {
    /// By their start: where they end, and their sum.
    runs: BTreeMap<u64, (u64, u32)>,
    has_given_up: bool,
}

/// Runs that are remembered at most: who fills a file in more places at a time reads it through in the end.
const RUNS_MAX: usize = 1024;

/// The modulus of both halves of a sum.
const MODULUS: u64 = 65_521;

impl AdlerPieces {
    /// Adds the piece `range` whose sum is `sum`.
    pub fn add(&mut self, range: ByteRange, sum: u32) {
        let before = self.runs.range(..range.end()).next_back().map(|(&start, &(end, sum))| (start, end, sum));
        if self.has_given_up || range.is_empty() || before.is_some_and(|(_, end, _)| end > range.start()) {
            return;
        }
        let (mut start, mut end, mut sum) = (range.start(), range.end(), sum);
        if let Some((before_start, _, before_sum)) = before.filter(|(_, before_end, _)| *before_end == start) {
            sum = adler32_append(before_sum, sum, range.len());
            start = before_start;
        }
        if let Some((behind_end, behind_sum)) = self.runs.remove(&end) {
            sum = adler32_append(sum, behind_sum, behind_end - end);
            end = behind_end;
        }
        self.runs.insert(start, (end, sum));
        if self.runs.len() > RUNS_MAX {
            self.give_up();
        }
    }

    /// Forgets the pieces, and those that are to come: bytes that one of them stood for have been replaced.
    pub fn give_up(&mut self) {
        self.has_given_up = true;
        self.runs.clear();
    }

    /// The sum of a file of `file_size` bytes, when all of its pieces have come.
    pub fn sum(&self, file_size: u64) -> Option<u32> {
        if file_size == 0 {
            return Some(1);
        }
        self.runs.get(&0).filter(|(end, _)| *end == file_size).map(|(_, sum)| *sum)
    }
}

/// The Adler-32 of bytes whose sum is `sum`, followed by a piece of `piece_len` bytes whose sum is `piece_sum`.
fn adler32_append(sum: u32, piece_sum: u32, piece_len: u64) -> u32 {
    let halves = |sum: u32| (u64::from(sum & 0xffff), u64::from(sum >> 16));
    let ((low, high), (piece_low, piece_high)) = (halves(sum), halves(piece_sum));
    // Every byte of the piece adds the low half of what came before, less the 1 that a sum begins with.
    let new_low = (low + piece_low + MODULUS - 1) % MODULUS;
    let new_high = (high + piece_high + piece_len % MODULUS * (low + MODULUS - 1)) % MODULUS;
    u32::try_from(new_high << 16 | new_low).expect("both halves are below 2^16")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn adler32(bytes: &[u8]) -> u32 {
        let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
            let low = (low + u64::from(*byte)) % MODULUS;
            (low, (high + low) % MODULUS)
        });
        u32::try_from(high << 16 | low).unwrap()
    }

    fn range_of(piece: u64, bytes: &[u8]) -> ByteRange {
        ByteRange::at(piece * 100, 100).clipped_to(bytes.len() as u64)
    }

    proptest! {
        #[test]
        fn pieces_in_any_order_make_the_sum_of_the_file(
            bytes in prop::collection::vec(any::<u8>(), 701..800),
            order in Just((0..8_u64).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let mut pieces = AdlerPieces::default();
            for piece in order {
                prop_assert_eq!(pieces.sum(bytes.len() as u64), None);
                let range = range_of(piece, &bytes);
                let start = usize::try_from(range.start()).unwrap();
                let end = usize::try_from(range.end()).unwrap();
                pieces.add(range, adler32(&bytes[start..end]));
            }
            prop_assert_eq!(pieces.sum(bytes.len() as u64), Some(adler32(&bytes)));
        }
    }

    #[test]
    fn a_piece_that_comes_again_changes_nothing() {
        let mut pieces = AdlerPieces::default();
        pieces.add(ByteRange::at(0, 4), adler32(b"1234"));
        pieces.add(ByteRange::at(0, 4), 7);
        pieces.add(ByteRange::at(2, 7), 7);
        assert_eq!(pieces.sum(9), None);
        pieces.add(ByteRange::at(4, 5), adler32(b"56789"));
        assert_eq!(pieces.sum(9), Some(0x091e_01de));
    }

    #[test]
    fn pieces_that_are_given_up_make_no_sum_and_no_pieces_that_of_nothing() {
        let mut pieces = AdlerPieces::default();
        pieces.add(ByteRange::at(0, 4), 7);
        pieces.give_up();
        pieces.add(ByteRange::at(0, 9), adler32(b"123456789"));
        assert_eq!(pieces.sum(9), None);
        assert_eq!(AdlerPieces::default().sum(0), Some(adler32(b"")));
    }

    #[test]
    fn runs_are_bounded() {
        let mut pieces = AdlerPieces::default();
        for piece in 0..=RUNS_MAX as u64 {
            pieces.add(ByteRange::at(2 * piece, 1), 1);
        }
        pieces.add(ByteRange::at(0, 5), 1);
        assert_eq!((pieces.runs.len(), pieces.sum(5)), (0, None));
    }
}
