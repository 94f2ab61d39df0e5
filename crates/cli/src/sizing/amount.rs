//! Sizes of caches as sites buy them: powers of 1000, or of 1024 with an `i`.

use std::{fmt, str::FromStr};

/// A number of bytes that parses from `20TB`, `1.5PB`, `256TiB` or `1000000`, and prints with a decimal unit.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Amount(pub(super) u64);

const DECIMAL: [(&str, u64); 5] =
    [("PB", 1_000_000_000_000_000), ("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000)];

const BINARY: [(&str, u64); 5] =
    [("PiB", 1 << 50), ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Largest size: an exbibyte.
const BYTES_MAX: f64 = (1_u64 << 60) as f64;

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let (digits, unit) = trimmed.split_at(trimmed.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(trimmed.len()));
        let known = DECIMAL.iter().chain(&BINARY).find(|(name, _)| name.eq_ignore_ascii_case(unit));
        let factor = known.map(|(_, factor)| *factor).or_else(|| matches!(unit, "" | "B").then_some(1));
        let bytes = digits.trim().parse().ok().zip(factor).map(|(count, factor): (f64, u64)| count * factor as f64);
        match bytes.filter(|bytes| (1.0..=BYTES_MAX).contains(bytes)) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
            Some(bytes) => Ok(Self(bytes.round() as u64)),
            None => Err(format!("`{text}` is not a size: write 20TB, 1.5PB, 256TiB or a number of bytes up to 1 EiB")),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&decimal(self.0 as f64))
    }
}

/// A number of bytes with a decimal unit and three significant digits.
pub(crate) fn decimal(bytes: f64) -> String {
    let (unit, factor) = DECIMAL.iter().find(|(_, factor)| bytes.abs() >= *factor as f64).copied().unwrap_or(("B", 1));
    let count = bytes / factor as f64;
    let digits = match count.abs() {
        count if unit == "B" || count >= 100.0 => 0,
        count if count >= 10.0 => 1,
        _ => 2,
    };
    format!("{count:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_decimal_unless_they_say_otherwise() {
        for (text, bytes) in [
            ("20TB", 20_000_000_000_000),
            ("1.5 pb", 1_500_000_000_000_000),
            ("2TiB", 2 << 40),
            ("17", 17),
            ("17B", 17),
            ("1024PiB", 1 << 60),
        ] {
            assert_eq!(text.parse(), Ok(Amount(bytes)), "{text}");
        }
        for text in ["", "TB", "-1TB", "0", "1025PiB", "1XB", "1TBB", "nanTB", "infTB"] {
            assert!(text.parse::<Amount>().is_err(), "{text}");
        }
        assert_eq!(Amount(20_000_000_000_000).to_string(), "20.0 TB");
        assert_eq!(
            (decimal(1_234.0), decimal(-5e15), decimal(999.0)),
            ("1.23 kB".into(), "-5.00 PB".into(), "999 B".into())
        );
    }
}
