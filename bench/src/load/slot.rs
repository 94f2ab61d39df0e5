//! One request under way, and what its answer must be.

use super::reply::ReplyError;
use crate::content::Content;
use forebay_proto::FileHandle;
use forebay_proto::request::ReadElement;
use forebay_proto::response::OpenReply;
use forebay_types::FileStat;
use std::time::Instant;

/// The request that a slot has under way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// Nothing: the slot is free.
    Idle,
    Read,
    ReadVector,
    PageRead,
    Open,
    Stat,
    Close,
}

impl Step {
    /// The request's name in messages.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Idle => "nothing",
            Self::Read => "read",
            Self::ReadVector => "readv",
            Self::PageRead => "pgread",
            Self::Open => "open",
            Self::Stat => "stat",
            Self::Close => "close",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// All requested bytes, compared.
    Data {
        len: u64,
    },
    Opened(OpenReply),
    /// The server asks to repeat the request after so many seconds.
    PutOff {
        seconds: u32,
    },
    Stat(FileStat),
    Closed,
}

/// Room for one request under way. Its number is the stream id.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) step: Step,
    /// The expected content of the requested file.
    pub(super) content: Content,
    /// Offset of the requested range; without meaning for vector reads.
    pub(super) offset: u64,
    /// Bytes requested, of all ranges together.
    pub(super) asked_bytes: u64,
    /// Bytes received of them.
    pub(super) received_bytes: u64,
    /// Ranges of a vector read.
    pub(super) elements: Vec<ReadElement>,
    /// How many of them have arrived.
    pub(super) elements_done: usize,
    /// Which of the load's files is concerned, when it goes from one to the next.
    pub(super) file: usize,
    /// Bytes received in all steps of the operation that are complete.
    pub(super) operation_bytes: u64,
    /// Its handle while it is open.
    pub(super) handle: FileHandle,
    /// When the operation began.
    pub(super) started: Instant,
}

impl Slot {
    pub(super) fn new(content: Content, now: Instant) -> Self {
        Self {
            step: Step::Idle,
            content,
            offset: 0,
            asked_bytes: 0,
            received_bytes: 0,
            elements: Vec::new(),
            elements_done: 0,
            file: 0,
            operation_bytes: 0,
            handle: FileHandle::default(),
            started: now,
        }
    }

    /// Waits for the answer to `step`, with `asked_bytes` of data from `offset` on.
    pub(super) fn begin(&mut self, step: Step, offset: u64, asked_bytes: u64) {
        self.step = step;
        self.offset = offset;
        self.asked_bytes = asked_bytes;
        self.received_bytes = 0;
        self.elements_done = 0;
    }

    /// Offset in the file of the next byte, for ranges that arrive in order.
    pub(super) const fn next_offset(&self) -> u64 {
        self.offset + self.received_bytes
    }

    /// Checks that the whole answer has arrived.
    pub(super) const fn check_complete(&self) -> Result<(), ReplyError> {
        if self.received_bytes == self.asked_bytes {
            return Ok(());
        }
        Err(ReplyError::Short {
            step: self.step.name(),
            received_bytes: self.received_bytes,
            expected_bytes: self.asked_bytes,
        })
    }
}
