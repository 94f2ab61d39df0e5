//! The repeated work of a connection: the requests of an operation, and the step after each answer.

use super::slot::{Reply, Slot, Step};
use super::visits::Visits;
use super::workload::Offsets;
use crate::content::Content;
use anyhow::{Context as _, Result, bail, ensure};
use forebay_proto::request::{Close, Open, PageRead, Prereads, Read, ReadElement, Stat, Target, encode_read_vector};
use forebay_proto::{FileHandle, OpenOptions, Request, StreamId};
use std::cell::Cell;
use std::rc::Rc;

/// A file of the load.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct LoadFile {
    /// Its absolute path, as requests name it.
    pub(crate) path: String,
    /// Its length in bytes.
    pub(crate) len: u64,
}

/// The repeated work of a connection.
#[derive(Debug)]
pub(super) enum Job {
    /// Reads from one open file.
    Read { handle: FileHandle, offsets: Offsets },
    /// Reads several ranges of one open file at once.
    ReadVector { handle: FileHandle, offsets: Offsets, elements: u16 },
    /// Reads pages of one open file.
    PageRead { handle: FileHandle, offsets: Offsets },
    /// Opens and closes one file after the other.
    Files { queue: FileQueue, while_open: WhileOpen },
    /// Visits random files; each request is an operation.
    Visits(Visits),
}

/// The requests on a file between open and close.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WhileOpen {
    /// Its stat is requested by name.
    Stat,
    /// It is read as a whole.
    Read,
}

/// Files of which each connection takes the next one; after the last one comes the first one again.
#[derive(Clone, Debug)]
pub(super) struct FileQueue {
    files: Rc<[LoadFile]>,
    next: Rc<Cell<usize>>,
}

impl FileQueue {
    pub(super) fn new(files: &[LoadFile]) -> Self {
        Self { files: files.into(), next: Rc::default() }
    }

    fn take(&self) -> usize {
        let next = self.next.get();
        self.next.set((next + 1) % self.files.len().max(1));
        next
    }

    fn file(&self, index: usize) -> Result<&LoadFile> {
        self.files.get(index).context("a slot belongs to a file")
    }
}

/// The effect of a complete answer on its operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Turn {
    /// The operation is complete.
    Complete,
    /// The next request of the same operation follows.
    Continued,
}

impl Job {
    /// Begins an operation in `slot`; its first request goes to `out`.
    pub(super) fn begin(&mut self, slot: &mut Slot, stream_id: StreamId, out: &mut Vec<u8>) -> Result<()> {
        slot.operation_bytes = 0;
        match self {
            Self::Read { handle, offsets } => {
                let (offset, len) = offsets.next_range();
                read(slot, stream_id, *handle, offset, len, out);
            }
            Self::PageRead { handle, offsets } => {
                let (offset, len) = offsets.next_range();
                slot.begin(Step::PageRead, offset, u64::from(len));
                let request = PageRead { handle: *handle, offset, len, path_id: 0, retry: false };
                Request::PageRead(request).encode(stream_id, out);
            }
            Self::ReadVector { handle, offsets, elements } => {
                slot.elements.clear();
                let ranges = offsets.next_vector(*elements);
                slot.elements.extend(ranges.map(|(offset, len)| ReadElement { handle: *handle, offset, len }));
                read_vector(slot, stream_id, out);
            }
            Self::Files { queue, .. } => {
                slot.file = queue.take();
                open(slot, stream_id, queue.file(slot.file)?, out);
            }
            Self::Visits(visits) => visits.begin(slot, stream_id, out)?,
        }
        Ok(())
    }

    /// Continues the operation in `slot` after `reply`; a further request goes to `out`.
    pub(super) fn advance(
        &mut self,
        slot: &mut Slot,
        stream_id: StreamId,
        reply: Reply,
        out: &mut Vec<u8>,
    ) -> Result<Turn> {
        let step = std::mem::replace(&mut slot.step, Step::Idle);
        if let Reply::Data { len } = reply {
            slot.operation_bytes += len;
        }
        let (queue, while_open) = match self {
            Self::Files { queue, while_open } => (queue, while_open),
            Self::Visits(visits) => {
                visits.advance(slot, reply)?;
                return Ok(Turn::Complete);
            }
            Self::Read { .. } | Self::ReadVector { .. } | Self::PageRead { .. } => {
                ensure!(matches!(reply, Reply::Data { .. }), "unexpected answer to {}", step.name());
                return Ok(Turn::Complete);
            }
        };
        let file = queue.file(slot.file)?;
        match (reply, while_open) {
            (Reply::Opened(opened), WhileOpen::Stat) => {
                slot.handle = opened.handle;
                slot.begin(Step::Stat, 0, 0);
                let target = Target::Path(file.path.as_bytes());
                Request::Stat(Stat { target, vfs: false }).encode(stream_id, out);
            }
            (Reply::Opened(opened), WhileOpen::Read) => {
                slot.handle = opened.handle;
                slot.content = Content::of_path(&file.path);
                read(slot, stream_id, opened.handle, 0, u32::try_from(file.len)?, out);
            }
            (Reply::Stat(stat), _) => {
                ensure!(stat.size == file.len, "stat of {} tells {} bytes, not {}", file.path, stat.size, file.len);
                close(slot, stream_id, out);
            }
            (Reply::Data { .. }, WhileOpen::Read) => close(slot, stream_id, out),
            (Reply::Data { .. }, WhileOpen::Stat) => bail!("unexpected answer to {}", step.name()),
            (Reply::PutOff { seconds }, _) => bail!("told to {} again in {seconds} s", step.name()),
            (Reply::Closed, _) => return Ok(Turn::Complete),
        }
        Ok(Turn::Continued)
    }
}

/// Asks for `file` to be opened, with its stat.
pub(super) fn open(slot: &mut Slot, stream_id: StreamId, file: &LoadFile, out: &mut Vec<u8>) {
    slot.begin(Step::Open, 0, 0);
    let options = OpenOptions::READ.with(OpenOptions::RETURN_STAT).with(OpenOptions::ASYNC);
    let request = Open { mode: 0, options, options_extended: 0, path: file.path.as_bytes() };
    Request::Open(request).encode(stream_id, out);
}

/// Asks for a range of an open file.
pub(super) fn read(slot: &mut Slot, stream_id: StreamId, handle: FileHandle, offset: u64, len: u32, out: &mut Vec<u8>) {
    slot.begin(Step::Read, offset, u64::from(len));
    let request = Read { handle, offset, len, path_id: 0, prereads: Prereads::default() };
    Request::Read(request).encode(stream_id, out);
}

/// Asks for the ranges that the slot has, at once.
pub(super) fn read_vector(slot: &mut Slot, stream_id: StreamId, out: &mut Vec<u8>) {
    let asked_bytes = slot.elements.iter().map(|element| u64::from(element.len)).sum();
    slot.begin(Step::ReadVector, 0, asked_bytes);
    encode_read_vector(stream_id, 0, &slot.elements, out);
}

/// Gives an open file up.
pub(super) fn close(slot: &mut Slot, stream_id: StreamId, out: &mut Vec<u8>) {
    slot.begin(Step::Close, 0, 0);
    Request::Close(Close { handle: slot.handle }).encode(stream_id, out);
}
