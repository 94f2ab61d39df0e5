//! Reading DER: definite lengths only, each checked against the remaining bytes, one level at a time.

use crate::UnixTime;

/// Tags of the elements that certificates are made of.
pub(crate) mod tag {
    pub(crate) const BOOLEAN: u8 = 0x01;
    pub(crate) const INTEGER: u8 = 0x02;
    pub(crate) const BIT_STRING: u8 = 0x03;
    pub(crate) const OCTET_STRING: u8 = 0x04;
    pub(crate) const OID: u8 = 0x06;
    pub(crate) const UTC_TIME: u8 = 0x17;
    pub(crate) const GENERALIZED_TIME: u8 = 0x18;
    pub(crate) const SEQUENCE: u8 = 0x30;
    pub(crate) const SET: u8 = 0x31;

    /// A tag `[number]` with elements inside.
    pub(crate) const fn context(number: u8) -> u8 {
        0xa0 | number
    }

    /// A tag `[number]` with plain bytes inside.
    pub(crate) const fn context_plain(number: u8) -> u8 {
        0x80 | number
    }
}

/// Why bytes are not the DER that was expected.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DerError {
    #[error("DER that ends too early")]
    Truncated,
    #[error("DER with an unsupported length or tag")]
    Form,
    #[error("DER with tag {found:#04x} instead of {expected:#04x}")]
    Tag { expected: u8, found: u8 },
    #[error("DER with trailing bytes")]
    Trailing,
    #[error("DER with an invalid time")]
    Time,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    pub(crate) content: &'a [u8],
    /// All of it, with tag and length.
    pub(crate) whole: &'a [u8],
}

impl<'a> Element<'a> {
    /// Reads what it holds as elements.
    pub(crate) const fn elements(&self) -> Der<'a> {
        Der::new(self.content)
    }
}

/// Takes elements off the front of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Der<'a> {
    rest: &'a [u8],
}

impl<'a> Der<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes the next element, whatever it is.
    pub(crate) fn element(&mut self) -> Result<Element<'a>, DerError> {
        let start = self.rest;
        let (&tag, rest) = start.split_first().ok_or(DerError::Truncated)?;
        if tag & 0x1f == 0x1f {
            return Err(DerError::Form);
        }
        let (len, rest) = length(rest)?;
        let (content, rest) = rest.split_at_checked(len).ok_or(DerError::Truncated)?;
        let whole = start.get(..start.len() - rest.len()).ok_or(DerError::Truncated)?;
        self.rest = rest;
        Ok(Element { tag, content, whole })
    }

    /// Takes the next element, which must have the tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Result<Element<'a>, DerError> {
        let element = self.element()?;
        if element.tag == tag { Ok(element) } else { Err(DerError::Tag { expected: tag, found: element.tag }) }
    }

    /// Takes the next element if it has the tag.
    pub(crate) fn optional(&mut self, tag: u8) -> Result<Option<Element<'a>>, DerError> {
        if self.rest.first() == Some(&tag) { self.expect(tag).map(Some) } else { Ok(None) }
    }

    /// Makes sure that nothing is left.
    pub(crate) const fn end(&self) -> Result<(), DerError> {
        if self.is_empty() { Ok(()) } else { Err(DerError::Trailing) }
    }
}

/// The one element that the bytes are, which must have the tag.
pub(crate) fn only(bytes: &[u8], tag: u8) -> Result<Element<'_>, DerError> {
    let mut der = Der::new(bytes);
    let element = der.expect(tag)?;
    der.end()?;
    Ok(element)
}

/// The magnitude of an integer without leading zeros.
pub(crate) fn magnitude(integer: &[u8]) -> &[u8] {
    let zeros = integer.iter().take_while(|&&byte| byte == 0).count();
    integer.get(zeros..).unwrap_or_default()
}

