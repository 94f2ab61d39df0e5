//! Points in time.

use std::fmt;

/// A point in time: whole seconds since 1970-01-01 00:00 UTC.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct UnixTime(pub i64);

impl UnixTime {
    /// The time `seconds` later, or earlier when they are negative; the end of time when that is beyond it.
    #[must_use]
    pub const fn plus(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds))
    }

    /// Seconds from `earlier` to this time; negative when `earlier` is later.
    #[must_use]
    pub const fn seconds_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for UnixTime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, out)
    }
}
