//! What the origin's file looked like when its entry was created or last compared with it.

use forebay_types::{Endpoint, EndpointError};
use std::{fmt, str::FromStr};

/// What the origin's file looked like when its entry was created, or last compared with it: the means to see that it has
/// changed.
///
/// Kept as a text beside the record: `v1 HOST:PORT MTIME`, or `v2 HOST:PORT MTIME CHECKED CHECKSUM` with `-` for what is not
/// known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OriginMark {
    /// The origin.
    pub endpoint: Endpoint,
    /// The file's time of last change there, in seconds of the Unix epoch.
    pub mtime: i64,
    /// When the entry was last found to be the origin's file, in seconds of the Unix epoch, if that was ever asked.
    pub checked: Option<i64>,
    /// The file's checksum as the origin tells it, if it was asked.
    pub checksum: Option<MarkChecksum>,
}

/// A checksum in a mark: `algorithm:value`, of at most [`MARK_CHECKSUM_LEN_MAX`] bytes and without blanks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MarkChecksum(String);

/// Longest checksum in a mark in bytes: with the other words it must fit what is read of an attribute.
pub const MARK_CHECKSUM_LEN_MAX: usize = 160;

/// A text that is no [`OriginMark`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OriginMarkError {
    /// Not `v1` and two words, or `v2` and four.
    #[error("not of the form `v1 HOST:PORT MTIME` or `v2 HOST:PORT MTIME CHECKED CHECKSUM`")]
    Form,
    /// The first word is no endpoint.
    #[error("not an endpoint")]
    Endpoint(#[from] EndpointError),
    /// A word is no number.
    #[error("not a time")]
    Time(#[from] std::num::ParseIntError),
}

impl OriginMark {
    /// The mark of a file that was last changed at `mtime` (seconds of the Unix epoch), and of which no more is known.
    #[must_use]
    pub const fn new(endpoint: Endpoint, mtime: i64) -> Self {
        Self { endpoint, mtime, checked: None, checksum: None }
    }
}

impl MarkChecksum {
    /// A checksum of a mark; `None` when it does not fit one.
    #[must_use]
    pub fn new(algorithm: &str, value: &str) -> Option<Self> {
        let is_plain =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
        let text = format!("{algorithm}:{value}");
        (is_plain(algorithm) && is_plain(value) && text.len() <= MARK_CHECKSUM_LEN_MAX).then_some(Self(text))
    }

    /// Name of the algorithm.
    #[must_use]
    pub fn algorithm(&self) -> &str {
        self.0.split_once(':').map_or("", |(algorithm, _)| algorithm)
    }

    /// The value, in hexadecimal digits.
    #[must_use]
    pub fn value(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, value)| value)
    }
}

impl fmt::Display for OriginMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint, mtime, checked, checksum } = self;
        if checked.is_none() && checksum.is_none() {
            return write!(f, "v1 {endpoint} {mtime}");
        }
        write!(f, "v2 {endpoint} {mtime} ")?;
        match checked {
            Some(checked) => write!(f, "{checked} ")?,
            None => f.write_str("- ")?,
        }
        f.write_str(checksum.as_ref().map_or("-", |checksum| &checksum.0))
    }
}

impl FromStr for OriginMark {
    type Err = OriginMarkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words: Vec<&str> = text.split(' ').collect();
        match words.as_slice() {
            ["v1", endpoint, mtime] => Ok(Self::new(endpoint.parse()?, mtime.parse()?)),
            ["v2", endpoint, mtime, checked, checksum] => Ok(Self {
                endpoint: endpoint.parse()?,
                mtime: mtime.parse()?,
                checked: if *checked == "-" { None } else { Some(checked.parse()?) },
                checksum: match checksum.split_once(':') {
                    Some((algorithm, value)) => Some(MarkChecksum::new(algorithm, value).ok_or(OriginMarkError::Form)?),
                    None if *checksum == "-" => None,
                    None => return Err(OriginMarkError::Form),
                },
            }),
            _ => Err(OriginMarkError::Form),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_as_they_are_written() {
        for (host, port, mtime) in [("origin", 1094, 1_700_000_000), ("::1", 11, 0), ("a.b", 65535, -1)] {
            let mark = OriginMark::new(Endpoint::new(host, port), mtime);
            assert_eq!(mark.to_string().parse(), Ok(mark.clone()));
            let checksum = MarkChecksum::new("adler32", "0a1b2c3d");
            for (checked, checksum) in [(Some(-7), None), (None, checksum.clone()), (Some(1_800_000_000), checksum)] {
                let mark = OriginMark { checked, checksum, ..mark.clone() };
                assert_eq!(mark.to_string().parse(), Ok(mark));
            }
        }
    }

    #[test]
    fn texts_of_released_versions_are_read() {
        let mark = OriginMark::new(Endpoint::new("origin", 1094), 5);
        assert_eq!("v1 origin:1094 5".parse(), Ok(mark.clone()));
        let checked = OriginMark { checked: Some(6), checksum: MarkChecksum::new("md5", "aa"), ..mark };
        assert_eq!("v2 origin:1094 5 6 md5:aa".parse(), Ok(checked));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "v1",
            "v1 origin:1094",
            "v3 origin:1094 5",
            "v1 origin:1094 5 6",
            "v1  origin:1094 5",
            "v2 origin:1094 5",
            "v2 origin:1094 5 6",
            "v2 origin:1094 5 6 adler32",
            "v2 origin:1094 5 6 :",
            "v2 origin:1094 5 6 a:b:c",
        ] {
            assert_eq!(text.parse::<OriginMark>(), Err(OriginMarkError::Form), "{text}");
        }
        assert!(matches!("v1 a/b 5".parse::<OriginMark>(), Err(OriginMarkError::Endpoint(_))));
        assert!(matches!("v1 origin:1094 soon".parse::<OriginMark>(), Err(OriginMarkError::Time(_))));
        assert!(matches!("v2 origin:1094 1 soon -".parse::<OriginMark>(), Err(OriginMarkError::Time(_))));
    }

    #[test]
    fn checksums_that_do_not_fit_a_mark_are_not_kept() {
        assert_eq!(
            MarkChecksum::new("md5", "aa").map(|it| (it.algorithm().to_owned(), it.value().to_owned())),
            Some(("md5".to_owned(), "aa".to_owned()))
        );
        assert!(MarkChecksum::new("a", &"b".repeat(MARK_CHECKSUM_LEN_MAX - 2)).is_some());
        for (algorithm, value) in [("", "a"), ("a", ""), ("a b", "c"), ("a", "b c"), ("a:b", "c"), ("a", "é")] {
            assert_eq!(MarkChecksum::new(algorithm, value), None);
        }
        assert_eq!(MarkChecksum::new("a", &"b".repeat(MARK_CHECKSUM_LEN_MAX - 1)), None);
    }
}
