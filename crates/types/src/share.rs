//! Parts of a whole, as people write them.

use std::{fmt, str::FromStr};

/// A part of a whole from 0 % to 100 %, kept in hundredths of a percent; parses from and prints as `95%`, `92.5%`.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Share(u16);

/// A part that could not be understood.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{text}` is not a percentage: write 0% to 100%, with two digits after the point at most")]
pub struct ShareError {
    pub text: String,
}

const WHOLE: u16 = 10_000;

impl Share {
    pub const ALL: Self = Self(WHOLE);

    /// `percent` out of a hundred; what is above is the whole.
    pub const fn of_percent(percent: u16) -> Self {
        Self(if percent > 100 { WHOLE } else { percent * 100 })
    }

    /// The nearest share to `fraction`, where 1.0 is the whole; `None` when it lies outside of 0 to 1.
    pub fn of_fraction(fraction: f64) -> Option<Self> {
        if !(0.0..=1.0).contains(&fraction) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 10 000")]
        let hundredths = (fraction * f64::from(WHOLE)).round() as u16;
        Some(Self(hundredths))
    }

    /// This part of `total`, rounded down.
    pub fn of(self, total: u64) -> u64 {
        let part = u128::from(total) * u128::from(self.0) / u128::from(WHOLE);
        u64::try_from(part).unwrap_or(total)
    }
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ShareError { text: text.to_owned() };
        let number = text.trim().strip_suffix('%').ok_or_else(error)?.trim_end();
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(part) || part.len() > 2 {
            return Err(error());
        }
        let whole: u16 = whole.parse().map_err(|_| error())?;
        let part: u16 = format!("{part:0<2}").parse().map_err(|_| error())?;
        let hundredths = whole.checked_mul(100).and_then(|whole| whole.checked_add(part)).ok_or_else(error)?;
        if hundredths > WHOLE { Err(error()) } else { Ok(Self(hundredths)) }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0 / 100;
        let part = self.0 % 100;
        match (part, part % 10) {
            (0, _) => write!(f, "{whole}%"),
            (_, 0) => write!(f, "{whole}.{}%", part / 10),
            _ => write!(f, "{whole}.{part:02}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_parse_print_and_do_not_overflow() {
        for (text, part_of_a_million) in
            [("0%", 0), ("95%", 950_000), ("92.5%", 925_000), ("0.05%", 500), ("100%", 1_000_000)]
        {
            let share: Share = text.parse().unwrap();
            assert_eq!(share.of(1_000_000), part_of_a_million, "{text}");
            assert_eq!(share.to_string(), text);
        }
        assert_eq!("50.50 %".parse::<Share>().unwrap().to_string(), "50.5%");
        for text in ["", "%", "95", "101%", "100.01%", "-1%", "1.234%", "1.%", "9e1%", "99999999%"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
        assert_eq!(Share::ALL.of(u64::MAX), u64::MAX);
        assert_eq!(Share::of_percent(50).of(u64::MAX), u64::MAX / 2);
    }

    #[test]
    fn fractions_outside_of_the_whole_are_refused() {
        assert_eq!(Share::of_fraction(0.8), Some(Share::of_percent(80)));
        for fraction in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(Share::of_fraction(fraction), None);
        }
    }
}
