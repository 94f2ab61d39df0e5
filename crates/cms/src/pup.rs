//! The packing of values in frames ("pup"): a tag and a big-endian number, or a length and a text with its final NUL.

use bytes::{Buf, BufMut, BytesMut};

const SHORT: u8 = 0x80;
const INT: u8 = 0xa0;
const INLINE_INT: u8 = 0xb0;

/// Bits of the value in the first byte of an inline number.
const INLINE_BITS: u8 = 0x0f;

/// Writes values in order.
#[derive(Debug, Default)]
pub(crate) struct Packer(BytesMut);

/// Reads values in order. Every method returns `None` if the next value is of another kind or incomplete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unpacker<'a>(&'a [u8]);

impl Packer {
    pub(crate) fn short(&mut self, value: u16) -> &mut Self {
        self.0.put_u8(SHORT);
        self.0.put_u16(value);
        self
    }

    pub(crate) fn int(&mut self, value: u32) -> &mut Self {
        self.0.put_u8(INT);
        self.0.put_u32(value);
        self
    }

    /// An empty text is written as an absent one. One that is too long for its length field, too.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        match text.len().checked_add(1).and_then(|len| u16::try_from(len).ok()) {
            Some(len) if !text.is_empty() => {
                self.0.put_u16(len);
                self.0.put_slice(text.as_bytes());
                self.0.put_u8(0);
            }
            _ => self.0.put_u16(0),
        }
        self
    }

    /// The load of a server: preceded by its length, without a NUL.
    pub(crate) fn percents(&mut self, percents: [u8; 6]) -> &mut Self {
        self.0.put_u16(6);
        self.0.put_slice(&percents);
        self
    }

    pub(crate) fn finish(&mut self) -> bytes::Bytes {
        std::mem::take(&mut self.0).freeze()
    }
}

impl<'a> Unpacker<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(crate) fn short(&mut self) -> Option<u16> {
        let (&tag, mut rest) = self.0.split_first()?;
        if tag != SHORT {
            return None;
        }
        let value = rest.try_get_u16().ok()?;
        self.0 = rest;
        Some(value)
    }

    /// Managers send small numbers in four bytes, without a tag of their own.
    pub(crate) fn int(&mut self) -> Option<u32> {
        let (&tag, mut rest) = self.0.split_first()?;
        if tag == INT {
            let value = rest.try_get_u32().ok()?;
            self.0 = rest;
            return Some(value);
        }
        if tag & !INLINE_BITS != INLINE_INT {
            return None;
        }
        let mut all = self.0;
        let value = all.try_get_u32().ok()?;
        self.0 = all;
        Some(value & 0x0fff_ffff)
    }

    /// A text without its NUL; empty if it is absent.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let mut rest = self.0;
        let len = usize::from(rest.try_get_u16().ok()?);
        let (text, rest) = rest.split_at_checked(len)?;
        let text = std::str::from_utf8(text.strip_suffix(b"\0").unwrap_or(text)).ok()?;
        self.0 = rest;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_managers_are_read_in_both_forms() {
        assert_eq!(Unpacker::new(&[0xb0, 0x00, 0x99, 0xdb]).int(), Some(39_387));
        assert_eq!(Unpacker::new(&[0xa0, 0xff, 0, 0, 1]).int(), Some(0xff00_0001));
        assert_eq!(Unpacker::new(&[0x80, 0x71, 0xcb]).short(), Some(29_131));
        for incomplete in [&[][..], &[0xb0, 0, 0], &[0xa0, 0, 0, 0], &[0xc0, 0, 0, 0, 0]] {
            assert_eq!(Unpacker::new(incomplete).int(), None, "{incomplete:?}");
        }
    }

    #[test]
    fn texts_have_a_length_with_their_nul() {
        let packed = Packer::default().text("a").text("").finish();
        assert_eq!(&packed[..], [0, 2, b'a', 0, 0, 0]);
        let mut unpacker = Unpacker::new(&packed);
        assert_eq!([unpacker.text(), unpacker.text(), unpacker.text()], [Some("a"), Some(""), None]);
        assert_eq!(Unpacker::new(&[0, 3, b'a', 0]).text(), None, "longer than the data");
        assert_eq!(&Packer::default().text(&"x".repeat(65_535)).finish()[..], [0, 0]);
    }
}
