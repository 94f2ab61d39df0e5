//! Dates in fields and in listings.

use httpdate::{HttpDate, parse_http_date};
use std::time::{Duration, UNIX_EPOCH};

/// The last second that a date can name: the end of the year 9999.
const UNIX_TIME_MAX: u64 = 253_402_300_799;

/// A time in seconds of the Unix epoch as a date of HTTP. Times that no date can name are written as the nearest one.
pub fn http_date(unix_time: i64) -> String {
    let seconds = u64::try_from(unix_time).unwrap_or(0).min(UNIX_TIME_MAX);
    HttpDate::from(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

/// The seconds of the Unix epoch that a date of HTTP names, in any of its three forms.
pub fn unix_time(date: &str) -> Option<i64> {
    let since = parse_http_date(date).ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

/// The same time in the form of ISO 8601, as WebDAV's `creationdate` has it.
pub fn iso_date(unix_time: i64) -> String {
    let seconds = u64::try_from(unix_time).unwrap_or(0).min(UNIX_TIME_MAX);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March: the leap day is the last one.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dates_are_those_of_the_standards() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(iso_date(784_111_777), "1994-11-06T08:49:37Z");
        assert_eq!(iso_date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!((http_date(-5), iso_date(-5)), (http_date(0), iso_date(0)));
        assert_eq!(http_date(i64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(unix_time(text), Some(784_111_777), "{text}");
        }
        assert_eq!(unix_time("yesterday"), None);
    }

    proptest! {
        #[test]
        fn both_forms_name_the_same_day(time in 0..253_402_300_799_i64) {
            prop_assert_eq!(unix_time(&http_date(time)), Some(time));
            let (http, iso) = (http_date(time), iso_date(time));
            prop_assert_eq!(&http[5..7], &iso[8..10]);
            prop_assert_eq!(&http[12..16], &iso[0..4]);
            prop_assert_eq!(&http[17..25], &iso[11..19]);
        }
    }
}
