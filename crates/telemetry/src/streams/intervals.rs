//! Intervals on a clock that may be set back.

/// Whether `interval` seconds have passed since `last`. A clock that was set back delays nothing.
pub(super) const fn is_due(last: i64, interval: i64, now: i64) -> bool {
    now < last || now.saturating_sub(last) >= interval
}
