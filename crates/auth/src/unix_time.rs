//! Points in time.

use std::fmt;

/// A point in time: whole seconds since 1970-01-01 00:00 UTC.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct UnixTime(pub i64);

impl UnixTime {
    /// The time `seconds` later, or earlier if they are negative; at most the end of time.
    #[must_use]
    pub const fn plus(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds))
    }

    /// Seconds from `earlier` to this time; negative when `earlier` is later.
    pub const fn seconds_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The time as people read it: `2026-11-22 05:40:00` (UTC).
    pub fn utc(self) -> String {
        let ((year, month, day), second) = (self.date(), self.0.rem_euclid(86_400));
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }

    /// The beginning of a day in the Gregorian calendar. Days beyond the end of a month count from the next one.
    pub const fn of_date(year: i64, month: i64, day: i64) -> Self {
        let year = if month <= 2 { year - 1 } else { year };
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        Self((era * 146_097 + day_of_era - 719_468) * 86_400)
    }

    /// Year, month and day in the Gregorian calendar.
    pub const fn date(self) -> (i64, i64, i64) {
        // With years that begin on 1 March, leap days are the last days of years; 400 years have 146 097 days.
        let days = self.0.div_euclid(86_400).saturating_add(719_468);
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        (year_of_era + era * 400 + if month <= 2 { 1 } else { 0 }, month, day)
    }
}

impl fmt::Display for UnixTime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_709_208_000, "2024-02-29 12:00:00"),
            (1_709_251_199, "2024-02-29 23:59:59"),
            (1_709_251_200, "2024-03-01 00:00:00"),
            (4_102_444_799, "2099-12-31 23:59:59"),
            (4_107_542_399, "2100-02-28 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(UnixTime(seconds).utc(), text);
            let (year, month, day) = UnixTime(seconds).date();
            assert_eq!(UnixTime::of_date(year, month, day), UnixTime(seconds - seconds.rem_euclid(86_400)));
        }
    }
}
