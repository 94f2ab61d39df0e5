//! Bodies of type `multipart/byteranges` (RFC 9110, 14.6).

use super::content_range::ContentRange;
use bytes::{Buf as _, Bytes};
use forebay_types::ByteRange;

/// Longest head of a part in bytes, with the line in front of it.
const HEAD_LEN_MAX: usize = 4096;

/// Longest boundary in bytes (RFC 2046, 5.1.1).
const BOUNDARY_LEN_MAX: usize = 70;

const HEAD_END: &[u8] = b"\r\n\r\n";

/// The parts of a body, in the order in which it has them.
#[derive(Debug)]
pub(crate) struct Parts {
    delimiter: String,
    file_size: u64,
    /// Bytes since the last part.
    head: Vec<u8>,
    /// The bytes of the part that have not come yet.
    rest: ByteRange,
}

impl Parts {
    /// The parts of an answer with this `Content-Type`; `None` if it has none.
    pub(crate) fn of(content_type: &str, file_size: u64) -> Option<Self> {
        let (kind, parameters) = content_type.split_once(';')?;
        if !kind.trim().eq_ignore_ascii_case("multipart/byteranges") {
            return None;
        }
        let named = |parameter: &'_ str| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"').to_owned())
        };
        let boundary = parameters.split(';').find_map(named)?;
        let is_usable = !boundary.is_empty() && boundary.len() <= BOUNDARY_LEN_MAX;
        let (head, rest) = (Vec::new(), ByteRange::default());
        is_usable.then(|| Self { delimiter: format!("--{boundary}"), file_size, head, rest })
    }

    /// Takes the next bytes of a part from `input`, with their offset in the file; `None` when `input` is used up.
    ///
    /// # Errors
    /// Says what is wrong with the body.
    pub(crate) fn next(&mut self, input: &mut Bytes) -> Result<Option<(u64, Bytes)>, &'static str> {
        while !input.is_empty() {
            if self.rest.is_empty() {
                self.read_head(input)?;
                continue;
            }
            let offset = self.rest.start();
            let left = usize::try_from(self.rest.len()).unwrap_or(usize::MAX);
            let bytes = input.split_to(left.min(input.len()));
            self.rest = ByteRange::between(offset + bytes.len() as u64, self.rest.end());
            return Ok(Some((offset, bytes)));
        }
        Ok(None)
    }

    fn read_head(&mut self, input: &mut Bytes) -> Result<(), &'static str> {
        let known_len = self.head.len();
        let taken = input.len().min(HEAD_LEN_MAX - known_len);
        self.head.extend_from_slice(input.get(..taken).unwrap_or_default());
        let Some(end) = self.head.windows(HEAD_END.len()).position(|bytes| bytes == HEAD_END) else {
            input.advance(taken);
            return if self.head.len() < HEAD_LEN_MAX { Ok(()) } else { Err("the head of a part is too long") };
        };
        input.advance(end + HEAD_END.len() - known_len);
        let head = std::mem::take(&mut self.head);
        let head =
            std::str::from_utf8(head.get(..end).unwrap_or_default()).map_err(|_| "the head of a part is not text")?;
        if head.trim().is_empty() {
            return Ok(());
        }
        let fields =
            head.trim_start().strip_prefix(&self.delimiter).ok_or("a part does not begin with the boundary")?;
        let ContentRange { range, size } = content_range(fields).ok_or("a part does not state its range")?;
        if size.is_some_and(|size| size != self.file_size) {
            return Err("a part is of a file of another size");
        }
        self.rest = range;
        Ok(())
    }
}

fn content_range(fields: &str) -> Option<ContentRange> {
    let values = fields.lines().filter_map(|line| line.split_once(':'));
    let mut ranges = values.filter(|(name, _)| name.trim().eq_ignore_ascii_case("content-range"));
    ContentRange::parse(ranges.next()?.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BODY: &[u8] = b"\r\n\r\n--B\r\nContent-Type: text/plain\r\nContent-Range: bytes 2-5/20\r\n\r\n2345\
        \r\n--B\r\ncontent-range:bytes 10-11/*\r\n\r\nab\r\n--B--\r\n";

    /// The bytes of all parts of `body`, which arrives in pieces that end at `cuts`.
    fn read(body: &[u8], cuts: &[usize]) -> Result<Vec<(u64, u8)>, &'static str> {
        let mut parts = Parts::of("multipart/byteranges; boundary=B", 20).unwrap();
        let (mut found, mut begin) = (Vec::new(), 0);
        for cut in cuts.iter().copied().chain([body.len()]) {
            let mut piece = Bytes::copy_from_slice(&body[begin..cut]);
            while let Some((offset, bytes)) = parts.next(&mut piece)? {
                found.extend((offset..).zip(bytes));
            }
            begin = cut;
        }
        Ok(found)
    }

    #[test]
    fn the_boundary_is_a_parameter_of_the_type() {
        for text in ["multipart/byteranges; boundary=B", "Multipart/ByteRanges;a=b; Boundary=\"B\""] {
            assert_eq!(Parts::of(text, 1).unwrap().delimiter, "--B");
        }
        let long = format!("multipart/byteranges; boundary={}", "x".repeat(71));
        for text in ["", "text/plain", "multipart/mixed; boundary=B", "multipart/byteranges; boundary=", &long] {
            assert!(Parts::of(text, 1).is_none(), "{text}");
        }
    }

    #[test]
    fn wrong_bodies_are_errors() {
        for (body, what) in [
            ("--C\r\nContent-Range: bytes 0-1/20\r\n\r\n", "boundary"),
            ("--B\r\nContent-Type: text/plain\r\n\r\n", "state its range"),
            ("--B\r\nContent-Range: bytes 0-1/21\r\n\r\n", "another size"),
            ("--B\r\nContent-Range: bytes 3-1/20\r\n\r\n", "state its range"),
            (&"x".repeat(HEAD_LEN_MAX), "too long"),
        ] {
            assert!(read(body.as_bytes(), &[]).unwrap_err().contains(what), "{body}");
        }
    }

    proptest! {
        #[test]
        fn parts_are_the_same_wherever_the_body_is_cut(mut cuts in prop::collection::vec(0..BODY.len(), 0..8)) {
            cuts.sort_unstable();
            let expected: Vec<_> = (2..).zip(*b"2345").chain((10..).zip(*b"ab")).collect();
            prop_assert_eq!(read(BODY, &cuts), Ok(expected));
        }
    }
}
