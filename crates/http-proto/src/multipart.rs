//! Bodies of several ranges.

use crate::response::push_place;
use forebay_types::ByteRange;

/// The heads of the parts of a body of several ranges.
#[derive(Clone, Debug)]
pub struct PartHeads {
    size: u64,
}

/// The bytes before the place of each part. Only one line break comes before the first boundary: ROOT takes two for the end of a part's
/// head.
const BEFORE_PLACE: &str =
    "\r\n--forebay-byteranges-3b1f8c2e7a\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes ";

/// The bytes after the place of each part.
const AFTER_PLACE: &str = "\r\n\r\n";

impl PartHeads {
    /// The value of `Content-Type`. The boundary has no characters that would need quotes: XrdClHttp does not strip them.
    pub const CONTENT_TYPE: &str = "multipart/byteranges; boundary=forebay-byteranges-3b1f8c2e7a";

    /// The bytes after the last part.
    pub const END: &str = "\r\n--forebay-byteranges-3b1f8c2e7a--\r\n";

    /// The parts of a file of `size` bytes.
    pub const fn new(size: u64) -> Self {
        Self { size }
    }

    /// Appends the bytes before the part of `range` to `text`.
    pub fn push(&self, range: ByteRange, text: &mut String) {
        text.push_str(BEFORE_PLACE);
        push_place(range, self.size, text);
        text.push_str(AFTER_PLACE);
    }

    /// The number of bytes before the part of `range`.
    pub fn len(&self, range: ByteRange) -> u64 {
        let numbers = [range.start(), range.end().saturating_sub(1), self.size];
        let digits: u64 = numbers.iter().map(|number| u64::from(number.checked_ilog10().unwrap_or(0)) + 1).sum();
        (BEFORE_PLACE.len() + "-/".len() + AFTER_PLACE.len()) as u64 + digits
    }

    /// The length of the whole body; `None` if it exceeds 64 bits.
    pub fn body_len(&self, ranges: &[ByteRange]) -> Option<u64> {
        ranges
            .iter()
            .try_fold(Self::END.len() as u64, |len, range| len.checked_add(range.len())?.checked_add(self.len(*range)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_the_announced_length_and_each_part_its_range() {
        let ranges = [ByteRange::at(90, 10), ByteRange::at(0, 1)];
        let parts = PartHeads::new(100);
        let mut body = String::new();
        for range in ranges {
            let start = body.len();
            parts.push(range, &mut body);
            assert_eq!(parts.len(range), (body.len() - start) as u64);
            body.push_str(&"x".repeat(usize::try_from(range.len()).unwrap()));
        }
        body.push_str(PartHeads::END);
        assert_eq!(parts.body_len(&ranges), Some(body.len() as u64));
        assert!(body.contains("Content-Range: bytes 90-99/100\r\n\r\nxxxxxxxxxx\r\n--"));
        assert!(body.contains("Content-Range: bytes 0-0/100\r\n\r\nx\r\n--"));
        assert_eq!(parts.body_len(&[ByteRange::at(0, u64::MAX)]), None);
    }
}
