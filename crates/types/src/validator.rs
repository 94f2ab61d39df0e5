//! Validators: how two contents of a file under one name are distinguished.

use crate::Checksum;
use std::{fmt, str::FromStr};

/// Longest entity tag in bytes, with its quotes and `W/`. S3, dCache and EOS stay below 100; a longer one is not recorded.
pub const ETAG_LEN_MAX: usize = 256;

/// Longest checksum in a validator in bytes, as `algorithm:value`.
pub const VALIDATOR_CHECKSUM_LEN_MAX: usize = 160;

/// The parts by which an origin distinguishes contents of one file: any combination of a time of change, an entity tag and a
/// checksum. The size is not one of them: it is always known and always compared.
///
/// The text form is the parts that are known in this order, separated by a space: `mtime:SECONDS`, `etag:ENTITY-TAG`,
/// `checksum:ALGORITHM:VALUE`.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Validator {
    mtime: Option<i64>,
    etag: Option<ETag>,
    checksum: Option<Checksum>,
}

/// An HTTP entity tag (RFC 9110, 8.8.3) of visible ASCII characters.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ETag(String);

/// How two validators compare.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ValidatorMatch {
    /// The contents are the same: at least one part is proof, and no part contradicts it.
    Same,
    Different,
    /// No part proves anything: there is no common one, or only a weak entity tag.
    Unknown,
}

/// A text that is not a [`Validator`] or an [`ETag`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not a validator")]
pub struct ValidatorError;

impl Validator {
    /// The validator of a file of which only the time of change is known, in seconds of the Unix epoch.
    pub const fn of_mtime(mtime: i64) -> Self {
        Self { mtime: Some(mtime), etag: None, checksum: None }
    }

    /// The same with an entity tag.
    pub fn with_etag(self, etag: ETag) -> Self {
        Self { etag: Some(etag), ..self }
    }

    /// The same with a checksum, or without one if `checksum` does not fit a record.
    pub fn with_checksum(self, checksum: Option<Checksum>) -> Self {
        Self { checksum: checksum.filter(is_recordable), ..self }
    }

    /// Seconds of the Unix epoch.
    pub const fn mtime(&self) -> Option<i64> {
        self.mtime
    }

    pub const fn etag(&self) -> Option<&ETag> {
        self.etag.as_ref()
    }

    pub const fn checksum(&self) -> Option<&Checksum> {
        self.checksum.as_ref()
    }

    pub const fn is_empty(&self) -> bool {
        self.mtime.is_none() && self.etag.is_none() && self.checksum.is_none()
    }

    /// Compares the parts that both have. All of them must agree and one must be proof.
    pub fn compare(&self, other: &Self) -> ValidatorMatch {
        ValidatorMatch::of([self.content_agrees(other), self.mtime_agrees(other)])
    }

    /// Compares with a file of the same name at another server. Time of change and entity tag are properties of one server,
    /// so the checksum alone is compared.
    pub fn compare_replica(&self, other: &Self) -> ValidatorMatch {
        ValidatorMatch::of([self.checksum_agrees(other), None])
    }

    /// Whether the parts that come from the content itself agree: entity tags and checksums of one algorithm. `None` if they
    /// prove nothing.
    ///
    /// Entity tags follow RFC 9110, 8.8.3.2. Blocks fetched at different times become one file, which needs the strong
    /// comparison: two equal tags of which one is weak may stand for different bytes, so they prove nothing. Different
    /// opaque parts contradict in either comparison.
    pub fn content_agrees(&self, other: &Self) -> Option<bool> {
        let etag = self.etag.as_ref().zip(other.etag.as_ref()).and_then(|(one, two)| one.agrees(two));
        match (etag, self.checksum_agrees(other)) {
            (Some(etag), Some(checksum)) => Some(etag && checksum),
            (etag, checksum) => etag.or(checksum),
        }
    }

    /// Whether the times of change agree; `None` if one is not known.
    pub fn mtime_agrees(&self, other: &Self) -> Option<bool> {
        Some(self.mtime? == other.mtime?)
    }

    fn checksum_agrees(&self, other: &Self) -> Option<bool> {
        let (one, two) = self.checksum.as_ref().zip(other.checksum.as_ref())?;
        (one.algorithm == two.algorithm).then_some(one.value == two.value)
    }
}

