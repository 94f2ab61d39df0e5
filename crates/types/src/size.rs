//! Sizes with units, as people write them.

use std::{fmt, str::FromStr};

/// A number of bytes that parses from and prints as `64KiB`, `1GiB`, `1500`.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct ByteSize(pub u64);

/// A size that could not be understood.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{text}` is not a size: write a number and one of KiB, MiB, GiB, TiB (powers of 1024) or no unit for bytes")]
pub struct ByteSizeError {
    pub text: String,
}

const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    /// Accepts `KiB`..`TiB`, the short forms `k`, `m`, `g`, `t` of XRootD configurations, and `B` or no unit.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ByteSizeError { text: text.to_owned() };
        let trimmed = text.trim();
        let digits_len = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
        let (digits, unit) = trimmed.split_at(digits_len);
        let factor = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            _ => return Err(error()),
        };
        let count: u64 = digits.parse().map_err(|_| error())?;
        count.checked_mul(factor).map(Self).ok_or_else(error)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, factor) in UNITS {
            if self.0 != 0 && self.0.is_multiple_of(factor) {
                return write!(f, "{}{unit}", self.0 / factor);
            }
        }
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_with_and_without_units_and_print_in_the_largest_exact_one() {
        for (text, bytes) in [("0", 0), ("64KiB", 65536), ("64k", 65536), ("1 GiB", 1 << 30), ("12B", 12)] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["", "KiB", "-1", "1.5G", "1KB", "99999999999TiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
        assert_eq!(ByteSize(65536).to_string(), "64KiB");
        assert_eq!(ByteSize(1500).to_string(), "1500");
        assert_eq!(ByteSize(0).to_string(), "0");
    }
}
