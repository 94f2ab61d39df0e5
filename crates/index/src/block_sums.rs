//! Checksums of blocks.
//!
//! A chunk as bytes, version 1: version (u8), the number of sums (u16), for each sum a bit that is set if it is known (in
//! whole bytes, the lowest bit first), the sums (u32 each, 0 when not known), the CRC32C of it all (u32).

use crate::{
    IndexError,
    bytes::{Reader, Writer},
};

/// Blocks whose checksums are kept together: block *n* of a file is in chunk *n* / `SUMS_PER_CHUNK`. A full chunk fits a
/// page of the index.
pub const SUMS_PER_CHUNK: u64 = 960;

const VERSION: u8 = 1;

/// The known CRC32C sums of a run of blocks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BlockSums {
    sums: Vec<Option<u32>>,
}

impl BlockSums {
    /// The chunk that holds the checksum of block `index`, and its place there.
    pub fn place_of(index: u64) -> (u32, usize) {
        // A file has at most 2^31-1 blocks.
        let chunk = u32::try_from(index / SUMS_PER_CHUNK).unwrap_or(u32::MAX);
        (chunk, usize::try_from(index % SUMS_PER_CHUNK).unwrap_or(0))
    }

    pub fn get(&self, place: usize) -> Option<u32> {
        self.sums.get(place).copied().flatten()
    }

    /// Notes or forgets the checksum at `place`.
    ///
    /// # Panics
    /// When the place is not below [`SUMS_PER_CHUNK`].
    pub fn set(&mut self, place: usize, sum: Option<u32>) {
        assert!((place as u64) < SUMS_PER_CHUNK, "place {place} of a chunk of {SUMS_PER_CHUNK}");
        if self.sums.len() <= place {
            self.sums.resize(place + 1, None);
        }
        if let Some(slot) = self.sums.get_mut(place) {
            *slot = sum;
        }
        while self.sums.last() == Some(&None) {
            self.sums.pop();
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    pub fn count(&self) -> usize {
        self.sums.iter().flatten().count()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.u8(VERSION);
        to.u16(u16::try_from(self.sums.len()).expect("a chunk has few sums"));
        for group in self.sums.chunks(8) {
            let bits = group.iter().enumerate().map(|(bit, sum)| u8::from(sum.is_some()) << bit);
            to.u8(bits.fold(0, |byte, bit| byte | bit));
        }
        for sum in &self.sums {
            to.u32(sum.unwrap_or(0));
        }
        to.seal()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, IndexError> {
        let mut from = Reader::unseal(bytes, "block checksums")?;
        let version = from.u8()?;
        let count = from.u16()?;
        if version != VERSION || u64::from(count) > SUMS_PER_CHUNK {
            return Err(from.damaged());
        }
        let known = from.bytes(usize::from(count).div_ceil(8))?;
        let is_known = |place: usize| known.get(place / 8).is_some_and(|byte| byte >> (place % 8) & 1 != 0);
        let sums = (0..usize::from(count))
            .map(|place| from.u32().map(|sum| is_known(place).then_some(sum)))
            .collect::<Result<_, _>>()?;
        from.end()?;
        Ok(Self { sums })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_known_one_by_one() {
        let mut sums = BlockSums::default();
        sums.set(9, Some(0));
        sums.set(2, Some(7));
        assert_eq!((sums.get(9), sums.get(2), sums.get(3), sums.get(10)), (Some(0), Some(7), None, None));
        assert_eq!(sums.count(), 2);
        assert_eq!(BlockSums::decode(&sums.encode()).unwrap(), sums);
        sums.set(9, None);
        sums.set(2, None);
        assert!(sums.is_empty());
        assert_eq!(BlockSums::decode(&sums.encode()).unwrap(), sums);
    }

    #[test]
    fn a_full_chunk_fits_a_page() {
        let mut sums = BlockSums::default();
        let last = usize::try_from(SUMS_PER_CHUNK).unwrap() - 1;
        for place in 0..=last {
            sums.set(place, Some(u32::MAX));
        }
        assert!(sums.encode().len() < 4000);
        assert_eq!(BlockSums::decode(&sums.encode()).unwrap(), sums);
        assert_eq!(BlockSums::place_of(SUMS_PER_CHUNK - 1), (0, last));
        assert_eq!(BlockSums::place_of(SUMS_PER_CHUNK), (1, 0));
    }

    #[test]
    fn version_1_is_read_and_written_as_it_always_was() {
        let mut sums = BlockSums::default();
        sums.set(0, Some(0x0403_0201));
        sums.set(2, Some(5));
        let mut bytes = vec![1, 3, 0, 0b101, 1, 2, 3, 4, 0, 0, 0, 0, 5, 0, 0, 0];
        let sum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        assert_eq!(sums.encode(), bytes);
        assert_eq!(BlockSums::decode(&bytes).unwrap(), sums);
        for at in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(BlockSums::decode(&flipped).is_err(), "bit {at}");
        }
    }
}