impl ValidatorMatch {
    fn of(parts: [Option<bool>; 2]) -> Self {
        if parts.contains(&Some(false)) {
            Self::Different
        } else if parts.contains(&Some(true)) {
            Self::Same
        } else {
            Self::Unknown
        }
    }
}

impl ETag {
    /// Whether equal tags do not promise equal bytes.
    pub fn is_weak(&self) -> bool {
        self.0.starts_with("W/")
    }

    /// The tag as in an HTTP header, with its quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The tag without `W/` and its quotes.
    pub fn opaque(&self) -> &str {
        self.0.strip_prefix("W/").unwrap_or(&self.0).trim_matches('"')
    }

    fn agrees(&self, other: &Self) -> Option<bool> {
        if self.opaque() != other.opaque() {
            return Some(false);
        }
        (!self.is_weak() && !other.is_weak()).then_some(true)
    }
}

impl FromStr for ETag {
    type Err = ValidatorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let quoted = text.strip_prefix("W/").unwrap_or(text);
        let opaque = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).ok_or(ValidatorError)?;
        // The grammar also has bytes above 0x7f; no server sends them, and a record is text.
        let is_plain = opaque.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
        if is_plain && text.len() <= ETAG_LEN_MAX { Ok(Self(text.to_owned())) } else { Err(ValidatorError) }
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mtime = self.mtime.map(|mtime| format!("mtime:{mtime}"));
        let etag = self.etag.as_ref().map(|etag| format!("etag:{etag}"));
        let checksum = self.checksum.as_ref().map(|sum| format!("checksum:{}:{}", sum.algorithm, sum.value));
        let parts: Vec<String> = [mtime, etag, checksum].into_iter().flatten().collect();
        f.write_str(&parts.join(" "))
    }
}

impl FromStr for Validator {
    type Err = ValidatorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut validator = Self::default();
        if text.is_empty() {
            return Ok(validator);
        }
        for part in text.split(' ') {
            match part.split_once(':').ok_or(ValidatorError)? {
                ("mtime", seconds) => validator.mtime = Some(seconds.parse().map_err(|_| ValidatorError)?),
                ("etag", etag) => validator.etag = Some(etag.parse()?),
                ("checksum", checksum) => validator.checksum = Some(parse_checksum(checksum)?),
                _ => return Err(ValidatorError),
            }
        }
        // Parts in another order, or twice, were not written by us.
        if validator.to_string() == text { Ok(validator) } else { Err(ValidatorError) }
    }
}

fn parse_checksum(text: &str) -> Result<Checksum, ValidatorError> {
    let (algorithm, value) = text.split_once(':').ok_or(ValidatorError)?;
    Some(Checksum::new(algorithm, value)).filter(is_recordable).ok_or(ValidatorError)
}

