//! Rules about opens.

use super::checker::Checker;
use crate::file::RawRule;
use forebay_cache::{Action, RULES_MAX, ReadAheadSettings, Rule, Rules};
use toml::Spanned;

/// Reads the list; a rule takes from `read_ahead` all that it does not override.
pub(crate) fn read_rules(raw: &[Spanned<RawRule>], read_ahead: ReadAheadSettings, checker: &mut Checker<'_>) -> Rules {
    let tables = checker.at_most(RULES_MAX, "rule", raw);
    Rules::new(tables.iter().map(|table| read_rule(table, read_ahead, checker)).collect())
}

fn read_rule(table: &Spanned<RawRule>, read_ahead: ReadAheadSettings, checker: &mut Checker<'_>) -> Rule {
    let raw = table.get_ref();
    let mut rule = Rule::default();
    raw.apply(&mut rule);
    if let (Some(min), Some(max)) = (rule.size_min, rule.size_max)
        && min > max
    {
        checker.refuse("rule.size_max", raw.size_max.span(), "less than rule.size_min: no file matches");
    }
    rule.caching.read_ahead = read_read_ahead(raw, read_ahead);
    let is_about_caching = raw.block_size.is_set() || raw.fill.is_set() || rule.caching.read_ahead.is_some();
    if is_about_caching && rule.caching.action != Action::Cache {
        let span = raw.action.span().cloned().unwrap_or_else(|| table.span());
        checker.refuse("rule.action", Some(&span), "only files that are cached have blocks and are read ahead");
    }
    rule
}

fn read_read_ahead(raw: &RawRule, mut settings: ReadAheadSettings) -> Option<ReadAheadSettings> {
    let is_set = raw.read_ahead.is_set() || raw.window_max.is_set() || raw.complete_after.is_set();
    raw.read_ahead.store(&mut settings.enabled, None);
    raw.window_max.store(&mut settings.window_max, None);
    raw.complete_after.store(&mut settings.complete_after_percent, None);
    is_set.then_some(settings)
}
