//! The header `Content-Range` (RFC 9110, 14.4).

use forebay_types::ByteRange;

/// A range that an answer contains, and the size of the whole.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ContentRange {
    pub(crate) range: ByteRange,
    /// `None` if the server does not know it.
    pub(crate) size: Option<u64>,
}

impl ContentRange {
    /// Reads `bytes FIRST-LAST/SIZE`; `None` if it is anything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let rest = text.trim().strip_prefix("bytes")?.trim_start();
        let (range, size) = rest.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let (first, last) = (number(first)?, number(last)?);
        let size = if size.trim() == "*" { None } else { Some(number(size)?) };
        let is_within = size.is_none_or(|size| last < size);
        (first <= last && is_within).then(|| Self { range: ByteRange::between(first, last + 1), size })
    }
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    // `u64` would read a sign; the largest number leaves room for the end of a range.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?.filter(|number| *number < u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_within_their_size_are_read() {
        let read = |text| ContentRange::parse(text).map(|it| (it.range.start(), it.range.end(), it.size));
        assert_eq!(read("bytes 0-9/20"), Some((0, 10, Some(20))));
        assert_eq!(read("bytes 5-5/*"), Some((5, 6, None)));
        for text in ["", "bytes", "bytes */20", "bytes 9-0/20", "bytes 0-20/20", "bytes +1-2/3", "lines 0-1/2"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_range_or_nothing(text in "(bytes )?[0-9*/+-]{0,30}") {
            if let Some(found) = ContentRange::parse(&text) {
                prop_assert!(!found.range.is_empty());
                prop_assert!(found.size.is_none_or(|size| found.range.end() <= size));
            }
        }
    }
}
