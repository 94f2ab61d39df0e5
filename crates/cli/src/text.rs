//! Human-readable numbers, times and names.

use forebay_auth::UnixTime;
use forebay_types::FileKind;
use std::borrow::Cow;

/// A time in seconds of the Unix epoch as `2026-11-21 21:05:00` (UTC).
pub(crate) fn utc(unix: i64) -> String {
    UnixTime(unix).utc()
}

/// The same in the format of `xrdpfc_print`: `261121:210500`.
pub(crate) fn utc_compact(unix: i64) -> String {
    let text = utc(unix);
    let digits = |part: &str| part.chars().filter(char::is_ascii_digit).collect::<String>();
    let (date, time) = text.split_once(' ').unwrap_or((&text, ""));
    let date = digits(date);
    format!("{}:{}", date.get(date.len().saturating_sub(6)..).unwrap_or_default(), digits(time))
}

/// The same in the format of `ctime`: `Sat Nov 21 21:05:00 2026`.
pub(crate) fn utc_calendar(unix: i64) -> String {
    let (days, (year, month, day)) = (unix.div_euclid(86_400), UnixTime(unix).date());
    let name = |names: &[&'static str], index: i64| {
        usize::try_from(index).ok().and_then(|index| names.get(index).copied()).unwrap_or_default()
    };
    // The epoch began on a Thursday.
    let (weekday, month) = (name(&WEEKDAYS, (days + 4).rem_euclid(7)), name(&MONTHS, month - 1));
    let utc = utc(unix);
    let time = utc.rsplit(' ').next().unwrap_or_default();
    format!("{weekday} {month} {day:>2} {time} {year}")
}

const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A number of bytes with a suitable unit: `512 B`, `1.5 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, size) in UNITS {
        if count >= size {
            let tenths = u128::from(count) * 10 / u128::from(size);
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
    }
    format!("{count} B")
}

/// Bytes per second over `seconds`, as `123.4 MiB/s`.
pub(crate) fn rate(count: u64, seconds: f64) -> String {
    const MIB: f64 = 1_048_576.0;
    #[expect(clippy::cast_precision_loss, reason = "a rate is shown with one decimal")]
    let rate = count as f64 / seconds.max(1e-6) / MIB;
    format!("{rate:.1} MiB/s")
}

/// A duration in seconds by its three largest units: `3d 4h 5min`.
pub(crate) fn long_duration(seconds: u64) -> String {
    let parts = [("d", seconds / 86_400), ("h", seconds / 3600 % 24), ("min", seconds / 60 % 60), ("s", seconds % 60)];
    let parts = parts.into_iter().skip_while(|&(unit, count)| count == 0 && unit != "s").take(3);
    parts.map(|(unit, count)| format!("{count}{unit}")).collect::<Vec<_>>().join(" ")
}

/// A name with control characters escaped, because they could control the terminal.
pub(crate) fn printable(name: &str) -> Cow<'_, str> {
    if name.contains(char::is_control) {
        let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
        Cow::Owned(name.chars().map(escape).collect())
    } else {
        Cow::Borrowed(name)
    }
}

/// The letter of a kind of entry in a listing.
pub(crate) const fn kind_letter(kind: FileKind) -> char {
    match kind {
        FileKind::File => '-',
        FileKind::Directory => 'd',
        FileKind::Other => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(-1), "1969-12-31 23:59:59");
        assert_eq!(utc_compact(1_709_251_199), "240229:235959");
        assert_eq!(utc_calendar(1_700_000_000), "Tue Nov 14 22:13:20 2023");
        assert_eq!(utc_calendar(0), "Thu Jan  1 00:00:00 1970");
    }

    #[test]
    fn sizes_have_one_decimal() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(u64::MAX), "16777215.9 TiB");
        assert_eq!(rate(1 << 20, 0.5), "2.0 MiB/s");
    }

    #[test]
    fn durations_have_three_units_at_most() {
        for (seconds, text) in [(0, "0s"), (59, "59s"), (60, "1min 0s"), (3661, "1h 1min 1s"), (90_061, "1d 1h 1min")] {
            assert_eq!(long_duration(seconds), text);
        }
    }

    #[test]
    fn names_cannot_control_the_terminal() {
        assert_eq!(printable("a b ü"), "a b ü");
        assert_eq!(printable("a\x1b[31m\n"), "a\\u{1b}[31m\\n");
    }
}
