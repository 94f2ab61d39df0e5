//! Rules, validity, and what else is decided about opens.

use crate::{
    checker::Checker,
    convert::parse_block_size,
    duration::parse_duration,
    raw::{RawDecision, RawForwarding, RawRule},
    service::{RawService, read_service},
};
use forebay_cache::{
    Action, CachedCriteria, CachingDecision, CgiPattern, FillPolicy, PathPattern, RULES_MAX, ReadAheadSettings, Rule,
    Rules, ValidityCheck, ValidityPolicy,
};
use forebay_engine::DecisionOptions;
use forebay_types::ByteSize;
use std::{convert::Infallible, time::Duration};
use toml::Spanned;

/// Longest pattern of a client or of opaque data in bytes: every open is compared with it.
const PATTERN_LEN_MAX: usize = 300;

/// The settings of one place that say how copies are kept valid.
pub(crate) struct RawValidity<'a> {
    /// Names of the three settings.
    pub(crate) names: [&'static str; 3],
    pub(crate) validity: Option<&'a Spanned<String>>,
    pub(crate) stale_max: Option<&'a Spanned<String>>,
    pub(crate) compare_checksum: Option<&'a Spanned<bool>>,
}

/// Reads everything that is decided about opens. Rules fill in what they do not say of reading ahead from `read_ahead`.
pub(crate) fn read_decisions(
    decision: &RawDecision,
    rules: &[Spanned<RawRule>],
    forwarding: &RawForwarding,
    read_ahead: ReadAheadSettings,
    checker: &mut Checker<'_>,
) -> DecisionOptions {
    let mut options = DecisionOptions {
        cached: read_criteria(decision, checker),
        rules: read_rules(rules, read_ahead, checker),
        ..DecisionOptions::default()
    };
    let negative_time = decision.negative_time.as_ref();
    checker.set(&mut options.negative_time, "decision.negative_time", negative_time, |text| duration_or_zero(text));
    checker.set_duration(&mut options.check_time_max, "decision.check_time_max", decision.check_time_max.as_ref());
    let validity = RawValidity {
        names: ["forwarding.validity", "forwarding.stale_max", "forwarding.compare_checksum"],
        validity: forwarding.validity.as_ref(),
        stale_max: forwarding.stale_max.as_ref(),
        compare_checksum: forwarding.compare_checksum.as_ref(),
    };
    options.forwarding_validity = read_validity(&validity, checker);
    let origin_check = forwarding.origin_check.as_ref();
    let asks_leave = &mut options.forwarding_authorizes_at_origin;
    checker.set(asks_leave, "forwarding.origin_check", origin_check, |&on| Ok::<_, Infallible>(on));
    let service = RawService {
        names: ["forwarding.direct", "forwarding.miss", "forwarding.fill"],
        direct: forwarding.direct.as_ref(),
        miss: forwarding.miss.as_ref(),
        fill: forwarding.fill.as_ref(),
    };
    options.forwarding_service = read_service(&service, checker);
    options
}

/// Reads how copies are kept valid.
pub(crate) fn read_validity(raw: &RawValidity<'_>, checker: &mut Checker<'_>) -> ValidityPolicy {
    let mut policy = ValidityPolicy::default();
    let [validity, stale_max, compare_checksum] = raw.names;
    checker.set(&mut policy.check, validity, raw.validity, |text| match text.as_str() {
        "immutable" => Ok(ValidityCheck::Never),
        "each-open" => Ok(ValidityCheck::EachOpen),
        text => parse_duration(text).map(ValidityCheck::Every).map_err(|_| {
            format!(
                "`{text}` is no validity: write \"immutable\", \"each-open\", or how old a check may be, such as \"1h\""
            )
        }),
    });
    checker.set(&mut policy.stale_max, stale_max, raw.stale_max, |text| match text.as_str() {
        "unlimited" => Ok(None),
        text => duration_or_zero(text).map(Some).map_err(|_| {
            format!("`{text}` is no such time: write a duration such as \"1h\", \"0s\", or \"unlimited\"")
        }),
    });
    checker.set(&mut policy.compares_checksum, compare_checksum, raw.compare_checksum, |&on| Ok::<_, Infallible>(on));
    policy
}

