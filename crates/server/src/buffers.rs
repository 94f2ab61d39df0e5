//! Large buffers that connections share.

use std::sync::{Arc, Mutex, PoisonError};

/// Large buffers that connections take while they assemble a large answer, and give back once it is sent.
///
/// So there are about as many as answers are assembled at one moment, not one for each connection, and the next answer is
/// assembled where the processor's cache still holds the last one.
#[derive(Clone, Debug)]
pub(crate) struct Buffers {
    free: Arc<Mutex<Vec<Vec<u8>>>>,
    buffer_len: usize,
}

/// Free buffers that are kept; more are given back to the system.
const FREE_BUFFERS_MAX: usize = 64;

impl Buffers {
    /// No buffers yet; each will have `buffer_len` bytes.
    pub(crate) fn new(buffer_len: usize) -> Self {
        Self { free: Arc::default(), buffer_len }
    }

    /// A buffer of at least `len` bytes, which hold anything.
    pub(crate) fn take(&self, len: usize) -> Vec<u8> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut buffer = free.unwrap_or_default();
        if buffer.len() < len {
            buffer.resize(len.max(self.buffer_len), 0);
        }
        buffer
    }

    /// Takes a buffer back. One of unusual size is not kept.
    pub(crate) fn give(&self, buffer: Vec<u8>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.len() == self.buffer_len && free.len() < FREE_BUFFERS_MAX {
            free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_was_given_back_is_taken_again() {
        let buffers = Buffers::new(100);
        let mut buffer = buffers.take(50);
        assert_eq!(buffer, [0; 100]);
        buffer.fill(7);
        buffers.give(buffer);
        assert_eq!(buffers.take(100), [7; 100]);
        assert_eq!(buffers.take(100), [0; 100]);
    }

    #[test]
    fn buffers_of_unusual_size_are_not_kept() {
        let buffers = Buffers::new(100);
        let buffer = buffers.take(101);
        assert_eq!(buffer.len(), 101);
        buffers.give(buffer);
        assert_eq!(buffers.take(1).len(), 100);
    }

    #[test]
    fn only_so_many_free_buffers_are_kept() {
        let buffers = Buffers::new(1);
        for _ in 0..=FREE_BUFFERS_MAX {
            buffers.give(vec![1]);
        }
        let kept = (0..=FREE_BUFFERS_MAX).filter(|_| buffers.take(1) == [1]).count();
        assert_eq!(kept, FREE_BUFFERS_MAX);
    }
}
