//! Whether a copy may be served: how often it is compared with its origin, and what follows from that.

use forebay_types::Validator;
use std::time::Duration;

/// How copies of files are kept valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ValidityPolicy {
    /// How often a copy is compared with its origin.
    pub check: ValidityCheck,
    /// How long a copy is still served when a check is due and fails; `None` for without end.
    pub stale_max: Option<Duration>,
    /// Whether the origin's checksum is a part of a file's identity, in addition to the rest.
    pub compares_checksum: bool,
}

/// How often a copy is compared with its origin. It is done when a file is opened.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ValidityCheck {
    /// Never: files do not change.
    #[default]
    Never,
    /// When the last good check is at least this old.
    Every(Duration),
    EachOpen,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum CheckOutcome {
    /// The origin's file is the one that is cached.
    Unchanged,
    /// The origin has another file under the name.
    Changed,
    /// The origin has no file under the name.
    Gone,
    /// Nothing: the origin does not answer, or not to the question.
    Failed,
}

/// The decision about a copy.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Verdict {
    Serve,
    Ask,
    /// Serve it although it could not be checked.
    ServeStale,
    /// Give it up, and start a new copy.
    Replace,
    /// Refuse it, and give it up: there is no such file any more.
    Drop,
    /// Keep it, but refuse it until a check succeeds.
    Refuse,
}

/// The identity of the cached file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Remembered {
    pub size: u64,
    /// Empty for entries that do not record one, as those of XCache.
    pub validator: Validator,
    /// When the entry was created, in seconds of the Unix epoch.
    pub created: i64,
}

/// How the origin's file compares with the cached one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Likeness {
    Same,
    Different,
    /// Of the same size with another time of change: another file, unless it is a replica at another server.
    OtherTime,
    /// Of the same size and time of change, but changed so shortly before it was cached that it may have changed once more
    /// within that second.
    TooYoung,
}

/// How long before its entry was created a file must have been changed last, in seconds, for its time of change to distinguish it
/// from what it becomes: times are whole seconds, and the entry is created a moment after the file was opened.
const AGE_MIN: i64 = 2;

impl Default for ValidityPolicy {
    fn default() -> Self {
        Self { check: ValidityCheck::Never, stale_max: Some(Self::STALE_MAX_DEFAULT), compares_checksum: false }
    }
}

impl ValidityPolicy {
    /// How long unchecked copies are served by default.
    pub const STALE_MAX_DEFAULT: Duration = Duration::from_secs(3600);

    /// The same policy with checks after `period`, if they come later otherwise. Copies that are never checked stay so.
    #[must_use]
    pub fn checked_within(self, period: Duration) -> Self {
        match self.check {
            ValidityCheck::Every(longer) if longer > period => Self { check: ValidityCheck::Every(period), ..self },
            ValidityCheck::Every(_) | ValidityCheck::EachOpen | ValidityCheck::Never => self,
        }
    }

    /// The decision about a copy that was last found good at `last_check`, before a check or with the `outcome` of the
    /// one made now. Times are in seconds of the Unix epoch.
    ///
    /// A clock that was put back makes a check due, and no copy older.
    pub fn decide(&self, last_check: i64, now: i64, outcome: Option<CheckOutcome>) -> Verdict {
        let period = match self.check {
            ValidityCheck::Never => return Verdict::Serve,
            ValidityCheck::Every(period) => period,
            ValidityCheck::EachOpen => Duration::ZERO,
        };
        let age = now.saturating_sub(last_check);
        match outcome {
            Some(CheckOutcome::Unchanged) => Verdict::Serve,
            Some(CheckOutcome::Changed) => Verdict::Replace,
            Some(CheckOutcome::Gone) => Verdict::Drop,
            Some(CheckOutcome::Failed) => {
                let served_max = self.stale_max.map(|stale_max| seconds(period).saturating_add(seconds(stale_max)));
                if served_max.is_none_or(|max| age.max(0) < max) { Verdict::ServeStale } else { Verdict::Refuse }
            }
            None if (0..seconds(period)).contains(&age) => Verdict::Serve,
            None => Verdict::Ask,
        }
    }
}

impl Remembered {
    /// Compares with the file of `size` bytes that the origin has now.
    ///
    /// An entry without a validator counts as the same as a file of the same size that has not changed since the entry was
    /// created.
    pub fn compare(&self, size: u64, found: &Validator) -> Likeness {
        if size != self.size {
            return Likeness::Different;
        }
        if self.validator.is_empty() {
            let is_older = found.mtime().is_some_and(|mtime| mtime <= self.created);
            return if is_older { Likeness::Same } else { Likeness::Different };
        }
        match (self.validator.content_agrees(found), self.validator.mtime_agrees(found)) {
            // Without a common part nothing shows that the copy is good.
            (Some(false), _) | (None, None) => Likeness::Different,
            (_, Some(false)) => Likeness::OtherTime,
            (None, Some(true)) if self.is_too_young() => Likeness::TooYoung,
            (_, _) => Likeness::Same,
        }
    }