fn read_criteria(raw: &RawDecision, checker: &mut Checker<'_>) -> CachedCriteria {
    let mut criteria = CachedCriteria::default();
    let (size_min, fraction_min) = (raw.cached_size_min.as_ref(), raw.cached_fraction_min.as_ref());
    checker.set(&mut criteria.size_min, "decision.cached_size_min", size_min, |text| parse_size(text));
    checker.set(&mut criteria.fraction_min, "decision.cached_fraction_min", fraction_min, |&fraction| {
        let is_fraction = (0.0..=1.0).contains(&fraction);
        if is_fraction {
            Ok(fraction)
        } else {
            Err(format!("{fraction} is out of range: write a number from 0.0 to 1.0"))
        }
    });
    criteria
}

fn read_rules(raw: &[Spanned<RawRule>], read_ahead: ReadAheadSettings, checker: &mut Checker<'_>) -> Rules {
    if let Some(first_too_many) = raw.get(RULES_MAX) {
        let text = format_args!("{} rules: write {RULES_MAX} at most", raw.len());
        checker.refuse("rule", Some(&first_too_many.span()), text);
    }
    Rules::new(raw.iter().map(|table| read_rule(table, read_ahead, checker)).collect())
}

fn read_rule(table: &Spanned<RawRule>, read_ahead: ReadAheadSettings, checker: &mut Checker<'_>) -> Rule {
    let raw = table.get_ref();
    let mut rule = Rule {
        path: checker.read("rule.path", raw.path.as_ref(), |text| PathPattern::parse(text)),
        size_min: checker.read("rule.size_min", raw.size_min.as_ref(), |text| parse_size(text)),
        size_max: checker.read("rule.size_max", raw.size_max.as_ref(), |text| parse_size(text)),
        user: checker.read("rule.user", raw.user.as_ref(), |text| parse_pattern(text)),
        host: checker.read("rule.host", raw.host.as_ref(), |text| parse_pattern(text)),
        cgi: checker.read_list("rule.cgi", raw.cgi.as_ref(), parse_cgi).unwrap_or_default(),
        caching: CachingDecision::default(),
    };
    if let (Some(min), Some(max), Some(written)) = (rule.size_min, rule.size_max, &raw.size_max)
        && min > max
    {
        checker.refuse("rule.size_max", Some(&written.span()), "less than rule.size_min: no file matches");
    }
    checker.set(&mut rule.caching.action, "rule.action", raw.action.as_ref(), |text| {
        let actions = [Action::Cache, Action::Bypass, Action::Redirect];
        actions
            .into_iter()
            .find(|action| action.as_str() == text)
            .ok_or_else(|| format!("`{text}` is no action: write \"cache\", \"bypass\" or \"redirect\""))
    });
    rule.caching.block_size = checker.read("rule.block_size", raw.block_size.as_ref(), |text| parse_block_size(text));
    rule.caching.read_ahead = read_read_ahead(raw, read_ahead, checker);
    rule.caching.fill = checker.read("rule.fill", raw.fill.as_ref(), |text| text.parse::<FillPolicy>());
    let says_how = raw.block_size.is_some() || raw.fill.is_some() || rule.caching.read_ahead.is_some();
    if says_how && rule.caching.action != Action::Cache {
        let span = raw.action.as_ref().map_or_else(|| table.span(), Spanned::span);
        checker.refuse("rule.action", Some(&span), "only files that are cached have blocks and are read ahead");
    }
    rule
}

/// What a rule says of reading ahead, the rest as in `settings`; `None` when it says nothing of that.
fn read_read_ahead(
    raw: &RawRule,
    mut settings: ReadAheadSettings,
    checker: &mut Checker<'_>,
) -> Option<ReadAheadSettings> {
    let is_said = raw.read_ahead.is_some() || raw.window_max.is_some() || raw.complete_after.is_some();
    checker.set(&mut settings.enabled, "rule.read_ahead", raw.read_ahead.as_ref(), |&on| Ok::<_, Infallible>(on));
    checker.set(&mut settings.window_max, "rule.window_max", raw.window_max.as_ref(), |text| parse_size(text));
    let mut percent = 0;
    checker.set_number(&mut percent, "rule.complete_after", raw.complete_after.as_ref(), (1, 100));
    if raw.complete_after.is_some() {
        settings.complete_after_percent = Some(percent);
    }
    is_said.then_some(settings)
}

fn parse_size(text: &str) -> Result<u64, String> {
    text.parse().map(|ByteSize(bytes)| bytes).map_err(|error: forebay_types::ByteSizeError| error.to_string())
}

fn duration_or_zero(text: &str) -> Result<Duration, String> {
    if matches!(text.trim(), "0" | "0s") {
        return Ok(Duration::ZERO);
    }
    parse_duration(text).map_err(|error| error.to_string())
}

