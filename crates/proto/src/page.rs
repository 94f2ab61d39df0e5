//! Pages with checksums: how a range is cut at page boundaries, and the frames that carry pages.
//!
//! A page covers the bytes of a file between two multiples of 4096. On the wire each page is preceded by the CRC-32C of
//! its data. The first and last page of a range may be short.

use crate::code::{RequestCode, Status};
use crate::header::{ResponseHeader, StreamId};
use crate::limits::PAGE_FRAME_PAGES_MAX;
use crate::response::ResponseError;
use crate::wire::{Reader, unsigned32, unsigned64};
use forebay_types::ByteRange;

/// Bytes of a page, the unit of checksums on the wire.
pub const PAGE_LEN: u64 = 4096;

/// Bytes of the checksum before each page.
pub const CHECKSUM_LEN: u64 = 4;

/// Bytes of a page frame's body: checksum, kind and offset. The pages come on top of it.
pub const STATUS_BODY_LEN: u32 = 24;

/// Bytes of a page frame before its pages: header and body.
pub const STATUS_FRAME_LEN: usize = 32;

/// Cuts `range` at page boundaries.
pub fn pages(range: ByteRange) -> impl Iterator<Item = ByteRange> {
    range.cut_at_multiples(PAGE_LEN)
}

/// Cuts `range` into the parts that each go into one frame: all but the first begin at a page boundary.
pub fn frames(range: ByteRange) -> impl Iterator<Item = ByteRange> {
    range.cut_at_multiples(PAGE_LEN * u64::from(PAGE_FRAME_PAGES_MAX))
}

/// Number of pages that hold bytes of `range`.
pub const fn page_count(range: ByteRange) -> u64 {
    if range.is_empty() { 0 } else { (range.end() - 1) / PAGE_LEN - range.start() / PAGE_LEN + 1 }
}

/// Bytes of `range` on the wire: data and checksums. `range` is shorter than 2^63.
pub const fn encoded_len(range: ByteRange) -> u64 {
    range.len() + CHECKSUM_LEN * page_count(range)
}

/// Bytes of data in `encoded_len` bytes of pages that begin at file offset `offset`; `None` when the last page would
/// be empty or cut off within its checksum.
pub const fn data_len(offset: u64, encoded_len: u64) -> Option<u64> {
    if encoded_len == 0 {
        return Some(0);
    }
    let first_len = PAGE_LEN - offset % PAGE_LEN;
    let Some(rest) = encoded_len.checked_sub(CHECKSUM_LEN + first_len) else {
        return if encoded_len > CHECKSUM_LEN { Some(encoded_len - CHECKSUM_LEN) } else { None };
    };
    let whole = rest / (CHECKSUM_LEN + PAGE_LEN);
    match rest % (CHECKSUM_LEN + PAGE_LEN) {
        0 => Some(first_len + whole * PAGE_LEN),
        tail if tail > CHECKSUM_LEN => Some(first_len + whole * PAGE_LEN + tail - CHECKSUM_LEN),
        _ => None,
    }
}

/// The CRC-32C of `data`, as the protocol defines it for pages.
pub fn crc32c(data: &[u8]) -> u32 {
    crc32c::crc32c(data)
}

/// Appends `data`, which lies at file offset `offset`, as pages with checksums.
pub fn encode_pages(offset: u64, mut data: &[u8], out: &mut Vec<u8>) {
    for page in pages(ByteRange::at(offset, data.len() as u64)) {
        let Some((page_data, rest)) = usize::try_from(page.len()).ok().and_then(|len| data.split_at_checked(len))
        else {
            return;
        };
        out.extend_from_slice(&crc32c(page_data).to_be_bytes());
        out.extend_from_slice(page_data);
        data = rest;
    }
}

/// Fills in the checksums of `encoded` pages that begin at file offset `offset`: the data is in place, each checksum a
/// gap of four bytes before it. A gap without data at the end is left alone.
pub fn seal_pages(offset: u64, mut encoded: &mut [u8]) {
    let mut page_len = first_page_len(offset);
    while let Some((checksum, rest)) = encoded.split_first_chunk_mut() {
        let (data, next) = rest.split_at_mut(page_len.min(rest.len()));
        if data.is_empty() {
            return;
        }
        *checksum = crc32c(data).to_be_bytes();
        encoded = next;
        page_len = WHOLE_PAGE;
    }
}

const WHOLE_PAGE: usize = 4096;

fn first_page_len(offset: u64) -> usize {
    usize::try_from(PAGE_LEN - offset % PAGE_LEN).unwrap_or(WHOLE_PAGE)
}

/// A page as received.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Page<'a> {
    /// Offset of its first byte in the file.
    pub offset: u64,
    pub data: &'a [u8],
    /// Whether the data matches the checksum that came with it.
    pub is_intact: bool,
}