/// Reads UTCTime or GeneralizedTime, in whole seconds and UTC as X.509 wants them.
pub(crate) fn time(element: &Element<'_>) -> Result<UnixTime, DerError> {
    let digits = element.content.strip_suffix(b"Z").ok_or(DerError::Time)?;
    let mut pairs = digits.chunks(2).map(pair);
    let mut next = || pairs.next().flatten().ok_or(DerError::Time);
    let year = match (element.tag, digits.len()) {
        (tag::UTC_TIME, 12) => {
            let year = next()?;
            year + if year < 50 { 2000 } else { 1900 }
        }
        (tag::GENERALIZED_TIME, 14) => next()? * 100 + next()?,
        _ => return Err(DerError::Time),
    };
    let (month, day) = (next()?, next()?);
    let (hour, minute, second) = (next()?, next()?, next()?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return Err(DerError::Time);
    }
    Ok(UnixTime(days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second))
}

fn pair(digits: &[u8]) -> Option<i64> {
    let &[tens, ones] = digits else { return None };
    let digit = |byte: u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    Some(digit(tens)? * 10 + digit(ones)?)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar; years begin in March here, so that leap days come last.
const fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Reads a length: one byte, or as many as the first one says, at most four.
fn length(bytes: &[u8]) -> Result<(usize, &[u8]), DerError> {
    let (&first, rest) = bytes.split_first().ok_or(DerError::Truncated)?;
    if first < 0x80 {
        return Ok((usize::from(first), rest));
    }
    let count = usize::from(first & 0x7f);
    if !(1..=4).contains(&count) {
        return Err(DerError::Form);
    }
    let (digits, rest) = rest.split_at_checked(count).ok_or(DerError::Truncated)?;
    let len = digits.iter().fold(0_usize, |len, &digit| len << 8 | usize::from(digit));
    Ok((len, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements_come_off_the_front_and_other_bytes_are_refused() {
        let mut der = Der::new(&[0x30, 3, 2, 1, 5, 0x04, 0x81, 1, 9]);
        let sequence = der.expect(tag::SEQUENCE).unwrap();
        assert_eq!(sequence.whole, [0x30, 3, 2, 1, 5]);
        assert_eq!(only(sequence.content, tag::INTEGER).unwrap().content, [5]);
        assert!(der.optional(tag::SET).unwrap().is_none());
        assert_eq!(der.optional(tag::OCTET_STRING).unwrap().unwrap().content, [9]);
        assert_eq!(der.end(), Ok(()));
        for (bytes, error) in [
            (&[][..], DerError::Truncated),
            (&[0x30], DerError::Truncated),
            (&[0x30, 2, 1], DerError::Truncated),
            (&[0x30, 0x80, 0, 0], DerError::Form),
            (&[0x30, 0x85, 0, 0, 0, 0, 1, 0], DerError::Form),
            (&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], DerError::Truncated),
            (&[0x1f, 0x81, 0], DerError::Form),
            (&[0x04, 0], DerError::Tag { expected: 0x30, found: 0x04 }),
            (&[0x30, 0, 0], DerError::Trailing),
        ] {
            assert_eq!(only(bytes, tag::SEQUENCE).unwrap_err(), error, "{bytes:?}");
        }
    }

    #[test]
    fn times_are_seconds_since_1970() {
        let read = |tag, text: &str| time(&Element { tag, content: text.as_bytes(), whole: &[] });
        assert_eq!(read(tag::UTC_TIME, "700101000000Z"), Ok(UnixTime(0)));
        assert_eq!(read(tag::UTC_TIME, "491231235959Z"), Ok(UnixTime(2_524_607_999)));
        assert_eq!(read(tag::GENERALIZED_TIME, "20240229120000Z"), Ok(UnixTime(1_709_208_000)));
        assert_eq!(read(tag::GENERALIZED_TIME, "19691231235959Z"), Ok(UnixTime(-1)));
        for text in ["20240229120000", "20241329120000Z", "2024022912000Z", "202402291200+0Z", "20240229120000.5Z", ""]
        {
            assert_eq!(read(tag::GENERALIZED_TIME, text), Err(DerError::Time), "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut der = Der::new(&bytes);
            while let Ok(element) = der.element() {
                prop_assert!(element.whole.len() >= element.content.len() + 2);
                let _ = time(&element);
            }
        }
    }
}
