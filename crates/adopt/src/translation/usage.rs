//! `pfc.diskusage` and the list of quotas: how much the cache may take.

use super::{
    item::Item,
    lists::read_list,
    note::Verdict,
    site::{Notes, Site, Written},
    values::{size, time},
};
use std::time::Duration;

/// How much the cache may take.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Usage {
    /// Use of the file system down to which a purge goes, and above which it begins.
    pub(super) low: Amount,
    pub(super) high: Amount,
    /// What the cache itself may take: use at which it is left alone, and the most.
    pub(super) files: Option<(Amount, Amount)>,
    /// Files not used for longer than this go.
    pub(super) age_max: Option<Duration>,
}

/// An amount of bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Amount {
    /// A part of what there is, in millionths.
    Part(u32),
    /// A number of bytes.
    Bytes(u64),
}

/// What files below a path may take.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Quota {
    pub(super) path: String,
    pub(super) bytes: u64,
}

/// Parts of [`Amount::Part`] that make a whole.
pub(super) const WHOLE: u32 = 1_000_000;

/// `pfc.diskusage LOW HIGH [files BASE NOMINAL MAX] [purgeinterval T] [purgecoldfiles AGE PERIOD]`.
pub(super) fn take_usage(item: Item<'_>, site: &mut Site, notes: &mut Notes) -> Verdict {
    let Some(usage) = read_usage(item) else { return Verdict::malformed() };
    let verdict = match (usage.files, usage.high) {
        (None, _) => Verdict::honoured(""),
        (Some((_, Amount::Part(_))), _) => Verdict::not_honoured(
            "the bounds of the file system are kept; those of the cache itself are not, being parts of it: write \
             purge.budget in bytes",
        ),
        (Some(_), Amount::Part(_)) => {
            Verdict::honoured("with `files`: a budget of the cache, and room that stays free")
        }
        (Some(_), Amount::Bytes(_)) => Verdict::not_honoured(
            "the bounds of the cache itself are kept; for those of the file system write purge.free_min: its size less the \
             high mark",
        ),
    };
    site.usage.write(usage, item.note, notes);
    verdict
}

fn read_usage(item: Item<'_>) -> Option<Usage> {
    let [low, high, rest @ ..] = item.words else { return None };
    let (low, high) = (amount(low)?, amount(high)?);
    let behind = |key: &str| rest.iter().position(|word| *word == key).and_then(|at| rest.get(at + 1..));
    let files = match behind("files") {
        None => None,
        Some([_, nominal, max, ..]) => Some((amount(nominal)?, amount(max)?)),
        Some(_) => return None,
    };
    let age_max = match behind("purgecoldfiles") {
        None => None,
        Some([age, ..]) => Some(time(age)?),
        Some([]) => return None,
    };
    let is_ordered = match (low, high) {
        (Amount::Part(low), Amount::Part(high)) => low < high && high <= WHOLE,
        (Amount::Bytes(low), Amount::Bytes(high)) => low < high,
        _ => true,
    };
    is_ordered.then_some(Usage { low, high, files, age_max })
}

/// A bare number is a part of the space; one with a letter is in bytes.
fn amount(text: &str) -> Option<Amount> {
    if text.ends_with(|c: char| c.is_ascii_alphabetic()) {
        return size(text).map(Amount::Bytes);
    }
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = decimals.chars().chain("000000".chars()).take(6).collect();
    let is_number = !text.trim_matches('.').is_empty() && decimals.bytes().all(|byte| byte.is_ascii_digit());
    let whole: u32 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let millionths = whole.checked_mul(WHOLE)?.checked_add(digits.parse().ok()?)?;
    is_number.then_some(Amount::Part(millionths))
}

/// `pfc.purgelib LIBRARY [FILE]`: lines of `DIRECTORY SIZE`.
pub(super) fn take_quotas(item: Item<'_>, site: &mut Site) -> Verdict {
    if !item.first().contains("PurgeQuota") {
        return Verdict::not_honoured("plug-ins of XCache are not loaded: see whether quotas say the same");
    }
    let path = item.rest().first().copied().unwrap_or_default();
    let lines = match read_list(path, item.machine) {
        Ok(lines) => lines,
        Err(reason) => return Verdict::not_honoured(reason),
    };
    let mut quotas = Vec::new();
    for line in lines.iter().filter(|line| !line.starts_with('#')) {
        let quota = line.split_once([' ', '\t']).and_then(|(path, bytes)| {
            Some(Quota { path: path.to_owned(), bytes: size(bytes.trim()).filter(|_| path.starts_with('/'))? })
        });
        let Some(quota) = quota else {
            return Verdict::not_honoured(format!("`{line}` in {path} is no quota"));
        };
        quotas.push(quota);
    }
    let count = quotas.len();
    site.quotas = vec![Written { value: quotas, note: item.note }];
    Verdict::honoured(format!("{count} quotas of {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_parts_or_bytes() {
        for (text, expected) in [
            ("0.95", Amount::Part(950_000)),
            (".9", Amount::Part(900_000)),
            ("1", Amount::Part(WHOLE)),
            ("0.9998", Amount::Part(999_800)),
            ("1.5t", Amount::Bytes(3 << 39)),
            ("10g", Amount::Bytes(10 << 30)),
        ] {
            assert_eq!(amount(text), Some(expected), "{text}");
        }
        for text in ["", ".", "x", "-1", "0.9.5", "0.9%", "99999999999"] {
            assert_eq!(amount(text), None, "{text}");
        }
    }
}
