//! Durations as people write them.

use std::time::Duration;

/// Longest duration that is accepted: a year. Longer ones are mistakes.
const DURATION_MAX: Duration = Duration::from_secs(366 * 86_400);

/// A text that is no duration.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{text}` is not a duration: write a whole number above 0 and one of ms, s, min, h, d, such as \"30s\"; at most 366d"
)]
pub(crate) struct DurationError {
    text: String,
}

/// Reads `250ms`, `30s`, `10min` (or `10m`), `1h`, `1d`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let error = || DurationError { text: text.to_owned() };
    let trimmed = text.trim();
    let (digits, unit) = trimmed.split_at(trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len()));
    let unit_ms = match unit.trim() {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(error()),
    };
    let count: u64 = digits.parse().map_err(|_| error())?;
    let duration = count.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(error)?;
    if duration.is_zero() || duration > DURATION_MAX {
        return Err(error());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_on_both_sides_of_each_edge() {
        for (text, ms) in [("1ms", 1), ("30s", 30_000), ("10min", 600_000), ("10 m", 600_000), ("1h", 3_600_000)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse_duration("366d"), Ok(DURATION_MAX));
        for text in ["", "5", "s", "0s", "-1s", "1.5s", "367d", "1w", "99999999999999999999s", "9999999999999999999d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
