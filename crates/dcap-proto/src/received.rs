//! Bytes that have been received and not yet taken.

use std::mem;

/// Bytes that have been received and not yet taken.
#[derive(Debug, Default)]
pub(crate) struct Received {
    bytes: Vec<u8>,
    /// Bytes before this one have been taken.
    start: usize,
}

impl Received {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.is_empty() {
            // An idle connection holds no buffer.
            *self = Self::default();
        } else if self.start > 0 {
            self.bytes.drain(..mem::take(&mut self.start));
        }
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn waiting(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Takes the first `len` of the waiting bytes.
    pub(crate) fn consume(&mut self, len: usize) {
        self.start = self.bytes.len().min(self.start + len);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }
}
