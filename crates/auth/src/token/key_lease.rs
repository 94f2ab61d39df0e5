//! When the keys of an issuer are fetched, and how long those that were fetched are believed.

use crate::UnixTime;

/// How long keys are good at least and at most before they are fetched again, whatever the issuer says, seconds.
pub const KEYS_FRESH_SECONDS: (i64, i64) = (600, 86_400);

/// How long they are good when the issuer does not say, seconds.
pub const KEYS_FRESH_SECONDS_DEFAULT: i64 = 3600;

/// At most so often tokens make keys be fetched, seconds: anybody can send a token that names an unknown key.
pub const MISSING_KEY_PAUSE_SECONDS: i64 = 60;

/// Pauses after attempts that failed, seconds: the first one, which doubles, and the longest one with and without keys in hand.
const PAUSE_FIRST: i64 = 10;
const PAUSE_MAX: i64 = 600;
const PAUSE_MAX_WITHOUT_KEYS: i64 = 60;

/// When the keys of one issuer are fetched, and how long those that were fetched are believed.
///
/// The fetcher calls [`Self::begin_fetch`] when [`Self::due`] has come, and reports by [`Self::handle_fetched`] or
/// [`Self::handle_failed`] how it went. Keys are fetched again after three quarters of their time, and are believed for the grace
/// beyond it: while the issuer is away its tokens stay good.
#[derive(Clone, Debug)]
pub struct KeyLease {
    grace_seconds: i64,
    /// When keys are to be fetched next.
    pub due: UnixTime,
    /// When the keys in hand are believed no longer; `None` when there are none.
    pub ends_at: Option<UnixTime>,
    tried_at: Option<UnixTime>,
    is_fetching: bool,
    failures: u32,
}

impl KeyLease {
    /// Of an issuer without keys: they are to be fetched at once.
    pub const fn new(grace_seconds: i64) -> Self {
        let due = UnixTime(i64::MIN);
        Self { grace_seconds, due, ends_at: None, tried_at: None, is_fetching: false, failures: 0 }
    }

    /// Of an issuer whose keys were fetched at `fetched_at` by an earlier process. They are due at once.
    pub const fn resumed(grace_seconds: i64, fetched_at: UnixTime) -> Self {
        Self { ends_at: Some(fetched_at.plus(grace_seconds)), ..Self::new(grace_seconds) }
    }

    /// Whether keys are to be fetched now; who asks does it then.
    pub fn begin_fetch(&mut self, now: UnixTime) -> bool {
        // A clock that was put back must neither put keys off nor prolong them.
        let was_put_back = self.tried_at.is_some_and(|tried| now < tried);
        if was_put_back {
            let latest = now.plus(KEYS_FRESH_SECONDS.1).plus(self.grace_seconds);
            self.ends_at = self.ends_at.map(|ends_at| ends_at.min(latest));
        }
        let is_due = !self.is_fetching && (self.due <= now || was_put_back);
        if is_due {
            self.is_fetching = true;
            self.tried_at = Some(now);
        }
        is_due
    }

    /// Takes note that keys were fetched, which the issuer says are good for `max_age` seconds.
    pub fn handle_fetched(&mut self, now: UnixTime, max_age: Option<u64>) {
        let (least, most) = KEYS_FRESH_SECONDS;
        let stated = max_age.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
        let fresh = stated.unwrap_or(KEYS_FRESH_SECONDS_DEFAULT).clamp(least, most);
        self.is_fetching = false;
        self.failures = 0;
        self.due = now.plus(fresh - fresh / 4);
        self.ends_at = Some(now.plus(fresh).plus(self.grace_seconds));
    }

    /// Takes note that no keys could be fetched.
    pub fn handle_failed(&mut self, now: UnixTime) {
        let longest = if self.ends_at.is_some() { PAUSE_MAX } else { PAUSE_MAX_WITHOUT_KEYS };
        let doubled = PAUSE_FIRST.checked_shl(self.failures.min(16)).unwrap_or(longest);
        self.is_fetching = false;
        self.failures = self.failures.saturating_add(1);
        self.due = now.plus(doubled.min(longest));
    }

    /// Takes note that a token needs a key that is missing. Whether one may come soon: it is being fetched, or is to be at once.
    pub fn handle_missing(&mut self, now: UnixTime) -> bool {
        if self.is_fetching {
            return true;
        }
        // A clock that was put back must not put keys off.
        let is_allowed =
            self.tried_at.is_none_or(|tried| now < tried || now.seconds_since(tried) >= MISSING_KEY_PAUSE_SECONDS);
        if is_allowed {
            self.due = UnixTime(i64::MIN);
        }
        is_allowed
    }

