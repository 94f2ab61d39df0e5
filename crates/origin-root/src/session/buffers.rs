//! Reusable buffers for pieces of file bytes.
//!
//! An allocator gives memory of this size back to the system as soon as it can; then each page of the next piece costs a
//! fault and is cleared. That is a sixth of what a sequential read through the cache costs.

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;

/// Capacity of a buffer in bytes: a whole piece with the checksums of its pages.
pub(super) const BUFFER_LEN: usize = 132 << 10;

/// A piece of fewer bytes gets memory of its own size: the budget counts bytes, and a buffer should not be much more than that.
const BUFFERED_LEN_MIN: usize = 120 << 10;

/// Free buffers at most: 17 MiB. More are in use only in bursts.
const FREE_MAX: usize = 128;

static FREE: Mutex<Vec<BytesMut>> = Mutex::new(Vec::new());

/// Bytes whose buffer is free again when the last reference to them is dropped.
struct Lent(BytesMut);

/// An empty buffer with room for `len` bytes.
pub(super) fn with_room(len: usize) -> BytesMut {
    if !(BUFFERED_LEN_MIN..=BUFFER_LEN).contains(&len) {
        return BytesMut::with_capacity(len);
    }
    // A statement of its own: the lock must be released before memory is allocated.
    let free = FREE.lock().pop();
    free.unwrap_or_else(|| BytesMut::with_capacity(BUFFER_LEN))
}

/// Makes bytes immutable. If they lie in a reusable buffer, it is free again when the last clone is dropped.
pub(crate) fn freeze(bytes: BytesMut) -> Bytes {
    if bytes.len() < BUFFERED_LEN_MIN { bytes.freeze() } else { Bytes::from_owner(Lent(bytes)) }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.0);
        buffer.clear();
        // Fails while other bytes still lie in the same memory.
        if buffer.try_reclaim(BUFFER_LEN) && buffer.capacity() == BUFFER_LEN {
            let mut free = FREE.lock();
            if free.len() < FREE_MAX {
                free.push(buffer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lent(len: usize) -> (Bytes, *const u8) {
        let mut buffer = with_room(len);
        buffer.resize(len, 7);
        let memory = buffer.as_ptr();
        (freeze(buffer), memory)
    }

    #[test]
    fn a_buffer_is_used_again_once_its_last_bytes_are_dropped() {
        let (bytes, memory) = lent(BUFFER_LEN);
        let part = bytes.slice(10..20);
        drop(bytes);
        let (other, _) = lent(BUFFER_LEN);
        assert_ne!(other.as_ptr(), memory, "the first bytes are still read");
        assert_eq!(part.as_ref(), [7; 10]);
        drop(part);
        assert_eq!(lent(BUFFERED_LEN_MIN).1, memory);
    }

    #[test]
    fn bytes_of_other_lengths_have_memory_of_their_own() {
        for len in [1, BUFFERED_LEN_MIN - 1, BUFFER_LEN + 1] {
            let (bytes, _) = lent(len);
            assert_eq!(bytes, vec![7; len]);
        }
    }
}
