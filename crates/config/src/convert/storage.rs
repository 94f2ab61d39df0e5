//! Disks, quotas, expiry, and the order of watermarks.

use super::checker::Checker;
use crate::{
    config::{Config, DiskConfig},
    file::{Raw, RawDisk, RawPurge, RawQuota},
};
use forebay_cache::{Budget, EXPIRIES_MAX, Expiry, Mark, PurgeRules, Quota};
use forebay_types::ByteSize;
use toml::Spanned;

/// Most quotas: each is looked at for every new file.
const QUOTAS_MAX: usize = 1000;

/// Reads the lists; notes bounds that contradict each other.
pub(crate) fn read_purge(raw: &Raw, rules: &mut PurgeRules, checker: &mut Checker<'_>) {
    for table in checker.at_most(QUOTAS_MAX, "quota", &raw.quota) {
        if let Some(quota) = read_quota(table, &rules.quotas, checker) {
            rules.quotas.push(quota);
        }
    }
    for table in checker.at_most(EXPIRIES_MAX, "expiry", &raw.expiry) {
        if !table.get_ref().unused.is_set() {
            let text = "an expiry without a time: write how long files stay unused, or \"never\"";
            checker.refuse("expiry.unused", Some(&table.span()), text);
        }
        let mut expiry = Expiry::default();
        table.get_ref().apply(&mut expiry);
        rules.expiries.push(expiry);
    }
    check_marks(&raw.purge, rules, checker);
}

fn read_quota(table: &Spanned<RawQuota>, others: &[Quota], checker: &mut Checker<'_>) -> Option<Quota> {
    let raw = table.get_ref();
    let span = raw.path.span().cloned().unwrap_or_else(|| table.span());
    if !raw.path.is_set() {
        checker.refuse("quota.path", Some(&span), "a quota without a path: write that of the files it is for");
    }
    let path = raw.path.value()?;
    if others.iter().any(|other| other.path == path) {
        checker.refuse("quota.path", Some(&span), format_args!("a second quota of {path}: write one"));
    }
    if !raw.min.is_set() && !raw.max.is_set() {
        checker.refuse("quota.path", Some(&span), "a quota without a limit: set min, max, or both");
    }
    let mut quota = Quota { path, min_bytes: 0, max_bytes: None };
    raw.apply(&mut quota);
    if quota.max_bytes.is_some_and(|max| max < quota.min_bytes) {
        checker.refuse("quota.max", raw.max.span(), "less than the min of this quota");
    }
    Some(quota)
}

fn check_marks(raw: &RawPurge, rules: &PurgeRules, checker: &mut Checker<'_>) {
    let of_bytes = (raw.low.span(), "purge.low", "purge.high");
    let of_inodes = (raw.inodes_low.span(), "purge.inodes_low", "purge.inodes_high");
    for (budget, (span, low, high)) in [(&rules.bytes, of_bytes), (&rules.inodes, of_inodes)] {
        if !is_in_order(budget) {
            let text = format_args!("{} is above {}: a purge would never end", checker.name(low), checker.name(high));
            checker.refuse(low, span, text);
        }
    }
    let guaranteed = rules.quotas.iter().fold(0_u64, |sum, quota| sum.saturating_add(quota.min_bytes));
    if let Some(low) = rules.bytes.total.map(|total| rules.bytes.marks.low.of(total))
        && guaranteed > low
    {
        let (guaranteed, low) = (ByteSize(guaranteed), ByteSize(low));
        let text =
            format_args!("the quotas guarantee {guaranteed}, more than the {low} down to which a purge removes files");
        checker.refuse("purge.low", raw.low.span(), text);
    }
}

/// Whether the low mark is not above the high one. Marks of different kinds compare only under a budget: without one they
/// depend on the file system.
fn is_in_order(budget: &Budget) -> bool {
    match (budget.marks.low, budget.marks.high, budget.total) {
        (Mark::Share(low), Mark::Share(high), _) => low <= high,
        (Mark::Amount(low), Mark::Amount(high), _) => low <= high,
        (low, high, Some(total)) => low.of(total) <= high.of(total),
        (_, _, None) => true,
    }
}

/// Most disks: more than any machine has.
const DISKS_MAX: usize = 256;

/// Checks the division of the store; disks and limits have been read.
pub(crate) fn check_parts(raw: &Raw, config: &Config, checker: &mut Checker<'_>) {
    if config.parts.count.is_none() {
        return;
    }
    let rules = &config.engine.purge.rules;
    let has_limit = rules.bytes.total.is_some() || rules.inodes.total.is_some() || !rules.quotas.is_empty();
    if has_limit {
        let text = "fillers that share a store do not know how much the others keep: leave out purge.budget, purge.budget_inodes and [[quota]]";
        checker.refuse("store.parts", raw.store.parts.span(), text);
    }
    if !raw.store.path.is_set() {
        let text = format_args!("only one directory can be divided: write it as {}", checker.name("store.path"));
        checker.refuse("store.parts", raw.store.parts.span(), text);
    }
}

/// Reads the list, or the one disk of the short form.
pub(crate) fn read_disks(raw: &Raw, checker: &mut Checker<'_>) -> Vec<DiskConfig> {
    let short = &raw.store.path;
    if short.is_set() && !raw.disk.is_empty() {
        let name = checker.name("store.path");
        let text = format_args!("both {name} and [[disk]]: write each directory as a [[disk]] of its own");
        checker.refuse("store.path", short.span(), text);
    }
    if let (Some(path), []) = (short.get(), &raw.disk[..]) {
        return vec![DiskConfig { setting: "store.path".to_owned(), path: path.clone(), weight: 1, is_mounted: false }];
    }
    let mut disks: Vec<DiskConfig> = Vec::new();
    for (index, table) in checker.at_most(DISKS_MAX, "disk", &raw.disk).iter().enumerate() {
        if let Some(disk) = read_disk(index, table, &disks, checker) {
            disks.push(disk);
        }
    }
    disks
}

fn read_disk(
    index: usize,
    table: &Spanned<RawDisk>,
    others: &[DiskConfig],
    checker: &mut Checker<'_>,
) -> Option<DiskConfig> {
    let raw = table.get_ref();
    if !raw.path.is_set() {
        checker.refuse("disk.path", Some(&table.span()), "a disk without a directory: write its path");
    }
    let path = raw.path.value()?;
    // Files of a disk in the tree of another one would be taken for entries of that.
    if let Some(other) = others.iter().find(|other| other.path.starts_with(&path) || path.starts_with(&other.path)) {
        let text = format_args!(
            "{} and {} are not two disks: write separate directories",
            path.display(),
            other.path.display()
        );
        checker.refuse("disk.path", raw.path.span(), text);
    }
    let mut disk = DiskConfig { setting: format!("disk[{index}].path"), path, weight: 1, is_mounted: false };
    raw.apply(&mut disk);
    Some(disk)
}
