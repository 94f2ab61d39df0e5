//! Sizes, times and fractions as xrootd reads them.

use std::{ops::RangeInclusive, time::Duration};

/// A number of bytes: digits, a decimal point perhaps, and one of `k`, `m`, `g`, `t` (powers of 1024) or nothing.
pub(super) fn size(text: &str) -> Option<u64> {
    let factor = match text.chars().next_back()?.to_ascii_lowercase() {
        'k' => 1_u64 << 10,
        'm' => 1 << 20,
        'g' => 1 << 30,
        't' => 1 << 40,
        _ => 1,
    };
    let digits = if factor == 1 { text } else { text.get(..text.len() - 1)? };
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = !digits.trim_matches('.').is_empty()
        && [whole, decimals].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_number || decimals.len() > DECIMALS_MAX {
        return None;
    }
    let number = |part: &str| if part.is_empty() { Some(0) } else { part.parse::<u64>().ok() };
    let bytes = number(whole)?.checked_mul(factor)?;
    let decimals_unit = 10_u64.pow(u32::try_from(decimals.len()).ok()?);
    let part = u128::from(number(decimals)?) * u128::from(factor) / u128::from(decimals_unit);
    bytes.checked_add(u64::try_from(part).ok()?)
}

/// Most decimals of a number.
const DECIMALS_MAX: usize = 15;

/// A time: digits and one of `s`, `m`, `h`, `d`, or nothing for seconds.
pub(super) fn time(text: &str) -> Option<Duration> {
    let factor = match text.chars().next_back()?.to_ascii_lowercase() {
        's' | '0'..='9' => 1_u64,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let is_number = text.len() - digits.len() <= 1 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let count: u64 = is_number.then(|| digits.parse().ok()).flatten()?;
    count.checked_mul(factor).map(Duration::from_secs)
}

/// A time as a setting holds it, in whole seconds and the largest exact unit.
pub(super) fn time_text(time: Duration) -> String {
    let seconds = time.as_secs();
    for (unit, factor) in [("d", 86_400), ("h", 3600), ("min", 60)] {
        if seconds != 0 && seconds.is_multiple_of(factor) {
            return format!("{}{unit}", seconds / factor);
        }
    }
    format!("{seconds}s")
}

/// The value within the limits, and which of them replaced it.
pub(super) fn limited<T: Clone + Ord>(value: T, range: &RangeInclusive<T>) -> (T, Option<&'static str>) {
    if value < *range.start() {
        (range.start().clone(), Some("the minimum"))
    } else if value > *range.end() {
        (range.end().clone(), Some("the maximum"))
    } else {
        (value, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_decimals_and_units() {
        for (text, bytes) in
            [("0", 0), ("512k", 512 << 10), ("1M", 1 << 20), ("1.5g", 3 << 29), (".5k", 512), ("2t", 2 << 40), ("7", 7)]
        {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "k", ".", "1kb", "-1", "1e3", "0x10", "99999999999999999999", "99999999999g", "1..2"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("30", 30), ("30s", 30), ("5M", 300), ("2h", 7200), ("1d", 86_400)] {
            assert_eq!(time(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "s", "1w", "1.5h", "5min", "-3", "99999999999999999999", "9999999999999999999d"] {
            assert_eq!(time(text), None, "{text}");
        }
        for (seconds, text) in [(0, "0s"), (59, "59s"), (90, "90s"), (120, "2min"), (7200, "2h"), (86_400, "1d")] {
            assert_eq!(time_text(Duration::from_secs(seconds)), text);
        }
    }
}
