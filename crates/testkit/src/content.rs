//! File contents that are a function of the offset, so that every byte can be checked anywhere.

/// The byte at `offset` of every test file.
pub fn byte_at(offset: u64) -> u8 {
    let mixed = (offset >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ offset;
    let [byte, ..] = (mixed >> (8 * (offset & 7))).to_le_bytes();
    byte
}

/// The `len` bytes of the test content from `offset` on.
pub fn bytes_at(offset: u64, len: usize) -> Vec<u8> {
    (offset..).take(len).map(byte_at).collect()
}