    /// Whether there were keys that are believed no longer. Tells it once.
    pub fn poll_ended(&mut self, now: UnixTime) -> bool {
        self.ends_at.take_if(|ends_at| *ends_at <= now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: i64 = 7200;
    const NOW: UnixTime = UnixTime(1_000_000);

    fn fetched(max_age: Option<u64>) -> KeyLease {
        let mut lease = KeyLease::new(GRACE);
        assert!(lease.begin_fetch(NOW));
        lease.handle_fetched(NOW, max_age);
        lease
    }

    #[test]
    fn keys_are_refreshed_before_expiry_and_valid_for_the_grace_period() {
        for (max_age, fresh) in
            [(None, 3600), (Some(0), 600), (Some(1200), 1200), (Some(u64::MAX), 86_400), (Some(86_401), 86_400)]
        {
            let mut lease = fetched(max_age);
            assert_eq!(lease.due, NOW.plus(fresh * 3 / 4), "{max_age:?}");
            assert!(!lease.begin_fetch(NOW.plus(fresh * 3 / 4 - 1)), "{max_age:?}");
            assert!(!lease.poll_ended(NOW.plus(fresh + GRACE - 1)), "{max_age:?}");
            assert!(lease.poll_ended(NOW.plus(fresh + GRACE)), "{max_age:?}");
            assert!(!lease.poll_ended(NOW.plus(fresh + GRACE)), "it is reported once");
        }
    }

    #[test]
    fn failures_are_followed_by_ever_longer_pauses() {
        let pauses = |mut lease: KeyLease| {
            let pause = |_| {
                lease.handle_failed(NOW);
                lease.due.seconds_since(NOW)
            };
            (0..9).map(pause).collect::<Vec<_>>()
        };
        assert_eq!(pauses(fetched(None)), [10, 20, 40, 80, 160, 320, 600, 600, 600]);
        assert_eq!(pauses(KeyLease::new(GRACE)), [10, 20, 40, 60, 60, 60, 60, 60, 60]);
    }

    #[test]
    fn keys_are_fetched_one_at_a_time_and_for_tokens_once_a_minute_at_most() {
        let mut lease = fetched(None);
        assert!(!lease.handle_missing(NOW.plus(59)));
        assert!(!lease.begin_fetch(NOW.plus(59)));
        assert!(lease.handle_missing(NOW.plus(60)));
        assert!(lease.begin_fetch(NOW.plus(60)));
        lease.handle_failed(NOW.plus(61));
        assert!(!lease.handle_missing(NOW.plus(62)));
        assert!(lease.handle_missing(UnixTime(0)), "the clock was put back");
        let mut lease = KeyLease::new(GRACE);
        assert!(lease.begin_fetch(NOW));
        assert!(!lease.begin_fetch(NOW));
        assert!(lease.handle_missing(NOW), "who needs a key may wait for it");
        lease.handle_fetched(NOW, None);
        assert!(!lease.begin_fetch(NOW));
    }

    #[test]
    fn a_clock_that_was_put_back_neither_puts_keys_off_nor_prolongs_them() {
        let mut lease = fetched(None);
        let now = NOW.plus(-10 * 86_400);
        assert!(lease.begin_fetch(now));
        assert_eq!(lease.ends_at, Some(now.plus(86_400 + GRACE)));
        assert!(!lease.begin_fetch(now.plus(-1)), "it is fetching");
        lease.handle_failed(now);
        assert!(!lease.begin_fetch(now.plus(PAUSE_FIRST - 1)) && lease.begin_fetch(now.plus(PAUSE_FIRST)));
    }

    #[test]
    fn saved_keys_are_valid_for_the_grace_period_and_fetched_again() {
        let mut lease = KeyLease::resumed(GRACE, NOW.plus(-GRACE + 1));
        assert!(!lease.poll_ended(NOW));
        assert!(lease.begin_fetch(NOW));
        lease.handle_failed(NOW);
        assert!(lease.poll_ended(NOW.plus(1)));
        lease.handle_fetched(NOW.plus(2), None);
        assert_eq!(lease.ends_at, Some(NOW.plus(2 + 3600 + GRACE)));
    }
}
