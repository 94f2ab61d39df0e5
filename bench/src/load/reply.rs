//! Takes answers apart as they arrive and compares every byte with what the file holds.
//!
//! Nothing is collected that need not be: data is compared where the socket put it, so a load generator costs one pass
//! over the bytes. Answers may come in any order, in several frames, and cut at any place.

use super::slot::{Reply, Slot, Step};
use crate::content::WrongByte;
use forebay_proto::page::{self, FrameKind, PAGE_LEN, StatusFrame};
use forebay_proto::response::{
    Attention, DEFERRED_PREFIX_LEN, ErrorBody, OpenReply, Wait, parse_element_header, parse_stat,
};
use forebay_proto::{NegativeLength, ResponseError, ResponseHeader, Status};

/// Longest text that an answer may hold: errors, stats and open replies are far shorter.
const TEXT_LEN_MAX: u32 = 64 << 10;

/// The prefix of the answer in an unsolicited message: the kind of message, and the answer's own header.
const DEFERRED_START_LEN: usize = DEFERRED_PREFIX_LEN as usize;

const STATUS_BODY_LEN: usize = page::STATUS_BODY_LEN as usize;

/// Why an answer cannot be counted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplyError {
    #[error(transparent)]
    NegativeLength(#[from] NegativeLength),
    #[error(transparent)]
    Malformed(#[from] ResponseError),
    #[error(transparent)]
    WrongByte(#[from] WrongByte),
    #[error("the server refused {step}: {text} ({code})")]
    Refused { step: &'static str, code: forebay_proto::ErrorCode, text: String },
    #[error("an answer to a request that was not sent")]
    UnknownStream,
    #[error("unexpected {status} in answer to {step}")]
    UnexpectedStatus { step: &'static str, status: Status },
    #[error("an answer to {step} is longer than was asked for")]
    TooLong { step: &'static str },
    #[error("an answer to {step} holds {received_bytes} of {expected_bytes} bytes")]
    Short { step: &'static str, received_bytes: u64, expected_bytes: u64 },
    #[error("an element that was not asked for, at offset {offset}")]
    WrongElement { offset: u64 },
    #[error("an unsolicited message of {message_len} bytes holds an answer of {answer_len} bytes")]
    WrongMessage { message_len: u32, answer_len: u32 },
    #[error("wrong checksum of the page at offset {offset}")]
    WrongChecksum { offset: u64 },
}

/// Where in an answer the next byte belongs.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Header,
    /// Body of an answer that is read as a whole.
    Text,
    /// Body of a promise to answer later.
    Promise,
    /// Beginning of an unsolicited message of `len` bytes.
    Unsolicited {
        len: u32,
    },
    /// Body of a `status` response.
    StatusBody,
    /// Header of an element of a vector read.
    Element,
    /// Checksum before a page.
    Checksum,
    /// `left` bytes of the file from `offset` on.
    Data {
        offset: u64,
        left: u32,
        sum: Option<PageSum>,
    },
}

/// The checksum that came with a page, and that of the part of the page seen so far.
#[derive(Clone, Copy, Debug)]
struct PageSum {
    expected: u32,
    found: u32,
    page_offset: u64,
}

/// The frame being read.
#[derive(Clone, Copy, Debug)]
struct Frame {
    slot: usize,
    status: Status,
    is_last: bool,
    left: u32,
}

/// Reads the answers of one connection.
#[derive(Debug)]
pub(crate) struct ReplyReader {
    stage: Stage,
    frame: Frame,
    gathered: Vec<u8>,
}

impl ReplyReader {
    pub(crate) fn new() -> Self {
        let frame = Frame { slot: 0, status: Status::OK, is_last: true, left: 0 };
        Self { stage: Stage::Header, frame, gathered: Vec::new() }
    }

    /// Takes `input`, which is what came next, and adds to `finished` each slot whose answer is complete.
    ///
    /// # Errors
    /// The first thing that is wrong; the connection is of no use then.
    pub(crate) fn handle_input(
        &mut self,
        mut input: &[u8],
        slots: &mut [Slot],
        finished: &mut Vec<(usize, Reply)>,
    ) -> Result<(), ReplyError> {
        while !input.is_empty() {
            self.handle_piece(&mut input, slots, finished)?;
        }
        Ok(())
    }

    fn handle_piece(
        &mut self,
        input: &mut &[u8],
        slots: &mut [Slot],
        finished: &mut Vec<(usize, Reply)>,
    ) -> Result<(), ReplyError> {
        match self.stage {
            Stage::Header => {
                let Some(header) = self.gather(input) else { return Ok(()) };
                self.begin_frame(&ResponseHeader::decode(&header)?, slots)?;
            }
            Stage::Text | Stage::Promise => {
                if !self.gather_text(input) {
                    return Ok(());
                }
            }
            Stage::Unsolicited { len } => {
                let Some(start) = self.gather::<DEFERRED_START_LEN>(input) else { return Ok(()) };
                self.begin_frame(&answer_within(&start, len)?, slots)?;
            }
            Stage::StatusBody => {
                let Some(body) = self.gather::<STATUS_BODY_LEN>(input) else { return Ok(()) };
                self.begin_pages(&body, slots)?;
            }
            Stage::Element => {
                let Some(header) = self.gather(input) else { return Ok(()) };
                self.begin_element(&header, slots)?;
            }
            Stage::Checksum => {
                let Some(expected) = self.gather(input) else { return Ok(()) };
                self.begin_page(u32::from_be_bytes(expected), slots)?;
            }
            Stage::Data { .. } => self.compare(input, slots)?,
        }
        self.end_frame_if_complete(slots, finished)
    }

    fn begin_frame(&mut self, header: &ResponseHeader, slots: &[Slot]) -> Result<(), ReplyError> {
        if header.status == Status::ATTN {
            self.stage = Stage::Unsolicited { len: header.body_len };
            return Ok(());
        }
        let index = usize::from(u16::from(header.stream_id));
        let slot = slots.get(index).filter(|slot| slot.step != Step::Idle).ok_or(ReplyError::UnknownStream)?;
        let is_last = header.status != Status::OKSOFAR;
        self.frame = Frame { slot: index, status: header.status, is_last, left: header.body_len };
        self.stage = match (slot.step, header.status) {
            (_, Status::WAITRESP) => Stage::Promise,
            (_, Status::ERROR) | (Step::Open, Status::WAIT) => Stage::Text,
            (Step::Open | Step::Stat | Step::Close, Status::OK) => Stage::Text,
            (Step::Read, Status::OK | Status::OKSOFAR) => data(slot.next_offset(), header.body_len),
            (Step::ReadVector, Status::OK | Status::OKSOFAR) => Stage::Element,
            (Step::PageRead, Status::STATUS) if header.body_len == page::STATUS_BODY_LEN => Stage::StatusBody,
            (step, status) => return Err(ReplyError::UnexpectedStatus { step: step.name(), status }),
        };
        if matches!(self.stage, Stage::Text | Stage::Promise) && header.body_len > TEXT_LEN_MAX {
            return Err(ReplyError::TooLong { step: slot.step.name() });
        }
        Ok(())
    }

    fn begin_pages(&mut self, body: &[u8], slots: &[Slot]) -> Result<(), ReplyError> {
        let slot = self.slot(slots)?;
        let status = StatusFrame::decode((u16::try_from(self.frame.slot).unwrap_or(u16::MAX)).into(), body)?;
        if status.offset != slot.next_offset() {
            return Err(ReplyError::WrongElement { offset: status.offset });
        }
        self.frame.is_last = status.kind == FrameKind::Final;
        self.frame.left = status.data_len;
        self.stage = Stage::Checksum;
        Ok(())
    }

    fn begin_page(&mut self, expected: u32, slots: &[Slot]) -> Result<(), ReplyError> {
        let slot = self.slot(slots)?;
        let too_long = ReplyError::TooLong { step: slot.step.name() };
        self.frame.left = self.frame.left.checked_sub(4).ok_or(too_long)?;
        let page_offset = slot.next_offset();
        let page_len = u32::try_from(PAGE_LEN - page_offset % PAGE_LEN).unwrap_or(0).min(self.frame.left);
        self.stage =
            Stage::Data { offset: page_offset, left: page_len, sum: Some(PageSum { expected, found: 0, page_offset }) };
        Ok(())
    }

    fn begin_element(&mut self, header: &[u8; 16], slots: &[Slot]) -> Result<(), ReplyError> {
        let slot = self.slot(slots)?;
        let element = parse_element_header(header)?;
        let asked = slot.elements.get(slot.elements_done).copied();
        if asked.map(|asked| (asked.offset, asked.len)) != Some((element.offset, element.len)) {
            return Err(ReplyError::WrongElement { offset: element.offset });
        }
        let too_long = ReplyError::TooLong { step: slot.step.name() };
        self.frame.left = self.frame.left.checked_sub(16).filter(|left| *left >= element.len).ok_or(too_long)?;
        self.stage = data(element.offset, element.len);
        Ok(())
    }

    /// Compares what there is of the current range.
    fn compare(&mut self, input: &mut &[u8], slots: &mut [Slot]) -> Result<(), ReplyError> {
        let Stage::Data { offset, left, sum } = &mut self.stage else { return Ok(()) };
        let slot = slots.get_mut(self.frame.slot).ok_or(ReplyError::UnknownStream)?;
        let len = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
        let (bytes, rest) = input.split_at(len);
        *input = rest;
        slot.content.verify(*offset, bytes)?;
        if let Some(sum) = sum {
            sum.found = crc32c::crc32c_append(sum.found, bytes);
        }
        let taken = u32::try_from(len).unwrap_or(*left);
        *offset += u64::from(taken);
        *left -= taken;
        self.frame.left -= taken;
        slot.received_bytes += u64::from(taken);
        match sum {
            Some(sum) if *left == 0 && sum.found != sum.expected => {
                Err(ReplyError::WrongChecksum { offset: sum.page_offset })
            }
            _ if slot.received_bytes > slot.asked_bytes => Err(ReplyError::TooLong { step: slot.step.name() }),
            _ => Ok(()),
        }
    }

    /// Continues with the next part of the frame, or ends the frame and, with its last frame, the answer.
    fn end_frame_if_complete(
        &mut self,
        slots: &mut [Slot],
        finished: &mut Vec<(usize, Reply)>,
    ) -> Result<(), ReplyError> {
        let slot = slots.get_mut(self.frame.slot).ok_or(ReplyError::UnknownStream)?;
        match self.stage {
            Stage::Data { left: 1.., .. } | Stage::StatusBody | Stage::Unsolicited { .. } => return Ok(()),
            Stage::Data { left: 0, .. } => slot.elements_done += 1,
            Stage::Header | Stage::Text | Stage::Promise | Stage::Element | Stage::Checksum => {}
        }
        if self.frame.left > 0 {
            self.stage = match (self.stage, slot.step) {
                (Stage::Data { .. }, Step::ReadVector) => Stage::Element,
                (Stage::Data { .. }, Step::PageRead) => Stage::Checksum,
                (stage, _) => stage,
            };
            return Ok(());
        }
        let ended = std::mem::replace(&mut self.stage, Stage::Header);
        if matches!(ended, Stage::Promise) {
            self.gathered.clear();
        } else if matches!(ended, Stage::Text) {
            let reply = self.text_reply(slot.step)?;
            self.gathered.clear();
            finished.push((self.frame.slot, reply));
        } else if self.frame.is_last {
            slot.check_complete()?;
            finished.push((self.frame.slot, Reply::Data { len: slot.received_bytes }));
        }
        Ok(())
    }

    fn text_reply(&self, step: Step) -> Result<Reply, ReplyError> {
        if self.frame.status == Status::ERROR {
            let ErrorBody { code, text } = ErrorBody::parse(&self.gathered)?;
            return Err(ReplyError::Refused { step: step.name(), code, text });
        }
        if self.frame.status == Status::WAIT {
            return Ok(Reply::PutOff { seconds: Wait::parse(&self.gathered)?.seconds });
        }
        Ok(match step {
            Step::Open => Reply::Opened(OpenReply::parse(&self.gathered)?),
            Step::Stat => Reply::Stat(parse_stat(&self.gathered)?),
            Step::Close | Step::Idle | Step::Read | Step::ReadVector | Step::PageRead => Reply::Closed,
        })
    }

    fn slot<'a>(&self, slots: &'a [Slot]) -> Result<&'a Slot, ReplyError> {
        slots.get(self.frame.slot).ok_or(ReplyError::UnknownStream)
    }

    /// The next `N` bytes once all of them are there.
    fn gather<const N: usize>(&mut self, input: &mut &[u8]) -> Option<[u8; N]> {
        if self.gathered.is_empty()
            && let Some((whole, rest)) = input.split_first_chunk::<N>()
        {
            *input = rest;
            return Some(*whole);
        }
        let (bytes, rest) = input.split_at(input.len().min(N - self.gathered.len()));
        self.gathered.extend_from_slice(bytes);
        *input = rest;
        let whole = self.gathered.first_chunk().copied()?;
        self.gathered.clear();
        Some(whole)
    }

    /// Collects the rest of the frame; whether it is complete.
    fn gather_text(&mut self, input: &mut &[u8]) -> bool {
        let len = input.len().min(usize::try_from(self.frame.left).unwrap_or(usize::MAX));
        let (bytes, rest) = input.split_at(len);
        self.gathered.extend_from_slice(bytes);
        *input = rest;
        self.frame.left -= u32::try_from(len).unwrap_or(self.frame.left);
        self.frame.left == 0
    }
}

/// The header of the answer within an unsolicited message of `len` bytes.
fn answer_within(start: &[u8; DEFERRED_START_LEN], len: u32) -> Result<ResponseHeader, ReplyError> {
    match Attention::parse(start)? {
        Attention::Deferred { header, .. } if matches!(header.status, Status::ATTN | Status::WAITRESP) => {
            Err(ReplyError::UnknownStream)
        }
        Attention::Deferred { header, .. } if header.body_len.checked_add(DEFERRED_PREFIX_LEN) != Some(len) => {
            Err(ReplyError::WrongMessage { message_len: len, answer_len: header.body_len })
        }
        Attention::Deferred { header, .. } => Ok(header),
        Attention::Message(_) | Attention::Other(_) => Err(ReplyError::UnknownStream),
    }
}

const fn data(offset: u64, len: u32) -> Stage {
    Stage::Data { offset, left: len, sum: None }
}

#[cfg(test)]
mod tests;
