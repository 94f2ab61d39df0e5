//! Expiry: how long unused entries stay.

use super::PurgeRules;
use crate::{CacheKey, PathPattern};
use forebay_types::{PurgeReason, glob_matches};
use std::time::Duration;

/// Most rules on expiry: each is looked at for every new file, and its number fits a byte.
pub const EXPIRIES_MAX: usize = 250;

/// How long some entries stay without being used. The first rule that matches an entry decides; where none does,
/// [`PurgeRules::age_max`] counts. An unset condition matches everything.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Expiry {
    pub path: Option<PathPattern>,
    /// The organisation that the entry was fetched for; `*` stands for any run of characters. Entries without an organisation do not match.
    pub vo: Option<String>,
    /// Entries that were not used for longer than this go, however much room there is; `None` for never.
    pub unused: Option<Duration>,
}

impl Expiry {
    fn matches(&self, key: &CacheKey, owner: Option<&str>) -> bool {
        let is_owner = |vo: &String| owner.is_some_and(|owner| glob_matches(vo.as_bytes(), owner.as_bytes()));
        self.path.as_ref().is_none_or(|path| path.matches(key.as_str())) && self.vo.as_ref().is_none_or(is_owner)
    }
}

/// The number of the rule that an entry of `key` that belongs to `owner` is under.
pub(super) fn expiry_of(expiries: &[Expiry], key: &CacheKey, owner: Option<&str>) -> Option<u8> {
    let number = expiries.iter().position(|expiry| expiry.matches(key, owner))?;
    u8::try_from(number).ok()
}

/// How long entries stay, by the number of their rule.
#[derive(Debug)]
pub(super) struct Lifetimes {
    by_rule: Vec<Option<Duration>>,
    others: Option<Duration>,
}

impl Lifetimes {
    pub(super) fn new(rules: &PurgeRules) -> Self {
        Self { by_rule: rules.expiries.iter().map(|expiry| expiry.unused).collect(), others: rules.age_max }
    }

    /// Why an entry under rule number `expiry`, last used at `last_use_ms`, is to go at `now_ms`, if it is. Both times are
    /// milliseconds of the Unix epoch.
    pub(super) fn reason_to_go(&self, expiry: Option<u8>, last_use_ms: i64, now_ms: i64) -> Option<PurgeReason> {
        let (lifetime, reason) = match expiry.and_then(|number| self.by_rule.get(usize::from(number))) {
            Some(lifetime) => (*lifetime, PurgeReason::Expired),
            None => (self.others, PurgeReason::Age),
        };
        let lifetime_ms = i64::try_from(lifetime?.as_millis()).unwrap_or(i64::MAX);
        (last_use_ms < now_ms.saturating_sub(lifetime_ms)).then_some(reason)
    }
}

impl PurgeRules {
    /// The shortest time after which an unused entry goes; `None` when room alone decides.
    pub fn lifetime_min(&self) -> Option<Duration> {
        self.expiries.iter().filter_map(|expiry| expiry.unused).chain(self.age_max).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn rule(path: Option<&str>, vo: Option<&str>, unused: Option<Duration>) -> Expiry {
        Expiry { path: path.map(|path| PathPattern::parse(path).unwrap()), vo: vo.map(str::to_owned), unused }
    }

    #[test]
    fn the_first_rule_that_matches_path_and_organisation_counts() {
        let expiries = [
            rule(Some("/store/user/**"), Some("cms"), Some(DAY)),
            rule(Some("/store/user/keep/*"), None, None),
            rule(None, Some("atlas*"), Some(DAY)),
            rule(Some("/root:/o:1094/**"), None, Some(DAY)),
        ];
        let of = |path: &str, owner| expiry_of(&expiries, &CacheKey::from_text(path).unwrap(), owner);
        assert_eq!(of("/store/user/keep/f", Some("cms")), Some(0));
        assert_eq!(of("/store/user/keep/f", Some("cmsx")), Some(1));
        assert_eq!(of("/store/user/keep/f", None), Some(1));
        assert_eq!(of("/store/user/f", None), None);
        assert_eq!(of("/f", Some("atlas.de")), Some(2));
        assert_eq!(of("/f", Some("")), None);
        assert_eq!(of("/root:/o:1094/f", None), Some(3));
        assert_eq!(expiry_of(&[rule(None, None, None)], &CacheKey::from_text("/f").unwrap(), None), Some(0));
    }

    #[test]
    fn an_entry_goes_when_it_was_unused_for_longer_than_its_time_and_not_sooner() {
        let expiries = vec![rule(None, None, Some(DAY)), rule(None, None, None)];
        let rules = PurgeRules { expiries, age_max: Some(2 * DAY), ..PurgeRules::default() };
        let lifetimes = Lifetimes::new(&rules);
        let day_ms = 86_400_000;
        let go = |expiry, unused_ms| lifetimes.reason_to_go(expiry, 7, 7 + unused_ms);
        assert_eq!((go(Some(0), day_ms), go(Some(0), day_ms + 1)), (None, Some(PurgeReason::Expired)));
        assert_eq!(go(Some(1), i64::MAX - 7), None);
        assert_eq!((go(None, 2 * day_ms), go(None, 2 * day_ms + 1)), (None, Some(PurgeReason::Age)));
        assert_eq!(rules.lifetime_min(), Some(DAY));
        let none = Lifetimes::new(&PurgeRules::default());
        assert_eq!(none.reason_to_go(None, i64::MIN, i64::MAX), None);
        assert_eq!(PurgeRules::default().lifetime_min(), None);
        // Clocks may go back, and times may be the largest there are.
        let longest = PurgeRules { age_max: Some(Duration::MAX), ..PurgeRules::default() };
        assert_eq!(Lifetimes::new(&longest).reason_to_go(None, 0, i64::MAX), None);
        assert_eq!(go(Some(0), -5), None);
    }
}
