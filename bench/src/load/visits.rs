//! The visits of a stressing job: it reads random files of a list, one after the other.

use super::job::{LoadFile, close, open, read, read_vector};
use super::slot::{Reply, Slot};
use crate::content::Content;
use anyhow::{Context as _, Result, bail};
use forebay_bench::wan::Random;
use forebay_proto::request::ReadElement;
use forebay_proto::{FileHandle, StreamId};
use serde::Serialize;
use std::{rc::Rc, time::Duration};

/// The reads of a visit.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct VisitShape {
    /// Most ranges of one visit.
    pub(crate) ranges_max: u32,
    pub(crate) range_len_max: u32,
    /// Most ranges of one request, in vector reads of at least one; `None` for single reads.
    pub(crate) vector_max: Option<u32>,
}

/// Opens a random file, reads random ranges of it, closes it, and starts over. The same seed makes the same choices.
#[derive(Debug)]
pub(super) struct Visits {
    files: Rc<[LoadFile]>,
    shape: VisitShape,
    random: Random,
    state: State,
    /// Visits that have not begun.
    left: u32,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Outside,
    Opening {
        file: usize,
    },
    /// The server deferred the open.
    PutOff {
        file: usize,
        seconds: u32,
    },
    Reading {
        handle: FileHandle,
        file: usize,
        ranges_left: u64,
    },
    Closing,
}

/// As in the published stress test.
impl Default for VisitShape {
    fn default() -> Self {
        Self { ranges_max: 1024, range_len_max: 128 << 10, vector_max: None }
    }
}

impl Visits {
    /// `count` visits to `files`, of which there is at least one.
    pub(super) const fn new(files: Rc<[LoadFile]>, shape: VisitShape, seed: u64, count: u32) -> Self {
        Self { files, shape, random: Random::new(seed), state: State::Outside, left: count }
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
                let file = usize::try_from(self.random.below(self.files.len().max(1) as u64))?;
                self.open(file, slot, stream_id, out)?;
            }
            State::PutOff { file, .. } => {
                let file = *file;
                self.open(file, slot, stream_id, out)?;
            }
            State::Reading { handle, ranges_left: 0, .. } => {
                slot.handle = *handle;
                close(slot, stream_id, out);
                self.state = State::Closing;
            }
            State::Reading { handle, file, ranges_left } => {
                let file_len = self.files.get(*file).context("a visited file is one of the list")?.len;
                let len_max = u64::from(self.shape.range_len_max).min(file_len);
                let Some(vector_max) = self.shape.vector_max else {
                    *ranges_left -= 1;
                    let (offset, len) = range(&mut self.random, file_len, 0, len_max)?;
                    read(slot, stream_id, *handle, offset, len, out);
                    return Ok(());
                };
                let count = (1 + self.random.below(vector_max.max(1).into())).min(*ranges_left);
                *ranges_left -= count;
                slot.elements.clear();
                for _ in 0..count {
                    let (offset, len) = range(&mut self.random, file_len, 1.min(len_max), len_max)?;
                    slot.elements.push(ReadElement { handle: *handle, offset, len });
                }
                read_vector(slot, stream_id, out);
            }
            State::Opening { .. } | State::Closing => bail!("a request of the visit is under way"),
        }
        Ok(())
    }

    fn open(&mut self, index: usize, slot: &mut Slot, stream_id: StreamId, out: &mut Vec<u8>) -> Result<()> {
        let file = self.files.get(index).context("there is a file to visit")?;
        slot.content = Content::of_path(&file.path);
        open(slot, stream_id, file, out);
        self.state = State::Opening { file: index };
        Ok(())
    }

    /// Time until the next request, if the server has deferred it.
    pub(super) fn put_off(&self) -> Option<Duration> {
        match self.state {
            State::PutOff { seconds, .. } => Some(Duration::from_secs(seconds.into())),
            _ => None,
        }
    }

    /// Takes the answer to the last request.
    pub(super) fn advance(&mut self, slot: &Slot, reply: Reply) -> Result<()> {
        self.state = match (self.state, reply) {
            (State::Opening { file }, Reply::Opened(opened)) => {
                let expected = self.files.get(file).map(|file| file.len);
                let size = opened.stat.map(|stat| stat.size);
                anyhow::ensure!(size == expected, "a file of {expected:?} bytes has {size:?} at the server");
                State::Reading {
                    handle: opened.handle,
                    file,
                    ranges_left: self.random.below(u64::from(self.shape.ranges_max) + 1),
                }
            }
            (State::Opening { file }, Reply::PutOff { seconds }) => State::PutOff { file, seconds },
            (reading @ State::Reading { .. }, Reply::Data { .. }) => reading,
            (State::Closing, Reply::Closed) => State::Outside,
            _ => bail!("unexpected answer to {}", slot.step.name()),
        };
        Ok(())
    }
}

/// A random range of `len_min` to `len_max` bytes, anywhere in a file that is at least that long.
fn range(random: &mut Random, file_len: u64, len_min: u64, len_max: u64) -> Result<(u64, u32)> {
    let len = len_min + random.below(len_max - len_min + 1);
    Ok((random.below(file_len - len + 1), u32::try_from(len)?))
}
