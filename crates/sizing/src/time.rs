//! Times as records write them.

/// Numbers below this are seconds, those below a thousand times that milliseconds, then microseconds: times until the year 5138.
const SECONDS_MAX: i64 = 100_000_000_000;

/// Milliseconds of the Unix epoch from a number of seconds, milliseconds, microseconds or nanoseconds, distinguished by its size.
#[must_use]
pub const fn time_ms(number: i64) -> i64 {
    let magnitude = number.saturating_abs();
    if magnitude < SECONDS_MAX {
        number * 1000
    } else if magnitude < SECONDS_MAX * 1000 {
        number
    } else if magnitude < SECONDS_MAX * 1_000_000 {
        number.div_euclid(1000)
    } else {
        number.div_euclid(1_000_000)
    }
}

/// Milliseconds of the Unix epoch from a number, or from a date and time such as `2026-11-21T21:05:00.5Z`, `2026-11-21 21:05:00+01:00`
/// or `2026-11-21`. Without an offset it is UTC.
#[must_use]
pub fn parse_time_ms(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(number) = text.parse::<i64>() {
        return Some(time_ms(number));
    }
    if let Some((whole, fraction)) = text.split_once('.').filter(|(whole, _)| !whole.contains('-')) {
        let milliseconds = milliseconds_of(fraction)?;
        let whole: i64 = whole.parse().ok()?;
        return Some(if whole < SECONDS_MAX { whole.checked_mul(1000)? + milliseconds } else { time_ms(whole) });
    }
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    let day = days(date)?;
    if rest.is_empty() {
        return Some(day * DAY_MS);
    }
    let rest = rest.strip_prefix(['T', ' '])?;
    let (clock, offset_ms) = split_offset(rest)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = clock.split(':').map(|part| number(part, 2));
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(day * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + milliseconds_of(fraction)? - offset_ms)
}

const DAY_MS: i64 = 86_400_000;

/// The clock and the offset from UTC in milliseconds.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(clock) = text.strip_suffix('Z') {
        return Some((clock, 0));
    }
    let Some(at) = text.find(['+', '-']) else { return Some((text, 0)) };
    let (clock, offset) = text.split_at_checked(at)?;
    let (sign, digits) = (if offset.starts_with('-') { -1 } else { 1 }, offset.get(1..)?);
    let (hours, minutes) = digits.split_once(':').or_else(|| digits.split_at_checked(2))?;
    let minutes = if minutes.is_empty() { 0 } else { number(minutes, 2)? };
    Some((clock, sign * (number(hours, 2)? * 60 + minutes) * 60_000))
}

/// The first three digits of a fraction of a second.
fn milliseconds_of(fraction: &str) -> Option<i64> {
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    fraction.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn number(text: &str, len: usize) -> Option<i64> {
    (text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Days of the Unix epoch of a date `YYYY-MM-DD`.
fn days(date: &str) -> Option<i64> {
    let mut parts = date.split('-');
    let (year, month, day) = (number(parts.next()?, 4)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // The year begins in March here, so that the leap day is its last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * month + 2) / 5 + day - 1;
    Some(365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_apart_by_their_form() {
        for (text, milliseconds) in [
            ("1700000000", 1_700_000_000_000),
            ("1700000000.25", 1_700_000_000_250),
            ("1700000000123", 1_700_000_000_123),
            ("1700000000123456", 1_700_000_000_123),
            ("1700000000123456789", 1_700_000_000_123),
            ("2023-11-14T22:13:20Z", 1_700_000_000_000),
            ("2023-11-14 22:13:20", 1_700_000_000_000),
            ("2023-11-14T23:13:20.5+01:00", 1_700_000_000_500),
            ("2023-11-14T20:13:20-0200", 1_700_000_000_000),
            ("1970-01-01", 0),
            ("2024-02-29", 1_709_164_800_000),
            ("-1", -1000),
        ] {
            assert_eq!(parse_time_ms(text), Some(milliseconds), "{text}");
        }
        for text in ["", "yesterday", "2023-13-01", "2023-11-14T25:00:00Z", "2023-11-14T22", "1.x", "2023-11-14X", "é"]
        {
            assert_eq!(parse_time_ms(text), None, "{text}");
        }
    }
}
