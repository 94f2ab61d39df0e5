//! Durations, and words that stand for special ones.

use super::{field::Parse, number::range_text};
use forebay_cache::ValidityCheck;
use std::{marker::PhantomData, time::Duration};

/// Longest duration that is accepted: a year. Longer ones are mistakes.
const YEAR_MS: u64 = 366 * 86_400_000;

/// Units, largest first. `m` is accepted for `min`.
const UNITS_MS: [(&str, u64); 6] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// A duration from `MIN_MS` to `MAX_MS` milliseconds, such as `250ms`, `30s`, `10min`, `1h`, `1d`.
pub(crate) struct Time<const MIN_MS: u64 = 1, const MAX_MS: u64 = YEAR_MS>;

/// A duration, or `0s`.
pub(crate) struct DurationOrZero;

/// Age of a check: `immutable`, `each-open`, or a duration.
pub(crate) struct Validity;

/// A duration of form `P`, or the word `W` for none.
pub(crate) struct Or<W, P>(PhantomData<(W, P)>);

/// A word that stands for no duration.
pub(crate) trait Word {
    const WORD: &str;
}

pub(crate) struct Never;
pub(crate) struct Off;
pub(crate) struct Unlimited;

impl Word for Never {
    const WORD: &str = "never";
}

impl Word for Off {
    const WORD: &str = "off";
}

impl Word for Unlimited {
    const WORD: &str = "unlimited";
}

impl<const MIN_MS: u64, const MAX_MS: u64> Parse for Time<MIN_MS, MAX_MS> {
    type Toml = String;
    type Value = Duration;

    fn kind() -> String {
        "duration".to_owned()
    }

    fn range() -> Option<String> {
        let is_limited = MIN_MS > 1 || MAX_MS < YEAR_MS;
        is_limited.then(|| range_text(shown(MIN_MS), (MAX_MS < YEAR_MS).then(|| shown(MAX_MS))))
    }

    fn parse(text: String) -> Result<Duration, String> {
        let ms = milliseconds(&text).filter(|ms| (1..=YEAR_MS).contains(ms)).ok_or_else(|| {
            format!(
                "`{text}` is not a duration: write a whole number above 0 and one of ms, s, min, h, d, such as \"30s\"; at most 366d"
            )
        })?;
        if !(MIN_MS..=MAX_MS).contains(&ms) {
            return Err(format!("`{text}` is out of range: write {}", Self::range().unwrap_or_default()));
        }
        Ok(Duration::from_millis(ms))
    }
}

fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let (_, unit_ms) = UNITS_MS.iter().find(|(name, _)| *name == unit.trim())?;
    digits.parse::<u64>().ok()?.checked_mul(*unit_ms)
}

/// The duration in the largest unit in which it is a whole number.
fn shown(ms: u64) -> String {
    let unit = UNITS_MS.iter().find(|(_, unit_ms)| ms.is_multiple_of(*unit_ms));
    unit.map_or_else(String::new, |(name, unit_ms)| format!("{}{name}", ms / unit_ms))
}

impl Parse for DurationOrZero {
    type Toml = String;
    type Value = Duration;

    fn kind() -> String {
        "duration or `0s`".to_owned()
    }

    fn parse(text: String) -> Result<Duration, String> {
        if matches!(text.trim(), "0" | "0s") { Ok(Duration::ZERO) } else { <Time>::parse(text) }
    }
}

impl<W: Word, P: Parse<Toml = String>> Parse for Or<W, P> {
    type Toml = String;
    type Value = Option<P::Value>;

    fn kind() -> String {
        format!("{} or `{}`", P::kind(), W::WORD)
    }

    fn range() -> Option<String> {
        P::range()
    }

    fn parse(text: String) -> Result<Self::Value, String> {
        if text == W::WORD {
            return Ok(None);
        }
        P::parse(text).map(Some).map_err(|error| format!("{error}; or \"{}\"", W::WORD))
    }
}

impl Parse for Validity {
    type Toml = String;
    type Value = ValidityCheck;

    fn kind() -> String {
        "`immutable`, `each-open` or duration".to_owned()
    }

    fn parse(text: String) -> Result<ValidityCheck, String> {
        match text.as_str() {
            "immutable" => Ok(ValidityCheck::Never),
            "each-open" => Ok(ValidityCheck::EachOpen),
            _ => <Time>::parse(text.clone()).map(ValidityCheck::Every).map_err(|_| {
                format!("`{text}` is not a validity: write \"immutable\", \"each-open\", or a duration such as \"1h\"")
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_on_both_sides_of_each_edge() {
        for (text, ms) in [("1ms", 1), ("30s", 30_000), ("10min", 600_000), ("10 m", 600_000), ("1h", 3_600_000)] {
            assert_eq!(<Time>::parse(text.to_owned()), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(<Time>::parse("366d".to_owned()), Ok(Duration::from_millis(YEAR_MS)));
        for text in ["", "5", "s", "0s", "-1s", "1.5s", "367d", "1w", "99999999999999999999s", "9999999999999999999d"] {
            assert!(<Time>::parse(text.to_owned()).is_err(), "{text}");
        }
    }

    #[test]
    fn limits_are_shown_in_their_largest_unit() {
        assert_eq!(Time::<100, 3_600_000>::range().as_deref(), Some("100ms to 1h"));
        assert_eq!(Time::<1000>::range().as_deref(), Some("1s or more"));
        assert_eq!(Time::<1, 604_800_000>::range().as_deref(), Some("1ms to 7d"));
        assert!(Time::<1000>::parse("999ms".to_owned()).unwrap_err().contains("write 1s or more"));
    }

    #[test]
    fn a_word_stands_for_no_duration() {
        assert_eq!(Or::<Off, Time>::parse("off".to_owned()), Ok(None));
        assert_eq!(Or::<Off, Time>::parse("7d".to_owned()), Ok(Some(Duration::from_secs(7 * 86_400))));
        assert!(Or::<Off, Time>::parse("never".to_owned()).unwrap_err().contains("\"off\""));
    }
}
