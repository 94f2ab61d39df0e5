//! Requests that read: ranges, vectors of ranges, pages with checksums.

use super::encode_header;
use super::layout::{Args, Body, Field, Parts, RequestError};
use crate::code::{ErrorCode, RequestCode};
use crate::header::{FileHandle, Params, StreamId, take_element};
use crate::limits::{PREREADS_MAX, VECTOR_ELEMENT_LEN_MAX, VECTOR_ELEMENTS_MAX, VECTOR_LEN_MAX};
use crate::wire::{Reader, unsigned32, unsigned64};

/// Length of the header of an element of a vector read, in requests and responses.
pub(crate) const ELEMENT_LEN: usize = 16;

const NEGATIVE_LENGTH: RequestError = RequestError::invalid("length is negative");
const NEGATIVE_OFFSET: RequestError = RequestError::invalid("offset is negative");

/// Handle, offset and length at the front of the parameters of read and page read.
fn decode_range(params: &Params) -> Result<(FileHandle, u64, u32), RequestError> {
    let offset = unsigned64(Field::take::<4>(params)).ok_or(NEGATIVE_OFFSET)?;
    let len = unsigned32(Field::take::<12>(params)).ok_or(NEGATIVE_LENGTH)?;
    Ok((Field::take::<0>(params), offset, len))
}

fn encode_range(handle: FileHandle, offset: u64, len: u32) -> Params {
    len.put::<12>(offset.put::<4>(handle.put::<0>(Params::default())))
}

/// Reads a range of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Read<'a> {
    pub handle: FileHandle,
    /// Offset of the first byte; below 2^63.
    pub offset: u64,
    /// Number of bytes; below 2^31.
    pub len: u32,
    /// The stream that is to carry the answer; 0 is the main connection.
    pub path_id: u8,
    pub prereads: Prereads<'a>,
}

impl<'a> Body<'a> for Read<'a> {
    fn decode(params: &Params, payload: &'a [u8]) -> Result<Self, RequestError> {
        let (handle, offset, len) = decode_range(params)?;
        let path_id = payload.first().copied().unwrap_or(0);
        let prereads = Prereads::parse(payload.get(8..).unwrap_or_default())?;
        Ok(Self { handle, offset, len, path_id, prereads })
    }

    fn to_parts(self) -> Parts<'a> {
        Parts {
            params: encode_range(self.handle, self.offset, self.len),
            args: Args::Read([self.path_id, 0, 0, 0, 0, 0, 0, 0]),
            payload: self.prereads.items,
        }
    }
}

/// The hints after a read, in wire form. They get no answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Prereads<'a> {
    items: &'a [u8],
}

impl<'a> Prereads<'a> {
    fn parse(items: &'a [u8]) -> Result<Self, RequestError> {
        if !items.len().is_multiple_of(ELEMENT_LEN) {
            return Err(RequestError::invalid("list of pre-reads is not a multiple of 16 bytes"));
        }
        if items.len() / ELEMENT_LEN > PREREADS_MAX as usize {
            return Err(RequestError::new(ErrorCode::ARG_TOO_LONG, "list of pre-reads is too long"));
        }
        Ok(Self { items })
    }

    /// The hints; their offsets and lengths are not checked.
    pub fn iter(&self) -> impl Iterator<Item = ReadElement> + use<'a> {
        elements(self.items)
    }
}

fn elements(bytes: &[u8]) -> impl Iterator<Item = ReadElement> {
    let mut reader = Reader::new(bytes);
    let next = move || take_element(&mut reader);
    std::iter::from_fn(next).map(|(handle, len, offset)| ReadElement { handle, offset, len })
}

/// Reads several ranges, of one or several files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReadVector<'a> {
    /// The stream that is to carry the answer; 0 is the main connection.
    pub path_id: u8,
    /// The ranges, at least one.
    pub elements: ReadElements<'a>,
}

/// One range of a vector read.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ReadElement {
    pub handle: FileHandle,
    /// Offset of the first byte; below 2^63.
    pub offset: u64,
    /// Number of bytes, may be 0.
    pub len: u32,
}

/// The ranges of a vector read in wire form, checked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReadElements<'a> {
    bytes: &'a [u8],
    data_len: u64,
}

