//! Reads integers and strings from bytes, in both byte orders.

use crate::Refusal;

/// A position in bytes. Reading beyond their end is damage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

const SHORT: Refusal = Refusal::Damaged("a record ends early");

/// Methods that read an integer of a type in one of the byte orders.
macro_rules! integers {
    ($($name:ident $kind:ident $from:ident)*) => {$(
        pub(crate) fn $name(&mut self) -> Result<$kind, Refusal> {
            self.array().map($kind::$from)
        }
    )*};
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    integers! {
        u8 u8 from_be_bytes
        u16 u16 from_be_bytes
        u32 u32 from_be_bytes
        u64 u64 from_be_bytes
        i32 i32 from_be_bytes
        i64 i64 from_be_bytes
        u32_le u32 from_le_bytes
        u64_le u64 from_le_bytes
        i32_le i32 from_le_bytes
        i64_le i64 from_le_bytes
    }

    pub(crate) const fn position(&self) -> usize {
        self.at
    }

    /// Bytes behind the position.
    pub(crate) const fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Goes to `position`, forwards only: so every loop over frames and objects ends.
    pub(crate) fn go_to(&mut self, position: usize) -> Result<(), Refusal> {
        if position < self.at || position > self.bytes.len() {
            return Err(Refusal::Damaged("an object has a wrong length"));
        }
        self.at = position;
        Ok(())
    }

    pub(crate) fn skip(&mut self, len: usize) -> Result<(), Refusal> {
        self.take(len).map(|_| ())
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Refusal> {
        let end = self.at.checked_add(len).ok_or(SHORT)?;
        let taken = self.bytes.get(self.at..end).ok_or(SHORT)?;
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| SHORT)
    }

    /// A `TString`: a length byte, or 255 and a length of four bytes.
    pub(crate) fn string(&mut self) -> Result<&'a [u8], Refusal> {
        let len = match self.u8()? {
            u8::MAX => self.u32()? as usize,
            len => usize::from(len),
        };
        self.take(len)
    }

    /// A string of an `RNTuple`: a length of four bytes.
    pub(crate) fn string_le(&mut self) -> Result<&'a [u8], Refusal> {
        let len = self.u32_le()? as usize;
        self.take(len)
    }

    /// A string that ends with a zero byte.
    pub(crate) fn zero_terminated(&mut self) -> Result<&'a [u8], Refusal> {
        let rest = self.bytes.get(self.at..).ok_or(SHORT)?;
        let len = rest.iter().position(|&byte| byte == 0).ok_or(SHORT)?;
        let text = self.take(len)?;
        self.skip(1)?;
        Ok(text)
    }

    /// A position or length in the file of four bytes, or of eight in big files.
    pub(crate) fn seek(&mut self, is_big: bool) -> Result<u64, Refusal> {
        if is_big { self.u64() } else { self.u32().map(u64::from) }
    }
}

/// A signed count from a file.
pub(crate) fn count(value: i32) -> Result<usize, Refusal> {
    usize::try_from(value).map_err(|_| Refusal::Damaged("a negative count"))
}

/// A signed position or length from a file.
pub(crate) fn unsigned(value: i64) -> Result<u64, Refusal> {
    u64::try_from(value).map_err(|_| Refusal::Damaged("a negative position or length"))
}
