//! The field `Range`.

use forebay_types::ByteRange;

/// Most ranges of one request: more than clients put into a header that they send (uproot: 1200, ROOT halves its number on 400).
pub const RANGES_MAX: usize = 4096;

/// The part of a file that a request is for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ranges {
    /// All of it: there is no field, or it is not understood, and then it does not count.
    Whole,
    One(ByteRange),
    /// Two or more, in the order of the request, never empty.
    Many(Vec<ByteRange>),
    /// No range has a byte of the file.
    Unsatisfiable,
    /// There are more than [`RANGES_MAX`].
    TooMany,
}

/// The part of a file of `size` bytes that the value of `Range` names. Ranges beyond the end are clipped.
pub fn ranges_of(value: Option<&str>, size: u64) -> Ranges {
    let Some(list) = value.and_then(of_bytes) else { return Ranges::Whole };
    let mut first = None;
    let mut others = Vec::new();
    let mut count = 0;
    for spec in list.split(',').map(|spec| spec.trim_matches([' ', '\t'])).filter(|spec| !spec.is_empty()) {
        count += 1;
        if count > RANGES_MAX {
            return Ranges::TooMany;
        }
        let Some(range) = parse(spec, size) else { return Ranges::Whole };
        if range.is_empty() {
            continue;
        }
        match first {
            // Most requests have one range, which needs no list.
            None => first = Some(range),
            Some(first) => {
                if others.is_empty() {
                    others.push(first);
                }
                others.push(range);
            }
        }
    }
    match (first, count) {
        (_, 0) => Ranges::Whole,
        (None, _) => Ranges::Unsatisfiable,
        (Some(range), _) if others.is_empty() => Ranges::One(range),
        (Some(_), _) => Ranges::Many(others),
    }
}

/// The list of a field in bytes; other units do not count.
fn of_bytes(value: &str) -> Option<&str> {
    let (unit, list) = value.split_once('=')?;
    unit.trim_matches([' ', '\t']).eq_ignore_ascii_case("bytes").then_some(list)
}

/// One range, empty if the file has no byte of it; `None` if it is malformed.
fn parse(spec: &str, size: u64) -> Option<ByteRange> {
    let (first, last) = spec.split_once('-')?;
    if first.is_empty() {
        let len = number(last)?;
        return Some(ByteRange::between(size.saturating_sub(len), size));
    }
    let start = number(first)?;
    if last.is_empty() {
        return Some(ByteRange::between(start.min(size), size));
    }
    let last = number(last)?;
    if last < start {
        return None;
    }
    Some(ByteRange::between(start, last.saturating_add(1)).clipped_to(size))
}

/// A number in digits only: `+1` and blanks are malformed. Larger ones than 64 bits hold are the largest.
fn number(digits: &str) -> Option<u64> {
    let append = |number: u64, byte: u8| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| number.saturating_mul(10).saturating_add(digit.into()))
    };
    if digits.is_empty() { None } else { digits.bytes().try_fold(0, append) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u64 = 100;

    fn one(start: u64, end: u64) -> Ranges {
        Ranges::One(ByteRange::between(start, end))
    }

    #[test]
    fn ranges_are_those_of_the_standard() {
        for (value, ranges) in [
            ("bytes=0-9", one(0, 10)),
            ("bytes=90-", one(90, 100)),
            ("bytes=-10", one(90, 100)),
            ("bytes=-200", one(0, 100)),
            // XrdClHttp asks beyond the end with its first read.
            ("bytes=50-24999999", one(50, 100)),
            ("bytes=50-99999999999999999999999", one(50, 100)),
            ("BYTES = 0-0", one(0, 1)),
            ("bytes=0-0,", one(0, 1)),
            ("bytes=0-0, 200-300", one(0, 1)),
            ("bytes=100-", Ranges::Unsatisfiable),
            ("bytes=100-200, 300-", Ranges::Unsatisfiable),
            ("bytes=-0", Ranges::Unsatisfiable),
            ("chars=0-1", Ranges::Whole),
            ("bytes=5-4", Ranges::Whole),
            ("bytes=a-4", Ranges::Whole),
            ("bytes=+1-4", Ranges::Whole),
            ("bytes=1- 4", Ranges::Whole),
            ("bytes=-", Ranges::Whole),
            ("bytes=", Ranges::Whole),
            ("bytes", Ranges::Whole),
            ("bytes=0-1,x", Ranges::Whole),
        ] {
            assert_eq!(ranges_of(Some(value), SIZE), ranges, "{value}");
        }
        assert_eq!(ranges_of(None, SIZE), Ranges::Whole);
        assert_eq!(ranges_of(Some("bytes=0-0"), 0), Ranges::Unsatisfiable);
    }

    #[test]
    fn several_ranges_keep_their_order_and_are_not_merged() {
        let expected = [(50, 60), (0, 10), (10, 20), (55, 58)].map(|(start, end)| ByteRange::between(start, end));
        for value in ["bytes=50-59,0-9,10-19,55-57", "bytes=50-59, 0-9 ,10-19,  55-57"] {
            assert_eq!(ranges_of(Some(value), SIZE), Ranges::Many(expected.to_vec()));
        }
    }

    #[test]
    fn the_number_of_ranges_is_limited() {
        let value = |count| format!("bytes={}", vec!["0-1"; count].join(","));
        assert!(
            matches!(ranges_of(Some(&value(RANGES_MAX)), SIZE), Ranges::Many(ranges) if ranges.len() == RANGES_MAX)
        );
        assert_eq!(ranges_of(Some(&value(RANGES_MAX + 1)), SIZE), Ranges::TooMany);
    }

    proptest! {
        #[test]
        fn ranges_lie_in_the_file(value in "bytes=[0-9,\\- ]{0,40}", size in 0..1000_u64) {
            let ranges = match ranges_of(Some(&value), size) {
                Ranges::One(range) => vec![range],
                Ranges::Many(ranges) => ranges,
                Ranges::Whole | Ranges::Unsatisfiable | Ranges::TooMany => Vec::new(),
            };
            prop_assert!(ranges.iter().all(|range| !range.is_empty() && range.end() <= size));
        }
    }
}
