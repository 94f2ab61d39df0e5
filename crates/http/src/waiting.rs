//! The bytes that wait to be sent, in a buffer that all connections of a thread share.

use forebay_net::{Buffer, LARGE_BUFFER_LEN, RECEIVE_BUFFER_LEN};

/// The bytes that wait to be sent. There is a buffer only while there are any.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    buffer: Buffer,
    /// The first bytes of the buffer wait; the rest is free.
    len: usize,
}

impl Waiting {
    #[expect(clippy::indexing_slicing, reason = "never more bytes wait than there are; hot path")]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that are held.
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.len()
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// `len` free bytes with arbitrary contents, to be filled and then appended by [`Waiting::commit`].
    #[expect(clippy::indexing_slicing, reason = "the buffer has just been made long enough")]
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        let end = self.len + len;
        if self.buffer.len() < end {
            self.grow(end);
        }
        &mut self.buffer[self.len..end]
    }

    /// Makes room for `len` more bytes, or for as many as a long buffer holds, so that waiting bytes are not copied later.
    pub(crate) fn expect(&mut self, len: u64) {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let end = self.len.saturating_add(len).min(LARGE_BUFFER_LEN);
        if self.buffer.len() < end {
            self.grow(end);
        }
    }

    /// Appends the first `len` bytes of the last [`Waiting::room`].
    pub(crate) fn commit(&mut self, len: usize) {
        assert!(self.len + len <= self.buffer.len(), "more bytes committed than there was room for");
        self.len += len;
    }

    /// Removes all bytes but the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        // This connection may wait for a disk.
        if self.len == 0 {
            self.clear();
        }
    }

    /// Removes all bytes, and gives the buffer back.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        let mut grown = Buffer::of(len.max(RECEIVE_BUFFER_LEN));
        if let Some(start) = grown.get_mut(..self.len) {
            start.copy_from_slice(self.bytes());
        }
        self.buffer = grown;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_in_order_while_the_buffer_grows() {
        let mut waiting = Waiting::default();
        waiting.append(b"head");
        waiting.room(10).fill(b'x');
        waiting.commit(3);
        waiting.expect(1 << 40);
        assert_eq!((waiting.bytes(), waiting.capacity()), (&b"headxxx"[..], LARGE_BUFFER_LEN));
        waiting.append(&[b'y'; LARGE_BUFFER_LEN]);
        assert_eq!((waiting.len(), &waiting.bytes()[..9]), (LARGE_BUFFER_LEN + 7, &b"headxxxyy"[..]));
        waiting.truncate(4);
        assert_eq!(waiting.bytes(), b"head");
        waiting.truncate(0);
        assert_eq!((waiting.len(), waiting.capacity()), (0, 0), "nothing is held without bytes");
    }
}