/// Whether a checksum can be a part of the text form.
fn is_recordable(checksum: &Checksum) -> bool {
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
    is_plain(&checksum.algorithm)
        && is_plain(&checksum.value)
        && checksum.algorithm.len() + 1 + checksum.value.len() <= VALIDATOR_CHECKSUM_LEN_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use ValidatorMatch::{Different, Same, Unknown};
    use proptest::{option, prelude::*};

    fn validator(text: &str) -> Validator {
        text.parse().unwrap_or_else(|_| panic!("{text}"))
    }

    #[test]
    fn common_parts_decide() {
        for (one, two, expected) in [
            ("", "", Unknown),
            ("mtime:1", "", Unknown),
            ("mtime:1", "mtime:1", Same),
            ("mtime:1", "mtime:2", Different),
            ("mtime:1", "etag:\"a\"", Unknown),
            ("etag:\"a\"", "etag:\"a\"", Same),
            ("etag:\"a\"", "etag:\"b\"", Different),
            ("mtime:1 etag:\"a\"", "mtime:2 etag:\"a\"", Different),
            ("mtime:1 etag:\"a\"", "mtime:1 etag:\"b\"", Different),
            ("mtime:1 etag:\"a\"", "mtime:1 checksum:md5:0", Same),
            ("checksum:md5:0", "checksum:md5:0", Same),
            ("checksum:md5:0", "checksum:md5:1", Different),
            ("checksum:md5:0", "checksum:adler32:1", Unknown),
            ("etag:\"a\" checksum:md5:0", "etag:\"a\" checksum:md5:1", Different),
            // Equal weak tags prove nothing.
            ("etag:W/\"a\"", "etag:W/\"a\"", Unknown),
            ("etag:W/\"a\"", "etag:\"a\"", Unknown),
            ("etag:W/\"a\"", "etag:W/\"b\"", Different),
            ("etag:W/\"a\"", "etag:\"b\"", Different),
            ("mtime:1 etag:W/\"a\"", "mtime:1 etag:W/\"a\"", Same),
            ("mtime:1 etag:W/\"a\"", "mtime:1 etag:W/\"b\"", Different),
        ] {
            assert_eq!(validator(one).compare(&validator(two)), expected, "{one} | {two}");
            assert_eq!(validator(two).compare(&validator(one)), expected, "{two} | {one}");
        }
    }

    #[test]
    fn replicas_are_compared_by_checksum() {
        for (one, two, expected) in [
            ("mtime:1 etag:\"a\"", "mtime:2 etag:\"b\"", Unknown),
            ("mtime:1 checksum:md5:0", "mtime:2 checksum:md5:0", Same),
            ("mtime:1 checksum:md5:0", "mtime:1 checksum:md5:1", Different),
        ] {
            assert_eq!(validator(one).compare_replica(&validator(two)), expected, "{one} | {two}");
        }
    }

    #[test]
    fn parts_beyond_the_limits_are_refused() {
        let tag = |len: usize| format!("\"{}\"", "a".repeat(len - 2)).parse::<ETag>();
        assert!(tag(ETAG_LEN_MAX).is_ok());
        assert!(tag(ETAG_LEN_MAX + 1).is_err());
        for text in ["", "a", "\"", "\"a", "w/\"a\"", "\"a b\"", "\"a\"b\"", "\"é\""] {
            assert!(text.parse::<ETag>().is_err(), "{text}");
        }
        let with = |algorithm: &str, value: &str| {
            Validator::default().with_checksum(Some(Checksum::new(algorithm, value))).checksum().cloned()
        };
        assert_eq!(with("md5", "aa"), Some(Checksum::new("md5", "aa")));
        assert!(with("a", &"b".repeat(VALIDATOR_CHECKSUM_LEN_MAX - 2)).is_some());
        assert!(with("a", &"b".repeat(VALIDATOR_CHECKSUM_LEN_MAX - 1)).is_none());
        for (algorithm, value) in [("", "a"), ("a", ""), ("a b", "c"), ("a", "b c"), ("a:b", "c"), ("a", "é")] {
            assert_eq!(with(algorithm, value), None);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [" ", "mtime:", "mtime:x", "mtime:+1", "mtime:1 ", "mtime:1 mtime:1", "etag:a", "size:1", "x"] {
            assert_eq!(text.parse::<Validator>(), Err(ValidatorError), "{text}");
        }
        assert_eq!("checksum:md5:aa mtime:1".parse::<Validator>(), Err(ValidatorError));
    }

    prop_compose! {
        fn any_validator()(
            mtime in option::of(any::<i64>()),
            etag in option::of("(W/)?\"[!#-~]{0,40}\""),
            checksum in option::of(("[a-z0-9]{1,8}", "[0-9a-f]{1,64}")),
        ) -> Validator {
            let etag = etag.map(|etag| etag.parse().unwrap());
            let checksum = checksum.map(|(algorithm, value)| Checksum::new(algorithm, value));
            Validator { mtime, etag, checksum }
        }
    }

    proptest! {
        #[test]
        fn texts_are_read_as_written(validator in any_validator()) {
            prop_assert_eq!(validator.to_string().parse(), Ok(validator));
        }

        #[test]
        fn any_text_is_a_validator_or_an_error(text: String) {
            if let Ok(validator) = text.parse::<Validator>() {
                prop_assert_eq!(validator.to_string(), text);
            }
        }

        #[test]
        fn comparison_is_symmetric(one in any_validator(), two in any_validator()) {
            prop_assert_eq!(one.compare(&two), two.compare(&one));
            prop_assert_ne!(one.compare(&one), Different);
        }
    }
}
