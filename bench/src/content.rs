//! The content of the benchmark's files: every byte is a function of the file's name and the byte's offset.
//!
//! Content is a row of 64-bit little-endian words, each greater than the one before by a large odd number. No two words
//! of a file are equal, neighbours share no bytes, and both filling and comparing compile to vector additions.

/// The step from one word to the next: 2^64 divided by the golden ratio, which is odd.
const WORD_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

const WORD_LEN: u64 = 8;

/// The content of one file, computed and never stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Content {
    first_word: u64,
}

/// A byte that differs from what the file holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("wrong byte at offset {offset}: expected {expected:#04x}, found {found:#04x}")]
pub(crate) struct WrongByte {
    /// Offset in the file.
    pub(crate) offset: u64,
    /// The byte that the file holds there.
    pub(crate) expected: u8,
    pub(crate) found: u8,
}

impl Content {
    /// The content of the file at `path`. Only the last component counts, so a file keeps it when it is moved.
    pub(crate) fn of_path(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        // FNV-1a, so that two files of one run do not hold the same bytes.
        let first_word = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self { first_word }
    }

    /// Writes the bytes from `offset` on to all of `out`.
    pub(crate) fn fill(self, offset: u64, out: &mut [u8]) {
        let (head, body) = out.split_at_mut(head_len(offset, out.len()));
        for (byte, at) in head.iter_mut().zip(offset..) {
            *byte = self.byte(at);
        }
        let words_at = offset + head.len() as u64;
        let (words, tail) = body.as_chunks_mut::<8>();
        let mut expected = self.word(words_at);
        for word in &mut *words {
            *word = expected.to_le_bytes();
            expected = expected.wrapping_add(WORD_STEP);
        }
        for (byte, at) in tail.iter_mut().zip(words_at + words.as_flattened().len() as u64..) {
            *byte = self.byte(at);
        }
    }

    /// Compares every byte of `found` with the content from `offset` on.
    ///
    /// # Errors
    /// The first byte that differs.
    pub(crate) fn verify(self, offset: u64, found: &[u8]) -> Result<(), WrongByte> {
        let (head, body) = found.split_at(head_len(offset, found.len()));
        let words_at = offset + head.len() as u64;
        let (words, tail) = body.as_chunks::<8>();
        let mut expected = self.word(words_at);
        let mut difference = 0;
        for word in words {
            difference |= u64::from_le_bytes(*word) ^ expected;
            expected = expected.wrapping_add(WORD_STEP);
        }
        if difference != 0 {
            self.verify_bytes(words_at, words.as_flattened())?;
        }
        self.verify_bytes(offset, head)?;
        self.verify_bytes(words_at + words.as_flattened().len() as u64, tail)
    }

    fn verify_bytes(self, offset: u64, found: &[u8]) -> Result<(), WrongByte> {
        let wrong = found.iter().zip(offset..).find(|&(&byte, at)| byte != self.byte(at));
        wrong.map_or(Ok(()), |(&found, at)| Err(WrongByte { offset: at, expected: self.byte(at), found }))
    }

    /// The word at `offset`, which counts from the start of its word.
    const fn word(self, offset: u64) -> u64 {
        self.first_word.wrapping_add((offset / WORD_LEN).wrapping_mul(WORD_STEP))
    }

    const fn byte(self, offset: u64) -> u8 {
        let [low, ..] = (self.word(offset) >> (8 * (offset % WORD_LEN))).to_le_bytes();
        low
    }
}

/// Bytes before the first whole word of a range of `len` bytes at `offset`.
fn head_len(offset: u64, len: usize) -> usize {
    let to_word = offset.next_multiple_of(WORD_LEN) - offset;
    usize::try_from(to_word).map_or(len, |to_word| to_word.min(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_a_file_equals_the_same_part_of_the_whole() {
        let content = Content::of_path("/bench/large");
        let mut whole = vec![0; 200];
        content.fill(1_000_000_001, &mut whole);
        for start in 0..40 {
            for end in start..80 {
                let mut part = vec![0; end - start];
                content.fill(1_000_000_001 + start as u64, &mut part);
                assert_eq!(part, whole[start..end]);
                assert_eq!(content.verify(1_000_000_001 + start as u64, &part), Ok(()));
            }
        }
    }

    #[test]
    fn every_single_flipped_bit_is_found_where_it_is() {
        let content = Content::of_path("large");
        let mut bytes = vec![0; 61];
        content.fill(3, &mut bytes);
        for at in 0..bytes.len() {
            bytes[at] ^= 0x10;
            let wrong = content.verify(3, &bytes).unwrap_err();
            assert_eq!((wrong.offset, wrong.found), (3 + at as u64, bytes[at]));
            bytes[at] ^= 0x10;
        }
    }

    #[test]
    fn bytes_of_another_place_or_another_file_are_wrong() {
        let content = Content::of_path("a/large");
        let mut page = vec![0; 4096];
        content.fill(8192, &mut page);
        assert!(content.verify(4096, &page).is_err());
        assert!(Content::of_path("a/other").verify(8192, &page).is_err());
        assert_eq!(Content::of_path("b/large"), content);
    }
}