/// The pages of `encoded`, which begin at file offset `offset`. The checksums are verified as the iterator goes.
///
/// # Errors
/// When the last page is empty or cut off within its checksum.
pub fn decode_pages(offset: u64, encoded: &[u8]) -> Result<impl Iterator<Item = Page<'_>>, ResponseError> {
    data_len(offset, encoded.len() as u64).ok_or(ResponseError::Malformed { what: "list of pages" })?;
    let (mut offset, mut rest) = (offset, encoded);
    Ok(std::iter::from_fn(move || {
        let (checksum, pages) = rest.split_first_chunk()?;
        let (data, next) = pages.split_at(first_page_len(offset).min(pages.len()));
        let page = Page { offset, data, is_intact: crc32c(data) == u32::from_be_bytes(*checksum) };
        offset = offset.saturating_add(data.len() as u64);
        rest = next;
        Some(page)
    }))
}

/// Whether more frames follow a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FrameKind {
    Final,
    Partial,
}

/// A response with its own checksum, as page reads and page writes are answered. The data follows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StatusFrame {
    pub stream_id: StreamId,
    /// The code of that request; from 3000 to 3255.
    pub request: RequestCode,
    pub kind: FrameKind,
    /// Offset in the file of the first byte of data; below 2^63.
    pub offset: u64,
    /// Bytes of data after the frame, with checksums; below 2^31.
    pub data_len: u32,
}

impl StatusFrame {
    /// The frame before the pages of `range`, which is no longer than [`frames`] cuts it.
    pub fn page_read(stream_id: StreamId, kind: FrameKind, range: ByteRange) -> Self {
        let data_len = u32::try_from(encoded_len(range)).unwrap_or(u32::MAX);
        Self { stream_id, request: RequestCode::PGREAD, kind, offset: range.start(), data_len }
    }

    /// The frame in its wire form, for a caller that builds it without a buffer.
    pub fn to_bytes(&self) -> [u8; STATUS_FRAME_LEN] {
        let header = ResponseHeader { stream_id: self.stream_id, status: Status::STATUS, body_len: STATUS_BODY_LEN };
        let [id0, id1] = self.stream_id.0;
        let [_, request] = self.request.0.wrapping_sub(RequestCode::AUTH.0).to_be_bytes();
        let kind = match self.kind {
            FrameKind::Final => FINAL,
            FrameKind::Partial => PARTIAL,
        };
        let [len0, len1, len2, len3] = self.data_len.to_be_bytes();
        let [at0, at1, at2, at3, at4, at5, at6, at7] = self.offset.to_be_bytes();
        let covered =
            [id0, id1, request, kind, 0, 0, 0, 0, len0, len1, len2, len3, at0, at1, at2, at3, at4, at5, at6, at7];
        let mut frame = [0; STATUS_FRAME_LEN];
        let parts = header.to_bytes().into_iter().chain(crc32c(&covered).to_be_bytes()).chain(covered);
        for (to, from) in frame.iter_mut().zip(parts) {
            *to = from;
        }
        frame
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }

    /// Decodes the body of a response with status [`Status::STATUS`].
    ///
    /// # Errors
    /// When the body is cut off, its checksum or stream id is wrong, or a number is out of range: then the connection
    /// cannot be trusted any more.
    pub fn decode(stream_id: StreamId, body: &[u8]) -> Result<Self, ResponseError> {
        const WHAT: &str = "status response";
        let mut reader = Reader::new(body);
        let checksum = reader.u32().ok_or(ResponseError::Truncated { what: WHAT })?;
        if crc32c(reader.rest()) != checksum {
            return Err(ResponseError::ChecksumMismatch { what: WHAT });
        }
        let fields = (reader.array(), reader.u8(), reader.u8(), reader.u32(), reader.u32(), reader.u64());
        let (Some(inner_id), Some(request), Some(kind), Some(_), Some(data_len), Some(offset)) = fields else {
            return Err(ResponseError::Truncated { what: WHAT });
        };
        let kind = match kind {
            FINAL => FrameKind::Final,
            PARTIAL => FrameKind::Partial,
            _ => return Err(ResponseError::Malformed { what: WHAT }),
        };
        let (Some(data_len), Some(offset)) = (unsigned32(data_len), unsigned64(offset)) else {
            return Err(ResponseError::Malformed { what: WHAT });
        };
        if inner_id != stream_id.0 {
            return Err(ResponseError::Malformed { what: WHAT });
        }
        let request = RequestCode(RequestCode::AUTH.0 + u16::from(request));
        Ok(Self { stream_id, request, kind, offset, data_len })
    }
}

const FINAL: u8 = 0;
const PARTIAL: u8 = 1;
