//! What a stressing job does: visits files of a list by chance, one after the other.

use super::job::{LoadFile, close, open, read};
use super::slot::{Reply, Slot};
use crate::content::Content;
use anyhow::{Context as _, Result, bail};
use forebay_bench::wan::Random;
use forebay_proto::{FileHandle, StreamId};
use std::rc::Rc;

/// Most reads of one visit.
const READS_MAX: u64 = 1024;

/// Longest read of a visit.
const READ_LEN_MAX: u64 = 128 << 10;

/// Opens a file by chance, reads up to 1024 ranges of up to 128 KiB anywhere in it, closes it, and begins anew. The same
/// seed makes the same choices.
#[derive(Debug)]
pub(super) struct Visits {
    files: Rc<[LoadFile]>,
    random: Random,
    state: State,
    /// Visits that have not begun.
    left: u32,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Between two visits.
    Outside,
    Opening {
        file: usize,
    },
    Reading {
        handle: FileHandle,
        file: usize,
        reads_left: u64,
    },
    Closing,
}

impl Visits {
    /// `count` visits to `files`, of which there is at least one.
    pub(super) const fn new(files: Rc<[LoadFile]>, seed: u64, count: u32) -> Self {
        Self { files, random: Random::new(seed), state: State::Outside, left: count }
    }

    /// Whether all visits are over.
    pub(super) const fn is_done(&self) -> bool {
        matches!(self.state, State::Outside) && self.left == 0
    }

    /// Sends the next request to `out`.
    pub(super) fn begin(&mut self, slot: &mut Slot, stream_id: StreamId, out: &mut Vec<u8>) -> Result<()> {
        match &mut self.state {
            State::Outside => {
                self.left = self.left.checked_sub(1).context("all visits are over")?;
                let index = usize::try_from(self.random.below(self.files.len().max(1) as u64))?;
                let file = self.files.get(index).context("there is a file to visit")?;
                slot.content = Content::of_path(&file.path);
                open(slot, stream_id, file, out);
                self.state = State::Opening { file: index };
            }
            State::Reading { handle, reads_left: 0, .. } => {
                slot.handle = *handle;
                close(slot, stream_id, out);
                self.state = State::Closing;
            }
            State::Reading { handle, file, reads_left } => {
                *reads_left -= 1;
                let file_len = self.files.get(*file).context("a visited file is one of the list")?.len;
                let len = self.random.below(READ_LEN_MAX + 1).min(file_len);
                let offset = self.random.below(file_len - len + 1);
                read(slot, stream_id, *handle, offset, u32::try_from(len)?, out);
            }
            State::Opening { .. } | State::Closing => bail!("a request of the visit is under way"),
        }
        Ok(())
    }

    /// Takes the answer to the last request.
    pub(super) fn advance(&mut self, slot: &Slot, reply: Reply) -> Result<()> {
        self.state = match (self.state, reply) {
            (State::Opening { file }, Reply::Opened(opened)) => {
                let expected = self.files.get(file).map(|file| file.len);
                let size = opened.stat.map(|stat| stat.size);
                anyhow::ensure!(size == expected, "a file of {expected:?} bytes has {size:?} at the server");
                State::Reading { handle: opened.handle, file, reads_left: self.random.below(READS_MAX + 1) }
            }
            (reading @ State::Reading { .. }, Reply::Data { .. }) => reading,
            (State::Closing, Reply::Closed) => State::Outside,
            _ => bail!("unexpected answer to {}", slot.step.name()),
        };
        Ok(())
    }
}