fn parse_pattern(text: &str) -> Result<String, String> {
    let is_good = !text.is_empty() && text.len() <= PATTERN_LEN_MAX;
    is_good
        .then(|| text.to_owned())
        .ok_or_else(|| format!("write 1 to {PATTERN_LEN_MAX} bytes; `*` stands for any run"))
}

fn parse_cgi(text: &str) -> Result<CgiPattern, String> {
    let pattern = CgiPattern::parse(text).filter(|_| text.len() <= PATTERN_LEN_MAX);
    pattern.ok_or_else(|| {
        format!("`{}` is no pair of opaque data: write \"key=value\", or \"key\" for any value", text.escape_default())
    })
}

#[cfg(test)]
mod tests {
    use crate::Settings;
    use forebay_cache::{Action, Decision, FillPolicy, Subject, ValidityCheck};
    use std::{path::Path, time::Duration};

    fn parse(text: &str) -> Result<Settings, crate::ConfigError> {
        let whole = format!("store.path = \"/s\"\n[[export]]\norigins = [\"root://o\"]\n{text}");
        Settings::parse(Path::new("test.toml"), whole)
    }

    #[test]
    fn an_export_says_how_its_copies_are_kept_valid() {
        for (text, check, stale_max) in [
            ("", ValidityCheck::Never, Some(3600)),
            ("validity = \"immutable\"", ValidityCheck::Never, Some(3600)),
            ("validity = \"each-open\"\nstale_max = \"0s\"", ValidityCheck::EachOpen, Some(0)),
            ("validity = \"10min\"\nstale_max = \"unlimited\"", ValidityCheck::Every(Duration::from_secs(600)), None),
        ] {
            let validity = parse(text).unwrap().config.exports[0].validity;
            assert_eq!((validity.check, validity.stale_max), (check, stale_max.map(Duration::from_secs)), "{text}");
        }
        let forwarding = parse("[forwarding]\nvalidity = \"1h\"\ncompare_checksum = true").unwrap().config.decisions;
        assert_eq!(forwarding.forwarding_validity.check, ValidityCheck::Every(Duration::from_secs(3600)));
        assert!(forwarding.forwarding_validity.compares_checksum);
    }

    #[test]
    fn rules_are_read_in_order() {
        let config = parse(
            "[[rule]]\npath = \"/store/tmp/**\"\nsize_min = \"1GiB\"\naction = \"bypass\"\n\
             [[rule]]\nuser = \"prod*\"\ncgi = [\"a=1\", \"b\"]\nblock_size = \"1MiB\"\nfill = \"to-end\"\n",
        );
        let rules = config.unwrap().config.decisions.rules;
        let subject = Subject { path: "/store/tmp/a", user: "prod1", host: "h", cgi: "a=1&b=2", size: None };
        assert_eq!(rules.decide(&subject), Decision::NeedsSize);
        let Decision::Caching(large) = rules.decide(&Subject { size: Some(1 << 30), ..subject }) else { panic!() };
        assert_eq!(large.action, Action::Bypass);
        let Decision::Caching(small) = rules.decide(&Subject { size: Some(1), ..subject }) else { panic!() };
        assert_eq!(small.block_size.map(forebay_types::BlockSize::bytes), Some(1 << 20));
        assert_eq!((small.fill, small.read_ahead), (Some(FillPolicy::ToEnd), None));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_where_it_stands() {
        for (text, problem) in [
            ("validity = \"often\"", "is no validity"),
            ("stale_max = \"long\"", "is no such time"),
            ("[[rule]]\npath = \"*.root\"", "matches no path"),
            ("[[rule]]\naction = \"drop\"", "is no action"),
            ("[[rule]]\nsize_min = \"2k\"\nsize_max = \"1k\"", "no file matches"),
            ("[[rule]]\ncgi = [\"a&b\"]", "is no pair"),
            ("[[rule]]\nuser = \"\"", "1 to 300 bytes"),
            ("[[rule]]\naction = \"bypass\"\nblock_size = \"1MiB\"", "only files that are cached"),
            ("[[rule]]\nfill = \"later\"", "is no fill policy"),
            ("[[rule]]\ncomplete_after = 0", "from 1 to 100"),
            ("[decision]\ncached_fraction_min = 1.5", "from 0.0 to 1.0"),
            ("[decision]\nnegative_time = \"soon\"", "is not a duration"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("test.toml:"), "{text}: {error}");
        }
        assert_eq!(parse("[decision]\nnegative_time = \"0s\"").unwrap().config.decisions.negative_time, Duration::ZERO);
    }
}
