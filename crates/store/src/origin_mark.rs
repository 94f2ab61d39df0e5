//! The identity of the origin's file when its entry was created or last compared with it.

use forebay_cache::Cinfo;
use forebay_types::{Checksum, OriginId, OriginIdError, Validator, ValidatorError};
use std::{fmt, str::FromStr};

/// The identity of the origin's file when its entry was created or last compared with it: what shows that it has changed.
///
/// It is kept as text in the extended attribute `user.forebay.origin` of the cinfo, in the oldest version that can hold it, so
/// that the previous release reads the marks of files of `root://` origins:
///
/// - `v1 SERVER MTIME`
/// - `v2 SERVER MTIME CHECKED CHECKSUM` with `-` for a part that is not known
/// - `v3 SERVER CHECKED [VALIDATOR] SUM`: the text form of a [`Validator`], which has spaces between its parts, and in eight
///   hexadecimal digits the CRC32C of everything before the last space
///
/// SERVER is the text of an [`OriginId`]: for a `root://` server `HOST:PORT`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OriginMark {
    pub origin: OriginId,
    pub validator: Validator,
    /// When the entry was last compared and found to be the origin's file, in seconds of the Unix epoch.
    pub checked: Option<i64>,
}

/// A text that is not an [`OriginMark`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OriginMarkError {
    #[error("not a mark of a known version")]
    Form,
    #[error("not a server")]
    Origin(#[from] OriginIdError),
    #[error("not a time")]
    Time(#[from] std::num::ParseIntError),
    #[error(transparent)]
    Validator(#[from] ValidatorError),
    #[error("does not match its checksum")]
    Sum,
}

impl OriginMark {
    /// The mark of a file that has not been compared since.
    pub const fn new(origin: OriginId, validator: Validator) -> Self {
        Self { origin, validator, checked: None }
    }

    /// Length of the texts in it, in bytes.
    pub fn texts_len(&self) -> usize {
        let Self { origin, validator, .. } = self;
        let etag = validator.etag().map_or(0, |etag| etag.as_str().len());
        let checksum = validator.checksum().map_or(0, |checksum| checksum.algorithm.len() + checksum.value.len());
        origin.endpoint.host().len() + origin.base().len() + etag + checksum
    }

    /// Reads what follows `v3 ` in `text`.
    fn parse_v3(text: &str, rest: &str) -> Result<Self, OriginMarkError> {
        let (sealed, sum) = text.rsplit_once(' ').ok_or(OriginMarkError::Form)?;
        // Checked before anything is parsed: a truncated validator would still parse, with fewer parts.
        if sum != seal(sealed) {
            return Err(OriginMarkError::Sum);
        }
        let mut words = rest[..rest.len() - sum.len() - 1].splitn(3, ' ');
        let (Some(origin), Some(checked)) = (words.next(), words.next()) else { return Err(OriginMarkError::Form) };
        Ok(Self {
            origin: origin.parse()?,
            checked: parse_checked(checked)?,
            validator: words.next().unwrap_or_default().parse()?,
        })
    }
}

impl fmt::Display for OriginMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, validator, checked } = self;
        let time = checked.map_or_else(|| "-".to_owned(), |checked| checked.to_string());
        // The previous release reads versions 1 and 2 only.
        let (Some(mtime), None) = (validator.mtime(), validator.etag()) else {
            let between = if validator.is_empty() { "" } else { " " };
            let text = format!("v3 {origin} {time}{between}{validator}");
            return write!(f, "{text} {}", seal(&text));
        };
        match (checked, validator.checksum()) {
            (None, None) => write!(f, "v1 {origin} {mtime}"),
            (_, None) => write!(f, "v2 {origin} {mtime} {time} -"),
            (_, Some(sum)) => write!(f, "v2 {origin} {mtime} {time} {}:{}", sum.algorithm, sum.value),
        }
    }
}

impl FromStr for OriginMark {
    type Err = OriginMarkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(rest) = text.strip_prefix("v3 ") {
            return Self::parse_v3(text, rest);
        }
        let words: Vec<&str> = text.split(' ').collect();
        match words.as_slice() {
            ["v1", origin, mtime] => Ok(Self::new(origin.parse()?, Validator::of_mtime(mtime.parse()?))),
            ["v2", origin, mtime, checked, checksum] => {
                let mtime = Validator::of_mtime(mtime.parse()?);
                Ok(Self {
                    origin: origin.parse()?,
                    checked: parse_checked(checked)?,
                    validator: if *checksum == "-" {
                        mtime
                    } else {
                        mtime.with_checksum(Some(parse_checksum(checksum)?))
                    },
                })
            }
            _ => Err(OriginMarkError::Form),
        }
    }
}

/// The checksum of a mark of version 3.
/// When an entry was last found to be its origin's file, in seconds of the Unix epoch: at the latest when it was created.
pub fn last_check(cinfo: &Cinfo, mark: Option<&OriginMark>) -> i64 {
    mark.and_then(|mark| mark.checked).unwrap_or(cinfo.created)
}

fn seal(text: &str) -> String {
    format!("{:08x}", crc32c::crc32c(text.as_bytes()))
}

