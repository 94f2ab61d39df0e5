//! The parts of an answer to a read.

use bytes::Bytes;
use forebay_types::ByteRange;
use std::{fs::File, sync::Arc};

/// A part of the answer to a read. The segments of one read follow each other without a gap.
#[derive(Clone, Debug)]
pub enum Segment {
    /// A range of an open file, all of it on disk.
    File { file: Arc<File>, range: ByteRange },
    /// Bytes in memory; they draw on the byte budget until the last clone is dropped.
    Memory(Bytes),
}

impl Segment {
    pub const fn len(&self) -> u64 {
        match self {
            Self::File { range, .. } => range.len(),
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
