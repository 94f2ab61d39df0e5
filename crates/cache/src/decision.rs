//! Rules that decide whether an opened file is cached: by path, size, client and opaque data.

use crate::{FillPolicy, PathPattern, ReadAheadSettings};
use forebay_types::{BlockSize, glob_matches};

/// Most rules of a list: each open walks it.
pub const RULES_MAX: usize = 1024;

/// Rules in order; the first one that matches decides. Without rules, or when none matches, files are cached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    rules: Vec<Rule>,
}

/// The opens that a rule applies to, and its decision. An unset condition matches everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// Paths; of files whose origin the client names, as `/root:/HOST:PORT/path`.
    pub path: Option<PathPattern>,
    /// Least size in bytes.
    pub size_min: Option<u64>,
    /// Largest size in bytes.
    pub size_max: Option<u64>,
    /// The client's user name as it gave it; `*` stands for any run of characters.
    pub user: Option<String>,
    /// The client's address or host name; `*` stands for any run of characters.
    pub host: Option<String>,
    /// Opaque data that the request must carry, all of them.
    pub cgi: Vec<CgiPattern>,
    pub caching: CachingDecision,
}

/// One `key=value` pair of opaque data.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CgiPattern {
    pub key: String,
    /// The value, in which `*` stands for any run of characters; `None` for any value or none.
    pub value: Option<String>,
}

/// How an open is handled.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CachingDecision {
    pub action: Action,
    /// Block size of the entry if it is new; `None` for that of the store.
    pub block_size: Option<BlockSize>,
    /// Read-ahead; `None` for the settings of the cache.
    pub read_ahead: Option<ReadAheadSettings>,
    /// How much of a file is fetched; `None` for what its export says, or the cache.
    pub fill: Option<FillPolicy>,
}

forebay_types::named_enum! {
    /// Where the bytes of a file go.
    #[derive(Default)]
    pub enum Action {
        #[default]
        Cache = "cache",
        Bypass = "bypass",
        /// To the client straight from the origin, to which it is sent.
        Redirect = "redirect",
    }
}

/// An open as the rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The path; of a file whose origin the client names, `/root:/HOST:PORT/path`.
    pub path: &'a str,
    /// The client's user name as it gave it.
    pub user: &'a str,
    pub host: &'a str,
    pub cgi: &'a str,
    /// The file's size in bytes, if it is known yet.
    pub size: Option<u64>,
}

/// The outcome of the rules.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Decision {
    Caching(CachingDecision),
    /// It depends on the size of the file, which is not known.
    NeedsSize,
}

impl Rules {
    /// A list of rules; those after [`RULES_MAX`] are dropped.
    pub fn new(mut rules: Vec<Rule>) -> Self {
        rules.truncate(RULES_MAX);
        Self { rules }
    }

    /// Decides what becomes of an open.
    pub fn decide(&self, subject: &Subject<'_>) -> Decision {
        let mut matching = self.rules.iter().filter(|rule| rule.matches_name_and_client(subject));
        let decided = matching.find_map(|rule| match subject.size {
            _ if !rule.depends_on_size() => Some(Decision::Caching(rule.caching)),
            None => Some(Decision::NeedsSize),
            Some(size) => rule.matches_size(size).then_some(Decision::Caching(rule.caching)),
        });
        decided.unwrap_or_else(|| Decision::Caching(CachingDecision::default()))
    }
}

impl Rule {
    const fn depends_on_size(&self) -> bool {
        self.size_min.is_some() || self.size_max.is_some()
    }

    fn matches_size(&self, size: u64) -> bool {
        self.size_min.is_none_or(|min| size >= min) && self.size_max.is_none_or(|max| size <= max)
    }

    fn matches_name_and_client(&self, subject: &Subject<'_>) -> bool {
        let matches = |pattern: &Option<String>, text: &str| {
            pattern.as_ref().is_none_or(|pattern| glob_matches(pattern.as_bytes(), text.as_bytes()))
        };
        self.path.as_ref().is_none_or(|path| path.matches(subject.path))
            && matches(&self.user, subject.user)
            && matches(&self.host, subject.host)
            && self.cgi.iter().all(|wanted| wanted.is_in(subject.cgi))
    }
}

impl CgiPattern {
    /// Reads `key=value`, or `key` for any value.
    pub fn parse(text: &str) -> Option<Self> {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (text, None),
        };
        let is_plain = |text: &str| !text.contains(|c: char| c == '&' || c.is_whitespace() || c.is_control());
        (!key.is_empty() && is_plain(text)).then(|| Self { key: key.to_owned(), value: value.map(str::to_owned) })
    }

    fn is_in(&self, cgi: &str) -> bool {
        cgi.split('&').any(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let matches = |wanted: &String| glob_matches(wanted.as_bytes(), value.as_bytes());
            key == self.key && self.value.as_ref().is_none_or(matches)
        })
    }
}

/// When a file that is there in part counts as cached: for clients that ask whether it is, and for those that want it only
/// then. A complete file always does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CachedCriteria {
    /// Least bytes present of a file that is larger than this.
    pub size_min: u64,
    /// Least part of the file that is present, from 0 to 1.
    pub fraction_min: f64,
}

impl Default for CachedCriteria {
    fn default() -> Self {
        Self { size_min: 1 << 20, fraction_min: 1.0 }
    }
}