    fn is_too_young(&self) -> bool {
        self.validator.mtime().is_some_and(|mtime| mtime > self.created.saturating_sub(AGE_MIN))
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use CheckOutcome::{Changed, Failed, Gone, Unchanged};

    const HOUR: Duration = Duration::from_secs(3600);

    fn policy(check: ValidityCheck, stale_max: Option<Duration>) -> ValidityPolicy {
        ValidityPolicy { check, stale_max, compares_checksum: false }
    }

    #[test]
    fn checks_come_earlier_on_request_and_never_later() {
        let policy = |check| ValidityPolicy { check, ..ValidityPolicy::default() };
        let (short, long) = (Duration::from_secs(5), Duration::from_secs(60));
        for (check, within) in [
            (ValidityCheck::Every(long), ValidityCheck::Every(short)),
            (ValidityCheck::Every(Duration::from_secs(1)), ValidityCheck::Every(Duration::from_secs(1))),
            (ValidityCheck::EachOpen, ValidityCheck::EachOpen),
            (ValidityCheck::Never, ValidityCheck::Never),
        ] {
            assert_eq!(policy(check).checked_within(short).check, within);
        }
    }

    #[test]
    fn the_age_of_the_last_check_and_the_outcome_of_this_one_decide() {
        let immutable = policy(ValidityCheck::Never, Some(Duration::ZERO));
        let each = |stale_max| policy(ValidityCheck::EachOpen, stale_max);
        let hourly = |stale_max| policy(ValidityCheck::Every(HOUR), stale_max);
        for (policy, last_check, now, outcome, verdict) in [
            (immutable, 0, 0, None, Verdict::Serve),
            (immutable, 0, 1, None, Verdict::Serve),
            (immutable, 0, i64::MAX, None, Verdict::Serve),
            // A check is due when the last one is old enough.
            (hourly(None), 0, 0, None, Verdict::Serve),
            (hourly(None), 0, 3599, None, Verdict::Serve),
            (hourly(None), 0, 3600, None, Verdict::Ask),
            (hourly(None), 10, 9, None, Verdict::Ask),
            (hourly(None), i64::MIN, i64::MAX, None, Verdict::Ask),
            (each(None), 0, 0, None, Verdict::Ask),
            (each(None), 0, 100, None, Verdict::Ask),
            (each(Some(HOUR)), 0, i64::MAX, Some(Unchanged), Verdict::Serve),
            (each(Some(HOUR)), 0, i64::MAX, Some(Changed), Verdict::Replace),
            (each(Some(HOUR)), 0, i64::MAX, Some(Gone), Verdict::Drop),
            // A failed check gives nothing up, and ends service after a while.
            (each(Some(HOUR)), 0, 0, Some(Failed), Verdict::ServeStale),
            (each(Some(HOUR)), 0, -5, Some(Failed), Verdict::ServeStale),
            (each(Some(HOUR)), 0, 3599, Some(Failed), Verdict::ServeStale),
            (each(Some(HOUR)), 0, 3600, Some(Failed), Verdict::Refuse),
            (each(Some(Duration::ZERO)), 0, 0, Some(Failed), Verdict::Refuse),
            (each(Some(Duration::ZERO)), 0, -5, Some(Failed), Verdict::Refuse),
            (each(Some(Duration::ZERO)), 0, 1, Some(Failed), Verdict::Refuse),
            (each(Some(Duration::MAX)), 0, i64::MAX - 1, Some(Failed), Verdict::ServeStale),
            (each(None), 0, i64::MAX, Some(Failed), Verdict::ServeStale),
            (hourly(Some(HOUR)), 0, 7199, Some(Failed), Verdict::ServeStale),
            (hourly(Some(HOUR)), 0, 7200, Some(Failed), Verdict::Refuse),
        ] {
            assert_eq!(policy.decide(last_check, now, outcome), verdict, "{policy:?} {last_check} {now} {outcome:?}");
        }
    }

    #[test]
    fn copies_are_compared_by_size_and_validator() {
        for (remembered, size, found, likeness) in [
            ("mtime:100", 10, "mtime:100", Likeness::Same),
            ("mtime:100", 11, "mtime:100", Likeness::Different),
            ("mtime:100", 10, "mtime:101", Likeness::OtherTime),
            ("mtime:100", 10, "mtime:99", Likeness::OtherTime),
            ("mtime:498", 10, "mtime:498", Likeness::Same),
            ("mtime:499", 10, "mtime:499", Likeness::TooYoung),
            ("mtime:499", 10, "mtime:600", Likeness::OtherTime),
            ("", 10, "mtime:500", Likeness::Same),
            ("", 10, "mtime:501", Likeness::Different),
            ("", 10, "etag:\"a\"", Likeness::Different),
            ("", 9, "mtime:1", Likeness::Different),
            ("etag:\"a\"", 10, "etag:\"a\"", Likeness::Same),
            ("etag:\"a\"", 10, "etag:\"b\"", Likeness::Different),
            ("etag:\"a\"", 11, "etag:\"a\"", Likeness::Different),
            ("etag:\"a\"", 10, "mtime:100", Likeness::Different),
            ("etag:W/\"a\"", 10, "etag:W/\"a\"", Likeness::Different),
            ("mtime:100 etag:W/\"a\"", 10, "mtime:100 etag:W/\"a\"", Likeness::Same),
            ("mtime:499 etag:\"a\"", 10, "mtime:499 etag:\"a\"", Likeness::Same),
            ("mtime:499 checksum:md5:a", 10, "mtime:499 checksum:md5:a", Likeness::Same),
            ("mtime:499 checksum:md5:a", 10, "mtime:499", Likeness::TooYoung),
            ("mtime:100 etag:\"a\"", 10, "mtime:101 etag:\"a\"", Likeness::OtherTime),
            ("mtime:100 etag:\"a\"", 10, "mtime:101 etag:\"b\"", Likeness::Different),
        ] {
            let entry = Remembered { size: 10, validator: remembered.parse().unwrap(), created: 500 };
            assert_eq!(entry.compare(size, &found.parse().unwrap()), likeness, "{remembered} {size} {found}");
        }
    }
}
