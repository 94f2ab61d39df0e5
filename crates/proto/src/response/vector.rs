//! The elements in the answer to a vector read.

use super::ResponseError;
use crate::header::{FileHandle, take_element};
use crate::request::ReadElement;
use crate::wire::{Reader, unsigned32, unsigned64};

const WHAT: &str = "answer to a vector read";

/// The header of an element in its wire form. Its data follows it within the same frame.
pub const fn element_header(element: &ReadElement) -> [u8; 16] {
    let FileHandle([h0, h1, h2, h3]) = element.handle;
    let [l0, l1, l2, l3] = element.len.to_be_bytes();
    let [o0, o1, o2, o3, o4, o5, o6, o7] = element.offset.to_be_bytes();
    [h0, h1, h2, h3, l0, l1, l2, l3, o0, o1, o2, o3, o4, o5, o6, o7]
}

/// Parses the header of an element, for a client that reads the data after it as it comes.
///
/// # Errors
/// When the length or the offset is negative.
pub fn parse_element_header(bytes: &[u8; 16]) -> Result<ReadElement, ResponseError> {
    take(&mut Reader::new(bytes))
}

fn take(reader: &mut Reader<'_>) -> Result<ReadElement, ResponseError> {
    let (handle, len, offset) = take_element(reader).ok_or(ResponseError::Truncated { what: WHAT })?;
    let (Some(len), Some(offset)) = (unsigned32(len), unsigned64(offset)) else {
        return Err(ResponseError::Malformed { what: WHAT });
    };
    Ok(ReadElement { handle, offset, len })
}

/// The elements of one frame, each with its data, in the server's order. Ends after the first error.
#[derive(Clone, Debug)]
pub struct VectorData<'a> {
    rest: Reader<'a>,
}

impl<'a> VectorData<'a> {
    pub const fn new(body: &'a [u8]) -> Self {
        Self { rest: Reader::new(body) }
    }

    fn take(&mut self) -> Result<(ReadElement, &'a [u8]), ResponseError> {
        let element = take(&mut self.rest)?;
        let len = usize::try_from(element.len).map_err(|_| ResponseError::TooLong { what: WHAT })?;
        let data = self.rest.bytes(len).ok_or(ResponseError::Truncated { what: WHAT })?;
        Ok((element, data))
    }
}

impl<'a> Iterator for VectorData<'a> {
    type Item = Result<(ReadElement, &'a [u8]), ResponseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.rest().is_empty() {
            return None;
        }
        let item = self.take();
        if item.is_err() {
            self.rest = Reader::new(&[]);
        }
        Some(item)
    }
}