impl CachedCriteria {
    /// Whether a file of `size` bytes counts as cached when `present` bytes of it are on disk.
    #[expect(clippy::cast_precision_loss, reason = "whole files are compared before; a fraction need not be exact")]
    pub fn are_met(&self, present: u64, size: u64) -> bool {
        if present >= size {
            return true;
        }
        let is_enough = size <= self.size_min || present >= self.size_min;
        is_enough && self.fraction_min < 1.0 && present as f64 >= size as f64 * self.fraction_min
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Subject<'static> =
        Subject { path: "/store/mc/a.root", user: "prod", host: "192.0.2.7", cgi: "a=1&flag&b=x", size: Some(1000) };

    fn pattern(text: &str) -> Option<PathPattern> {
        Some(PathPattern::parse(text).unwrap())
    }

    fn bypass(rule: Rule) -> Rule {
        Rule { caching: CachingDecision { action: Action::Bypass, ..CachingDecision::default() }, ..rule }
    }

    fn decides(rule: Rule, subject: &Subject<'_>) -> bool {
        match Rules::new(vec![bypass(rule)]).decide(subject) {
            Decision::Caching(caching) => caching.action == Action::Bypass,
            Decision::NeedsSize => panic!("the size is known"),
        }
    }

    #[test]
    fn every_condition_of_a_rule_must_hold() {
        let text = |text: &str| Some(text.to_owned());
        let cgi = |texts: &[&str]| texts.iter().map(|text| CgiPattern::parse(text).unwrap()).collect::<Vec<_>>();
        for rule in [
            Rule::default(),
            Rule { path: pattern("/store/**"), ..Rule::default() },
            Rule { user: text("pr*"), host: text("192.0.2.*"), ..Rule::default() },
            Rule { size_min: Some(1000), size_max: Some(1000), ..Rule::default() },
            Rule { cgi: cgi(&["a=1", "flag", "b", "b=*"]), ..Rule::default() },
        ] {
            assert!(decides(rule.clone(), &CLIENT), "{rule:?}");
        }
        for rule in [
            Rule { path: pattern("/store/data/**"), ..Rule::default() },
            Rule { path: pattern("/store/**"), user: text("other"), ..Rule::default() },
            Rule { host: text("192.0.3.*"), ..Rule::default() },
            Rule { size_min: Some(1001), ..Rule::default() },
            Rule { size_max: Some(999), ..Rule::default() },
            Rule { cgi: cgi(&["a=1", "c"]), ..Rule::default() },
            Rule { cgi: cgi(&["a=2"]), ..Rule::default() },
        ] {
            assert!(!decides(rule.clone(), &CLIENT), "{rule:?}");
        }
    }

    #[test]
    fn the_first_rule_that_matches_decides_and_the_default_is_to_cache() {
        let small_blocks = CachingDecision { block_size: Some(BlockSize::MIN), ..CachingDecision::default() };
        let rules = Rules::new(vec![
            Rule { path: pattern("/store/mc/**"), caching: small_blocks, ..Rule::default() },
            bypass(Rule { path: pattern("/store/**"), ..Rule::default() }),
        ]);
        let caching = |path| match rules.decide(&Subject { path, ..CLIENT }) {
            Decision::Caching(caching) => caching,
            Decision::NeedsSize => panic!("no rule asks for the size"),
        };
        assert_eq!(caching("/store/mc/a"), small_blocks);
        assert_eq!(caching("/store/data/a").action, Action::Bypass);
        assert_eq!(caching("/user/a"), CachingDecision::default());
    }

    #[test]
    fn the_size_is_asked_for_only_when_it_matters() {
        let bypassed = Decision::Caching(CachingDecision { action: Action::Bypass, ..CachingDecision::default() });
        let large = bypass(Rule { path: pattern("/store/**"), size_min: Some(1000), ..Rule::default() });
        let user = bypass(Rule { path: pattern("/user/**"), ..Rule::default() });
        let rules = Rules::new(vec![user, large]);
        let decide = |path, size| rules.decide(&Subject { path, size, ..CLIENT });
        assert_eq!(decide("/store/a", None), Decision::NeedsSize);
        assert_eq!(decide("/store/a", Some(1000)), bypassed);
        assert_eq!(decide("/store/a", Some(999)), Decision::Caching(CachingDecision::default()));
        assert_eq!(decide("/other", None), Decision::Caching(CachingDecision::default()));
        assert_eq!(decide("/user/a", None), bypassed);
    }

    #[test]
    fn opaque_data_is_read_as_pairs() {
        assert_eq!(CgiPattern::parse("key"), Some(CgiPattern { key: "key".to_owned(), value: None }));
        assert_eq!(CgiPattern::parse("key=").and_then(|pattern| pattern.value), Some(String::new()));
        for text in ["", "=a", "a=b&c=d", "a b"] {
            assert_eq!(CgiPattern::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_file_counts_as_cached_as_in_xcache() {
        let criteria = CachedCriteria { size_min: 1000, fraction_min: 0.5 };
        for (present, size, is_cached) in [
            (0, 0, true),
            (10, 10, true),
            (5, 10, true),
            (4, 10, false),
            (1000, 2000, true),
            (1000, 2001, false),
            (999, 1100, false),
            (1000, 1100, true),
            (0, 1, false),
        ] {
            assert_eq!(criteria.are_met(present, size), is_cached, "{present} of {size}");
        }
        let default = CachedCriteria::default();
        assert!(!default.are_met(u64::MAX - 1, u64::MAX));
        assert!(default.are_met(1 << 40, 1 << 40));
        assert!(CachedCriteria { fraction_min: 0.0, ..default }.are_met(0, 10));
    }
}
