//! Buffers that the connections of one thread share.
//!
//! A connection holds a buffer only while it has contents. So idle connections hold none, and the next request uses memory that
//! the processor's cache still has.

use std::{
    cell::RefCell,
    mem,
    ops::{Deref, DerefMut},
};

/// A buffer that returns to the free ones of its thread when it is dropped. It still has the bytes of its last use.
#[derive(Debug, Default)]
pub struct Buffer(Vec<u8>);

/// The lengths of buffers, and the number of free ones of each length that a thread keeps. Longer buffers are not kept.
const SIZES: [(usize, usize); 4] =
    [(RECEIVE_BUFFER_LEN, 16), (ENCRYPTED_BUFFER_LEN, 8), (SMALL_BUFFER_LEN, 16), (LARGE_BUFFER_LEN, 8)];

/// Fits dozens of pipelined requests.
pub const RECEIVE_BUFFER_LEN: usize = 16 << 10;

/// Fits the records of 64 KiB.
pub const ENCRYPTED_BUFFER_LEN: usize = 80 << 10;

/// Fits the answers to some dozen small requests.
pub const SMALL_BUFFER_LEN: usize = 128 << 10;

/// Fits the 512 KiB of bytes that fronts collect before they are sent, and the page checksums or the element that exceeds them.
pub const LARGE_BUFFER_LEN: usize = (512 << 10) + (64 << 10);

thread_local! {
    static FREE: RefCell<[Vec<Vec<u8>>; SIZES.len()]> = const { RefCell::new([const { Vec::new() }; SIZES.len()]) };
}

impl Buffer {
    /// A buffer of at least `len` bytes with arbitrary contents.
    #[inline]
    pub fn of(len: usize) -> Self {
        // Few fixed sizes make nearly every buffer reusable.
        let size = SIZES.iter().position(|(size, _)| *size >= len);
        let Some((index, (size, _))) = size.and_then(|index| Some((index, SIZES.get(index)?))) else {
            return Self(vec![0; len]);
        };
        let free = FREE.with_borrow_mut(|free| free.get_mut(index).and_then(Vec::pop));
        Self(free.unwrap_or_else(|| vec![0; *size]))
    }
}

impl From<&[u8]> for Buffer {
    /// A buffer of exactly these bytes.
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        if !self.0.is_empty() {
            keep(mem::take(&mut self.0));
        }
    }
}

/// Keeps a buffer for this thread, unless it has enough of this length.
#[inline]
fn keep(bytes: Vec<u8>) {
    let Some(index) = SIZES.iter().position(|(size, _)| *size == bytes.len()) else { return };
    // An error means that the thread is ending.
    let _ = FREE.try_with(|free| {
        if let (Ok(mut free), Some((_, kept_max))) = (free.try_borrow_mut(), SIZES.get(index))
            && let Some(free) = free.get_mut(index).filter(|free| free.len() < *kept_max)
        {
            free.push(bytes);
        }
    });
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_buffer_of_a_size_is_the_one_given_back_last() {
        let (mut first, second) = (Buffer::of(1), Buffer::of(1));
        assert_eq!((first.len(), second.len()), (RECEIVE_BUFFER_LEN, RECEIVE_BUFFER_LEN));
        first.fill(7);
        drop(second);
        drop(first);
        assert!(Buffer::of(RECEIVE_BUFFER_LEN).iter().all(|&byte| byte == 7));
        assert_eq!(Buffer::of(RECEIVE_BUFFER_LEN + 1).len(), ENCRYPTED_BUFFER_LEN);
        assert_eq!(Buffer::of(ENCRYPTED_BUFFER_LEN + 1).len(), SMALL_BUFFER_LEN);
        assert_eq!(Buffer::of(SMALL_BUFFER_LEN + 1).len(), LARGE_BUFFER_LEN);
    }

    #[test]
    fn empty_and_longer_buffers_are_not_kept() {
        for len in [0, LARGE_BUFFER_LEN + 1] {
            let buffer = if len == 0 { Buffer::default() } else { Buffer::of(len) };
            assert_eq!(buffer.len(), len);
            drop(buffer);
            assert!(FREE.with_borrow(|free| free.iter().all(Vec::is_empty)));
        }
    }

    #[test]
    fn only_so_many_free_buffers_are_kept() {
        for (size, kept_max) in SIZES {
            drop((0..=kept_max).map(|_| Buffer::of(size)).collect::<Vec<_>>());
        }
        let kept: Vec<usize> = FREE.with_borrow(|free| free.iter().map(Vec::len).collect());
        assert_eq!(kept, SIZES.map(|(_, kept_max)| kept_max));
    }
}
