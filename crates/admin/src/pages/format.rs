//! Numbers and times as pages show them.

use forebay_types::date_of_day;

/// A number of bytes with three digits and a unit: `1.23 TB`. Powers of 1000, as disks and networks count.
pub(super) fn bytes(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut value = count as f64;
    for unit in ["B", "kB", "MB", "GB", "TB", "PB"] {
        if value < 999.5 || unit == "PB" {
            return with_unit(value, unit);
        }
        value /= 1000.0;
    }
    String::new()
}

pub(super) fn rate(bytes_per_s: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are positive and small")]
    let whole = bytes_per_s.max(0.0) as u64;
    format!("{}/s", bytes(whole))
}

fn with_unit(value: f64, unit: &str) -> String {
    match value {
        _ if unit == "B" => format!("{value:.0} B"),
        _ if value < 9.995 => format!("{value:.2} {unit}"),
        _ if value < 99.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// A share as `12.3 %`; a dash without one.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

/// `part` of `whole`; `None` of nothing.
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let share = part as f64 / whole as f64;
    (whole > 0).then_some(share)
}

/// A count with thin spaces between groups of digits.
pub(super) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A duration by its two largest units.
pub(super) fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A time as `2026-11-21 21:05` (UTC).
pub(super) fn time(unix: i64) -> String {
    let (days, seconds) = (unix.div_euclid(86_400), unix.rem_euclid(86_400));
    let (year, month, day) = date_of_day(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", seconds / 3600, seconds / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        for (value, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (12_345, "12.3 kB"),
            (999_600, "1.00 MB"),
            (1_234_567_890_123, "1.23 TB"),
            (u64::MAX, "18447 PB"),
        ] {
            assert_eq!(bytes(value), text);
        }
        assert_eq!(rate(-1.0), "0 B/s");
        assert_eq!((percent(share(1, 3)), percent(share(1, 0))), ("33.3 %".to_owned(), "–".to_owned()));
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
    }

    #[test]
    fn times_are_dates_and_durations_have_two_units() {
        for (unix, text) in
            [(0, "1970-01-01 00:00"), (1_795_553_940, "2026-11-24 20:59"), (951_782_400, "2000-02-29 00:00")]
        {
            assert_eq!(time(unix), text);
        }
        for (seconds, text) in [(5, "5 s"), (65, "1 min 5 s"), (3700, "1 h 1 min"), (90_000, "1 d 1 h")] {
            assert_eq!(duration(seconds), text);
        }
    }
}
