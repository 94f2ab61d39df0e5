//! The messages on a data connection around the bytes of files.

use crate::data_session::number;

/// Longest block: its length is a signed number of 32 bits, and -1 ends a chain of blocks.
pub const BLOCK_LEN_MAX: u64 = 1 << 30;

const ACK: i32 = 6;
const FIN: i32 = 7;
const DATA: i32 = 8;

/// The answer to a request with this command number.
///
/// Answers report no errors: libdcap 2.47 repeats a request without an end at an error in [`DataAnswer::begin`], and returns wrong bytes at an
/// error in [`DataAnswer::finish`]. A request that fails ends the connection. One block per request for the same reason: if a connection
/// ends after a complete block, the library continues at a wrong offset.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DataAnswer {
    pub command: i32,
}

impl DataAnswer {
    pub const CLOSE: Self = Self { command: number::CLOSE };
    pub const LOCATE: Self = Self { command: number::LOCATE };
    pub const SEEK: Self = Self { command: number::SEEK };
    pub const VECTOR: Self = Self { command: number::READ_VECTOR };

    /// The whole answer to a request without data, with numbers that the client asked for.
    pub fn acknowledge(self, numbers: &[u64], out: &mut Vec<u8>) {
        message(&[ACK, self.command, 0], numbers, out);
    }

    /// Begins an answer with data: blocks follow.
    pub fn begin(self, out: &mut Vec<u8>) {
        self.acknowledge(&[], out);
        message(&[DATA], &[], out);
    }

    /// Begins a block of `len` bytes, which follow.
    pub fn begin_block(len: u64, out: &mut Vec<u8>) {
        let len = i32::try_from(len.min(BLOCK_LEN_MAX)).unwrap_or(i32::MAX);
        out.extend_from_slice(&len.to_be_bytes());
    }

    /// Ends an answer with data. A vector read has no mark after its blocks, because its client counts the bytes.
    pub fn finish(self, out: &mut Vec<u8>) {
        if self.command != number::READ_VECTOR {
            out.extend_from_slice(&(-1_i32).to_be_bytes());
        }
        message(&[FIN, self.command, 0], &[], out);
    }
}

/// A message: its length, words of 32 and then of 64 bits.
fn message(words: &[i32], numbers: &[u64], out: &mut Vec<u8>) {
    let len = i32::try_from(4 * words.len() + 8 * numbers.len()).unwrap_or(i32::MAX);
    out.extend_from_slice(&len.to_be_bytes());
    words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes
            .chunks(4)
            .map(|word| word.iter().map(|b| format!("{b:02x}")).collect::<String>())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn a_read_is_answered_as_by_a_pool() {
        let (mut out, answer) = (Vec::new(), DataAnswer { command: 2 });
        answer.begin(&mut out);
        DataAnswer::begin_block(4, &mut out);
        out.extend_from_slice(b"hell");
        answer.finish(&mut out);
        let expected = "0000000c 00000006 00000002 00000000 00000004 00000008 00000004 68656c6c ffffffff 0000000c 00000007 00000002 00000000";
        assert_eq!(hex(&out), expected);
    }

    #[test]
    fn a_vector_read_has_no_mark_after_its_blocks() {
        let mut out = Vec::new();
        DataAnswer::VECTOR.finish(&mut out);
        assert_eq!(hex(&out), "0000000c 00000007 0000000d 00000000");
    }

    #[test]
    fn positions_follow_the_acknowledgement() {
        let mut out = Vec::new();
        DataAnswer::SEEK.acknowledge(&[1 << 32], &mut out);
        assert_eq!(hex(&out), "00000014 00000006 00000003 00000000 00000001 00000000");
        out.clear();
        DataAnswer::LOCATE.acknowledge(&[5, 2], &mut out);
        assert_eq!(hex(&out), "0000001c 00000006 00000009 00000000 00000000 00000005 00000000 00000002");
        out.clear();
        DataAnswer::CLOSE.acknowledge(&[], &mut out);
        assert_eq!(hex(&out), "0000000c 00000006 00000004 00000000");
    }
}
