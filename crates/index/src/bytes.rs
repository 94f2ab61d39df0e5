//! Fields of fixed width, one after the other, with a CRC32C at the end: how everything in the index is encoded.
//!
//! All integers are little-endian.

use crate::IndexError;

pub(crate) const SEAL_LEN: usize = 4;

#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

/// Takes fields off the front.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl Writer {
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.bytes(&value.to_le_bytes());
    }

    /// A text after its length.
    ///
    /// # Panics
    /// When it is longer than 65535 bytes: texts are checked before.
    pub(crate) fn text(&mut self, text: &str) {
        self.u16(u16::try_from(text.len()).expect("texts of a record are short"));
        self.bytes(text.as_bytes());
    }

    pub(crate) fn seal(mut self) -> Vec<u8> {
        let sum = crc32c::crc32c(&self.bytes);
        self.u32(sum);
        self.bytes
    }
}

impl<'a> Reader<'a> {
    /// Reads what [`Writer::seal`] made; `what` names it in errors.
    pub(crate) fn unseal(sealed: &'a [u8], what: &'static str) -> Result<Self, IndexError> {
        let split = sealed.len().checked_sub(SEAL_LEN).and_then(|at| sealed.split_at_checked(at));
        let (rest, seal) = split.ok_or(IndexError::Damaged { what })?;
        if crc32c::crc32c(rest).to_le_bytes() != seal {
            return Err(IndexError::Damaged { what });
        }
        Ok(Self { rest, what })
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], IndexError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.damaged())?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], IndexError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, IndexError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, IndexError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, IndexError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, IndexError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, IndexError> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn text(&mut self) -> Result<String, IndexError> {
        let len = usize::from(self.u16()?);
        let bytes = self.bytes(len)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| self.damaged())
    }

    pub(crate) fn end(self) -> Result<(), IndexError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.damaged()) }
    }

    pub(crate) const fn damaged(&self) -> IndexError {
        IndexError::Damaged { what: self.what }
    }
}
