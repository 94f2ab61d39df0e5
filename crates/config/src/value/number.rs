//! Numbers, sizes, percentages and permission bits.

use super::field::Parse;
use forebay_cache::Mark;
use forebay_types::{ByteSize, ByteSizeError, Share, ShareError};
use std::{fmt::Display, marker::PhantomData};

/// A whole number from `MIN` to `MAX`.
pub(crate) struct Number<T, const MIN: u64, const MAX: u64>(PhantomData<T>);

/// A number of bytes from `MIN` to `MAX`, such as `64KiB`.
pub(crate) struct Size<const MIN: u64 = 0, const MAX: u64 = { u64::MAX }, T = u64>(PhantomData<T>);

/// A number from 0.0 to 1.0.
pub(crate) struct Fraction;

/// Permission bits in octal digits: all of `LEAST`, which the server needs, and none but those of `MOST`.
pub(crate) struct Mode<const LEAST: u32, const MOST: u32>;

/// A percentage or a number.
pub(crate) struct CountMark;

/// `MIN to MAX`, or `MIN or more`.
pub(super) fn range_text(min: impl Display, max: Option<impl Display>) -> String {
    max.map_or_else(|| format!("{min} or more"), |max| format!("{min} to {max}"))
}

impl<T: TryFrom<u64> + Clone, const MIN: u64, const MAX: u64> Parse for Number<T, MIN, MAX> {
    type Toml = u64;
    type Value = T;

    fn kind() -> String {
        "number".to_owned()
    }

    fn range() -> Option<String> {
        Some(range_text(MIN, (MAX < u64::MAX).then_some(MAX)))
    }

    fn parse(number: u64) -> Result<T, String> {
        let value = if (MIN..=MAX).contains(&number) { T::try_from(number).ok() } else { None };
        let range = range_text(format_args!("from {MIN}"), (MAX < u64::MAX).then_some(MAX));
        value.ok_or_else(|| format!("{number} is out of range: write a number {range}"))
    }
}

impl<const MIN: u64, const MAX: u64, T: TryFrom<u64> + Clone> Parse for Size<MIN, MAX, T> {
    type Toml = String;
    type Value = T;

    fn kind() -> String {
        "size".to_owned()
    }

    fn range() -> Option<String> {
        let is_limited = MIN > 0 || MAX < u64::MAX;
        is_limited.then(|| range_text(ByteSize(MIN), (MAX < u64::MAX).then_some(ByteSize(MAX))))
    }

    fn parse(text: String) -> Result<T, String> {
        let ByteSize(bytes) = text.parse().map_err(|error: ByteSizeError| error.to_string())?;
        let value = if (MIN..=MAX).contains(&bytes) { T::try_from(bytes).ok() } else { None };
        value.ok_or_else(|| format!("`{text}` is out of range: write {}", Self::range().unwrap_or_default()))
    }
}

impl Parse for bool {
    type Toml = Self;
    type Value = Self;

    fn kind() -> String {
        "`true`, `false`".to_owned()
    }

    fn parse(toml: Self) -> Result<Self, String> {
        Ok(toml)
    }
}

impl Parse for Fraction {
    type Toml = f64;
    type Value = f64;

    fn kind() -> String {
        "number".to_owned()
    }

    fn range() -> Option<String> {
        Some("0.0 to 1.0".to_owned())
    }

    fn parse(fraction: f64) -> Result<f64, String> {
        let is_fraction = (0.0..=1.0).contains(&fraction);
        if is_fraction {
            Ok(fraction)
        } else {
            Err(format!("{fraction} is out of range: write a number from 0.0 to 1.0"))
        }
    }
}

impl<const LEAST: u32, const MOST: u32> Parse for Mode<LEAST, MOST> {
    type Toml = String;
    type Value = u32;

    fn kind() -> String {
        "octal mode".to_owned()
    }

    fn range() -> Option<String> {
        Some(format!("`{LEAST:04o}` to `{MOST:04o}`"))
    }

    fn parse(text: String) -> Result<u32, String> {
        let is_octal = !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
        let mode = if is_octal { u32::from_str_radix(&text, 8).ok() } else { None };
        mode.filter(|mode| mode & LEAST == LEAST && mode & !MOST == 0).ok_or_else(|| {
            let text = text.escape_default();
            format!("`{text}` is not a permitted mode: write octal digits from {LEAST:04o} to {MOST:04o}")
        })
    }
}

impl Parse for Mark {
    type Toml = String;
    type Value = Self;

    fn kind() -> String {
        "percentage or size".to_owned()
    }

    fn parse(text: String) -> Result<Self, String> {
        if text.trim().ends_with('%') {
            return text.parse::<Share>().map(Self::Share).map_err(|error: ShareError| error.to_string());
        }
        Size::<0>::parse(text).map(Self::Amount)
    }
}

impl Parse for CountMark {
    type Toml = String;
    type Value = Mark;

    fn kind() -> String {
        "percentage or number".to_owned()
    }

    fn parse(text: String) -> Result<Mark, String> {
        if text.trim().ends_with('%') {
            return Mark::parse(text);
        }
        let number = text.trim().parse();
        number.map(Mark::Amount).map_err(|_| format!("`{text}` is neither a percentage nor a number of inodes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_let_the_server_write_and_no_other_user() {
        type FileMode = Mode<0o600, 0o644>;
        for (text, expected) in [("0600", Some(0o600)), ("640", Some(0o640)), ("0644", Some(0o644))] {
            assert_eq!(FileMode::parse(text.to_owned()).ok(), expected, "{text}");
        }
        for text in ["", "0400", "0660", "0666", "0700", "1600", "+600", "0o600", "rw", "0608", "77777777777"] {
            assert!(FileMode::parse(text.to_owned()).is_err(), "{text}");
        }
        type DirectoryMode = Mode<0o700, 0o755>;
        assert_eq!(DirectoryMode::parse("0750".to_owned()), Ok(0o750));
        assert!(DirectoryMode::parse("0770".to_owned()).unwrap_err().contains("0700 to 0755"));
    }

    #[test]
    fn sizes_are_limited_on_both_sides() {
        type Rate = Size<65_536, 0x100_0000_0000>;
        assert_eq!(Rate::parse("20MiB".to_owned()), Ok(20 << 20));
        assert!(Rate::parse("20".to_owned()).unwrap_err().contains("write 64KiB to 1TiB"));
        assert!(Rate::parse("2TiB".to_owned()).is_err());
        assert!(Size::<1>::parse("0".to_owned()).unwrap_err().contains("write 1 or more"));
    }
}
