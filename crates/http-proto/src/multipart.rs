//! Bodies of several ranges.

use forebay_types::ByteRange;

/// The heads of the parts of a body of several ranges.
#[derive(Clone, Debug)]
pub struct PartHeads {
    size: u64,
}

/// Separates the parts. Without characters that would need quotes: XrdClHttp does not strip them.
const BOUNDARY: &str = "forebay-byteranges-3b1f8c2e7a";

impl PartHeads {
    /// The parts of a file of `size` bytes.
    pub const fn new(size: u64) -> Self {
        Self { size }
    }

    /// The value of `Content-Type`.
    pub fn content_type() -> String {
        format!("multipart/byteranges; boundary={BOUNDARY}")
    }

    /// The bytes before the part of `range`. Only one line break comes before the first boundary: ROOT takes two for the end of a
    /// part's head.
    pub fn head(&self, range: ByteRange) -> String {
        let last = range.end().saturating_sub(1);
        format!(
            "\r\n--{BOUNDARY}\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes {}-{last}/{}\r\n\r\n",
            range.start(),
            self.size
        )
    }

    /// The bytes after the last part.
    pub fn end() -> String {
        format!("\r\n--{BOUNDARY}--\r\n")
    }

    /// The length of the whole body; `None` if it exceeds 64 bits.
    pub fn body_len(&self, ranges: &[ByteRange]) -> Option<u64> {
        let end = Self::end().len() as u64;
        ranges
            .iter()
            .try_fold(end, |len, range| len.checked_add(range.len())?.checked_add(self.head(*range).len() as u64))
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
            body.push_str(&parts.head(range));
            body.push_str(&"x".repeat(usize::try_from(range.len()).unwrap()));
        }
        body.push_str(&PartHeads::end());
        assert_eq!(parts.body_len(&ranges), Some(body.len() as u64));
        assert!(body.contains("Content-Range: bytes 90-99/100\r\n\r\nxxxxxxxxxx\r\n--"));
        assert!(body.contains("Content-Range: bytes 0-0/100\r\n\r\nx\r\n--"));
        assert_eq!(parts.body_len(&[ByteRange::at(0, u64::MAX)]), None);
    }
}