impl<'a> ReadElements<'a> {
    /// Checks the payload of a vector read.
    ///
    /// # Errors
    /// `ArgInvalid` for an empty or ragged list and negative numbers, `ArgTooLong` for too many elements, `NoMemory`
    /// for an element that is too long, `ArgInvalid` for an answer beyond 2 GiB.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RequestError> {
        if bytes.is_empty() || !bytes.len().is_multiple_of(ELEMENT_LEN) {
            return Err(RequestError::invalid("read vector is empty or not a multiple of 16 bytes"));
        }
        if bytes.len() / ELEMENT_LEN > VECTOR_ELEMENTS_MAX as usize {
            return Err(RequestError::new(ErrorCode::ARG_TOO_LONG, "read vector is too long"));
        }
        let mut data_len = 0;
        for ReadElement { len, offset, .. } in elements(bytes) {
            let len = unsigned32(len).ok_or(NEGATIVE_LENGTH)?;
            unsigned64(offset).ok_or(NEGATIVE_OFFSET)?;
            if len > VECTOR_ELEMENT_LEN_MAX {
                return Err(RequestError::new(ErrorCode::NO_MEMORY, "element of the read vector is too long"));
            }
            data_len += u64::from(len);
        }
        let elements = Self { bytes, data_len };
        if elements.body_len() > VECTOR_LEN_MAX {
            return Err(RequestError::invalid("read vector asks for more than 2 GiB"));
        }
        Ok(elements)
    }

    pub fn iter(&self) -> impl Iterator<Item = ReadElement> + use<'a> {
        elements(self.bytes)
    }

    /// Number of ranges, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a read vector is never empty")]
    pub const fn len(&self) -> usize {
        self.bytes.len() / ELEMENT_LEN
    }

    /// Bytes of all ranges together.
    pub const fn data_len(&self) -> u64 {
        self.data_len
    }

    /// Bytes of the answer's body in one frame: the ranges and their headers.
    pub const fn body_len(&self) -> u64 {
        self.data_len + self.bytes.len() as u64
    }
}

impl<'a> Body<'a> for ReadVector<'a> {
    fn decode(params: &Params, payload: &'a [u8]) -> Result<Self, RequestError> {
        Ok(Self { path_id: Field::take::<15>(params), elements: ReadElements::parse(payload)? })
    }

    fn to_parts(self) -> Parts<'a> {
        Parts::new(self.path_id.put::<15>(Params::default()), self.elements.bytes)
    }
}

/// Appends a vector read of `elements`. The caller keeps the limits of the server and sends no element twice: some
/// clients cannot distinguish two answers to equal elements, and no server has to.
///
/// # Panics
/// When there are more than 2^27 elements, which no caller can have meant to send.
pub fn encode_read_vector(stream_id: StreamId, path_id: u8, elements: &[ReadElement], out: &mut Vec<u8>) {
    let params = path_id.put::<15>(Params::default());
    encode_header(stream_id, RequestCode::READV, params, elements.len() * ELEMENT_LEN, out);
    for element in elements {
        out.extend_from_slice(&element.handle.0);
        out.extend_from_slice(&element.len.to_be_bytes());
        out.extend_from_slice(&element.offset.to_be_bytes());
    }
}

/// Reads pages with checksums.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PageRead {
    pub handle: FileHandle,
    /// Offset of the first byte; below 2^63, need not be the start of a page.
    pub offset: u64,
    /// Number of bytes of data, without checksums; from 1 to below 2^31.
    pub len: u32,
    /// The stream that is to carry the answer; 0 is the main connection.
    pub path_id: u8,
    /// Whether an earlier answer had a wrong checksum: verify against storage, bypass caches.
    pub retry: bool,
}

impl PageRead {
    const RETRY: u8 = 0x01;
}

impl<'a> Body<'a> for PageRead {
    fn decode(params: &Params, payload: &'a [u8]) -> Result<Self, RequestError> {
        let (handle, offset, len) = decode_range(params)?;
        if len == 0 {
            return Err(RequestError::invalid("page read of no bytes"));
        }
        let mut args = payload.iter().copied();
        let path_id = args.next().unwrap_or(0);
        let retry = args.next().unwrap_or(0) & Self::RETRY != 0;
        Ok(Self { handle, offset, len, path_id, retry })
    }

    fn to_parts(self) -> Parts<'a> {
        Parts {
            params: encode_range(self.handle, self.offset, self.len),
            args: Args::PageRead([self.path_id, if self.retry { Self::RETRY } else { 0 }]),
            payload: &[],
        }
    }
}
