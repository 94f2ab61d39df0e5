//! How the cache is kept within bounds.

use crate::{
    checker::Checker,
    duration::parse_duration,
    raw::{Raw, RawExpiry, RawPurge, RawQuota},
};
use forebay_cache::{Budget, EXPIRIES_MAX, Expiry, Mark, PathPattern, Policy, PurgeRules, Quota};
use forebay_engine::PurgeOptions;
use forebay_types::{ByteSize, Lfn};
use std::time::Duration;
use toml::Spanned;

/// Most quotas: each is looked at for every new file.
const QUOTAS_MAX: usize = 1000;

/// Longest and shortest pause between two measurements.
const INTERVAL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));

/// Shortest time after which unused files go: times of use are whole seconds.
const UNUSED_MIN: Duration = Duration::from_secs(1);

/// Reads the tables; notes bounds that contradict each other.
pub(crate) fn read_purge(raw: &Raw, checker: &mut Checker<'_>) -> PurgeOptions {
    let Raw { purge: raw, quota: quotas, expiry: expiries, .. } = raw;
    let mut options = PurgeOptions::default();
    let rules = &mut options.rules;
    checker.set(&mut rules.policy, "purge.policy", raw.policy.as_ref(), |text| {
        let names = Policy::ALL.map(Policy::as_str).join(", ");
        Policy::parse(text).ok_or_else(|| format!("`{text}` is no policy: write one of {names}"))
    });
    rules.bytes.total = checker.read("purge.budget", raw.budget.as_ref(), |text| parse_size(text).and_then(positive));
    rules.inodes.total = checker.read("purge.budget_inodes", raw.budget_inodes.as_ref(), |&number| positive(number));
    let (bytes, inodes) = (&mut rules.bytes.marks, &mut rules.inodes.marks);
    checker.set(&mut bytes.high, "purge.high", raw.high.as_ref(), |text| parse_mark(text));
    checker.set(&mut bytes.low, "purge.low", raw.low.as_ref(), |text| parse_mark(text));
    checker.set(&mut inodes.high, "purge.inodes_high", raw.inodes_high.as_ref(), |text| parse_count(text));
    checker.set(&mut inodes.low, "purge.inodes_low", raw.inodes_low.as_ref(), |text| parse_count(text));
    rules.free_min = checker.read("purge.free_min", raw.free_min.as_ref(), |text| parse_mark(text));
    rules.age_max = checker.read("purge.age_max", raw.age_max.as_ref(), |text: &String| parse_duration(text));
    checker.set(&mut options.interval, "purge.interval", raw.interval.as_ref(), |text| {
        let interval = parse_duration(text).map_err(|error| error.to_string())?;
        let is_useful = (INTERVAL.0..=INTERVAL.1).contains(&interval);
        if is_useful { Ok(interval) } else { Err(format!("`{text}` is out of range: write 100ms to 1h")) }
    });
    options.rules.quotas = read_quotas(quotas, checker);
    options.rules.expiries = read_expiries(expiries, checker);
    check_marks(raw, &options.rules, checker);
    options
}

fn read_quotas(raw: &[Spanned<RawQuota>], checker: &mut Checker<'_>) -> Vec<Quota> {
    let mut quotas: Vec<Quota> = Vec::new();
    for table in raw {
        let quota = table.get_ref();
        let span = quota.path.as_ref().map_or_else(|| table.span(), Spanned::span);
        let Some(path) = &quota.path else {
            checker.refuse("quota.path", Some(&span), "a quota without a path: say which files it is for");
            continue;
        };
        let Some(path) = checker.read("quota.path", Some(path), |text| Lfn::parse(text)) else { continue };
        if quotas.iter().any(|other| other.path == path) {
            checker.refuse("quota.path", Some(&span), format_args!("a second quota of {path}: write one"));
        }
        let min_bytes = checker.read("quota.min", quota.min.as_ref(), |text| parse_size(text)).unwrap_or(0);
        let max_bytes = checker.read("quota.max", quota.max.as_ref(), |text| parse_size(text));
        if quota.min.is_none() && quota.max.is_none() {
            checker.refuse("quota.path", Some(&span), "a quota that bounds nothing: give min, max, or both");
        }
        if max_bytes.is_some_and(|max| max < min_bytes) {
            checker.refuse(
                "quota.max",
                quota.max.as_ref().map(Spanned::span).as_ref(),
                "less than the min of this quota",
            );
        }
        quotas.push(Quota { path, min_bytes, max_bytes });
    }
    if quotas.len() > QUOTAS_MAX {
        checker.refuse("quota.path", None, format_args!("{} quotas: write {QUOTAS_MAX} at most", quotas.len()));
    }
    quotas
}