fn parse_checked(text: &str) -> Result<Option<i64>, OriginMarkError> {
    if text == "-" { Ok(None) } else { Ok(Some(text.parse()?)) }
}

fn parse_checksum(text: &str) -> Result<Checksum, OriginMarkError> {
    let (algorithm, value) = text.split_once(':').ok_or(OriginMarkError::Form)?;
    if algorithm.is_empty() || value.is_empty() || value.contains(':') {
        return Err(OriginMarkError::Form);
    }
    Ok(Checksum::new(algorithm, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::Endpoint;
    use proptest::{option, prelude::*, sample::select};

    fn mark(validator: &str, checked: Option<i64>) -> OriginMark {
        OriginMark { checked, ..OriginMark::new(Endpoint::new("origin", 1094).into(), validator.parse().unwrap()) }
    }

    /// Never change the texts: they are on disks.
    #[test]
    fn texts_of_released_versions_are_read_and_still_written() {
        for (text, mark) in [
            ("v1 origin:1094 5", mark("mtime:5", None)),
            ("v2 origin:1094 5 6 -", mark("mtime:5", Some(6))),
            ("v2 origin:1094 5 - adler32:0a1b2c3d", mark("mtime:5 checksum:adler32:0a1b2c3d", None)),
            ("v2 origin:1094 5 6 md5:aa", mark("mtime:5 checksum:md5:aa", Some(6))),
            ("v3 origin:1094 - @", mark("", None)),
            ("v3 origin:1094 6 @", mark("", Some(6))),
            ("v3 origin:1094 - etag:\"a\" @", mark("etag:\"a\"", None)),
            (
                "v3 origin:1094 -6 mtime:5 etag:W/\"a\" checksum:md5:aa @",
                mark("mtime:5 etag:W/\"a\" checksum:md5:aa", Some(-6)),
            ),
        ] {
            let text =
                text.strip_suffix(" @").map_or_else(|| text.to_owned(), |sealed| format!("{sealed} {}", seal(sealed)));
            assert_eq!(text.parse(), Ok(mark.clone()), "{text}");
            assert_eq!(mark.to_string(), text);
        }
        let https = OriginMark::new("https://origin:443/b".parse().unwrap(), Validator::of_mtime(5));
        assert_eq!((https.to_string().parse(), https.to_string()), (Ok(https), "v1 https://origin:443/b 5".to_owned()));
        assert_eq!(mark("etag:\"a\"", None).to_string(), "v3 origin:1094 - etag:\"a\" aead2055");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "v1",
            "v1 origin:1094",
            "v3",
            "v4 origin:1094 5",
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
        assert!(matches!("v1 a/b 5".parse::<OriginMark>(), Err(OriginMarkError::Origin(_))));
        assert!(matches!("v1 origin:1094 soon".parse::<OriginMark>(), Err(OriginMarkError::Time(_))));
        assert!(matches!("v2 origin:1094 1 soon -".parse::<OriginMark>(), Err(OriginMarkError::Time(_))));
        assert_eq!("v3 origin:1094 - etag:\"a\" 00000000".parse::<OriginMark>(), Err(OriginMarkError::Sum));
        for sealed in ["v3 origin:1094", "v3 origin:1094 -  ", "v3 origin:1094 - x:1", "v3 origin:1094 soon"] {
            assert!(format!("{sealed} {}", seal(sealed)).parse::<OriginMark>().is_err(), "{sealed}");
        }
    }

    #[test]
    fn damage_to_a_mark_with_a_sum_is_noticed() {
        let text = mark("etag:\"a\" checksum:md5:aa", Some(7)).to_string();
        for bit in 0..text.len() * 8 {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let parsed = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse::<OriginMark>().ok());
            assert_eq!(parsed, None, "bit {bit}");
        }
        for len in 0..text.len() {
            assert!(text[..len].parse::<OriginMark>().is_err(), "cut to {len}");
        }
    }

    proptest! {
        #[test]
        fn marks_are_read_as_written(
            host in select(vec!["origin", "::1", "a.b"]),
            port in 1_u16..,
            mtime in option::of(any::<i64>()),
            etag in option::of("(W/)?\"[!#-~]{0,40}\""),
            checksum in option::of(("[a-z0-9]{1,8}", "[0-9a-f]{1,64}")),
            checked in option::of(any::<i64>()),
        ) {
            let mut validator = mtime.map_or_else(Validator::default, Validator::of_mtime);
            if let Some(etag) = etag {
                validator = validator.with_etag(etag.parse().unwrap());
            }
            let checksum = checksum.map(|(algorithm, value)| Checksum::new(algorithm, value));
            let validator = validator.with_checksum(checksum);
            let mark = OriginMark { checked, ..OriginMark::new(Endpoint::new(host, port).into(), validator) };
            prop_assert_eq!(mark.to_string().parse(), Ok(mark));
        }

        #[test]
        fn any_text_is_a_mark_or_an_error(text in "(v[123] )?(a:1 )?[-0-9a-z:\" ]{0,30}") {
            let _ = text.parse::<OriginMark>();
        }
    }
}
