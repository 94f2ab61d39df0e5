//! Sums of blocks, from their bytes where no page checksums came with them, and of whole files from those of what was written.

use bytes::Bytes;
use forebay_store::DataFile;
use forebay_types::ByteRange;
use std::io;

/// Bytes read from the disk at a time while a sum is made.
pub(crate) const READ_LEN: usize = 256 << 10;

/// The sums of bytes that are being written.
#[derive(Debug, Default)]
pub(crate) struct WrittenSums {
    pub(crate) blocks: Vec<u32>,
    /// The Adler-32 of all of them, where files are to have one.
    pub(crate) adler32: Option<u32>,
}

impl WrittenSums {
    /// The sums of `blocks`, which follow each other and whose bytes are `bytes`; those that are known are taken over.
    pub(crate) fn new(blocks: &[ByteRange], known: &[Option<u32>], bytes: &[Bytes], with_adler32: bool) -> Self {
        let adler32 = with_adler32.then(|| {
            let mut sum = simd_adler32::Adler32::new();
            bytes.iter().for_each(|piece| sum.write(piece));
            sum.finish()
        });
        Self { blocks: complete(blocks, known, bytes), adler32 }
    }
}

/// The sums of `blocks`, which follow each other and whose bytes are `bytes`; those that are known are taken over.
fn complete(blocks: &[ByteRange], known: &[Option<u32>], bytes: &[Bytes]) -> Vec<u32> {
    let mut rest = Pieces { bytes: bytes.iter(), piece: &[] };
    let sums = blocks.iter().zip(known).map(|(block, known)| match known {
        Some(sum) => {
            rest.take(block.len(), |_| ());
            *sum
        }
        None => {
            let mut sum = 0;
            rest.take(block.len(), |piece| sum = crc32c::crc32c_append(sum, piece));
            sum
        }
    });
    sums.collect()
}

/// Bytes in pieces, taken from the front.
struct Pieces<'a> {
    bytes: std::slice::Iter<'a, Bytes>,
    piece: &'a [u8],
}

impl Pieces<'_> {
    /// Takes the next `len` bytes, fewer when there are no more.
    fn take(&mut self, len: u64, mut taken: impl FnMut(&[u8])) {
        let mut rest_len = usize::try_from(len).unwrap_or(usize::MAX);
        while rest_len > 0 {
            if self.piece.is_empty() {
                // Chunks of the network do not end at block boundaries: a piece may be split.
                let Some(next) = self.bytes.next() else { return };
                self.piece = next;
            }
            let (front, behind) = self.piece.split_at(rest_len.min(self.piece.len()));
            taken(front);
            rest_len -= front.len();
            self.piece = behind;
        }
    }
}

/// The sum of a block as the disk gives it. `buffer` is where its bytes go, a part at a time. Blocking.
pub(crate) fn of_block(data: &dyn DataFile, block: ByteRange, buffer: &mut [u8]) -> io::Result<u32> {
    let mut sum = 0;
    read_through(data, block, buffer, |piece| sum = crc32c::crc32c_append(sum, piece))?;
    Ok(sum)
}

/// Reads `range` through `buffer`, a part at a time. Blocking.
pub(crate) fn read_through(
    data: &dyn DataFile,
    range: ByteRange,
    buffer: &mut [u8],
    mut piece: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut offset = range.start();
    while offset < range.end() {
        let len = usize::try_from(range.end() - offset).unwrap_or(usize::MAX).min(buffer.len());
        // An empty buffer would never advance.
        let part = buffer.get_mut(..len).filter(|part| !part.is_empty()).ok_or(io::ErrorKind::InvalidInput)?;
        data.read_exact_at(part, offset)?;
        piece(part);
        offset += part.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_that_are_not_known_are_made_of_the_bytes() {
        let bytes: Vec<u8> = (0..250).collect();
        let blocks = [ByteRange::at(1000, 100), ByteRange::at(1100, 100), ByteRange::at(1200, 50)];
        for piece_len in [1, 7, 100, 1000] {
            let pieces: Vec<Bytes> = bytes.chunks(piece_len).map(Bytes::copy_from_slice).collect();
            let sums = complete(&blocks, &[None, Some(7), None], &pieces);
            assert_eq!(sums, [crc32c::crc32c(&bytes[..100]), 7, crc32c::crc32c(&bytes[200..])]);
        }
    }

    #[test]
    fn the_adler32_of_pieces_is_that_of_all_their_bytes() {
        let pieces = [Bytes::from_static(b"1234"), Bytes::from_static(b"56789")];
        let sums = |with_adler32| WrittenSums::new(&[ByteRange::at(0, 9)], &[None], &pieces, with_adler32);
        assert_eq!((sums(true).adler32, sums(true).blocks), (Some(0x091e_01de), vec![0xe306_9283]));
        assert_eq!(sums(false).adler32, None);
    }
}