fn read_expiries(raw: &[Spanned<RawExpiry>], checker: &mut Checker<'_>) -> Vec<Expiry> {
    let mut expiries = Vec::new();
    for table in raw {
        let RawExpiry { path, vo, unused } = table.get_ref();
        if unused.is_none() {
            let text = "a rule that says nothing: write how long files stay unused, or \"never\"";
            checker.refuse("expiry.unused", Some(&table.span()), text);
        }
        expiries.push(Expiry {
            path: checker.read("expiry.path", path.as_ref(), |text| PathPattern::parse(text)),
            vo: checker.read("expiry.vo", vo.as_ref(), |text| parse_vo(text)),
            unused: checker.read("expiry.unused", unused.as_ref(), |text| parse_unused(text)).flatten(),
        });
    }
    if let Some(table) = raw.get(EXPIRIES_MAX) {
        let text = format_args!("{} rules on expiry: write {EXPIRIES_MAX} at most", raw.len());
        checker.refuse("expiry", Some(&table.span()), text);
    }
    expiries
}

fn parse_vo(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control()) {
        return Err(format!("`{}` is no organization: write its name, such as \"cms\"", text.escape_default()));
    }
    Ok(text.to_owned())
}

fn parse_unused(text: &str) -> Result<Option<Duration>, String> {
    if text == "never" {
        return Ok(None);
    }
    let unused = parse_duration(text).map_err(|error| error.to_string())?;
    if unused < UNUSED_MIN { Err(format!("`{text}` is too short: write 1s or more")) } else { Ok(Some(unused)) }
}

/// What no single value can be blamed for.
fn check_marks(raw: &RawPurge, rules: &PurgeRules, checker: &mut Checker<'_>) {
    let of_bytes = (raw.low.as_ref(), "purge.low", "purge.high");
    let of_inodes = (raw.inodes_low.as_ref(), "purge.inodes_low", "purge.inodes_high");
    for (budget, (low, low_name, high_name)) in [(&rules.bytes, of_bytes), (&rules.inodes, of_inodes)] {
        if !is_in_order(budget) {
            let (low_name_there, high_name_there) = (checker.source().name(low_name), checker.source().name(high_name));
            let text = format_args!("{low_name_there} is above {high_name_there}: a purge would never end");
            let span = low.map(Spanned::span);
            checker.refuse(low_name, span.as_ref(), text);
        }
    }
    let guaranteed: u64 = rules.quotas.iter().fold(0, |sum, quota| sum.saturating_add(quota.min_bytes));
    if let Some(low) = rules.bytes.total.map(|total| rules.bytes.marks.low.of(total)).filter(|low| guaranteed > *low) {
        let text = format_args!(
            "the quotas guarantee {}, which is more than the {} to which a purge goes down",
            ByteSize(guaranteed),
            ByteSize(low)
        );
        checker.refuse("purge.low", raw.low.as_ref().map(Spanned::span).as_ref(), text);
    }
}

/// Whether the low mark is not above the high one, as far as that can be told without the file system.
fn is_in_order(budget: &Budget) -> bool {
    match (budget.marks.low, budget.marks.high, budget.total) {
        (Mark::Share(low), Mark::Share(high), _) => low <= high,
        (Mark::Amount(low), Mark::Amount(high), _) => low <= high,
        (low, high, Some(total)) => low.of(total) <= high.of(total),
        (_, _, None) => true,
    }
}

fn parse_mark(text: &str) -> Result<Mark, String> {
    if text.trim().ends_with('%') {
        return text.parse().map(Mark::Share).map_err(|error: forebay_types::ShareError| error.to_string());
    }
    parse_size(text).map(Mark::Amount)
}

fn parse_count(text: &str) -> Result<Mark, String> {
    if text.trim().ends_with('%') {
        return parse_mark(text);
    }
    let number = text.trim().parse().map_err(|_| format!("`{text}` is neither a percentage nor a number of inodes"))?;
    Ok(Mark::Amount(number))
}

fn parse_size(text: &str) -> Result<u64, String> {
    let size: ByteSize = text.parse().map_err(|error: forebay_types::ByteSizeError| error.to_string())?;
    Ok(size.0)
}

fn positive(number: u64) -> Result<u64, String> {
    if number == 0 { Err("nothing could be kept: write a number above 0".to_owned()) } else { Ok(number) }
}
