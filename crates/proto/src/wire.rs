//! Taking fixed-width big-endian fields off received bytes.

/// Takes fields off the front of received bytes; every method answers `None` once the bytes are used up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes that have not been taken yet.
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*field)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(field)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
}

/// A length or offset that the wire carries as a signed number; `None` when it is negative.
pub(crate) const fn unsigned32(bits: u32) -> Option<u32> {
    if bits >> 31 == 0 { Some(bits) } else { None }
}

pub(crate) const fn unsigned64(bits: u64) -> Option<u64> {
    if bits >> 63 == 0 { Some(bits) } else { None }
}

/// Text up to its first NUL: peers end texts with none, one, or (padding) several.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    use std::io::Write;
    out.write_fmt(text).expect("writing to memory does not fail");
}

/// Appends a number in decimal. Stat texts consist of numbers, and the formatter takes ten times as long.
pub(crate) fn put_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let (mut left, mut count) = (number, 0);
    for place in digits.iter_mut().rev() {
        *place = b'0' + u8::try_from(left % 10).unwrap_or(0);
        (left, count) = (left / 10, count + 1);
        if left == 0 {
            break;
        }
    }
    let unused = digits.len() - count;
    out.extend(digits.iter().skip(unused));
}

/// Text that a peer sent, up to its first NUL; bytes that are not UTF-8 are replaced.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(until_nul(bytes)).into_owned()
}
