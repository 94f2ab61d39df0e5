//! `pfc.diskusage` and the list of quotas: the size of the cache.

use super::{
    document::{size_value, string},
    item::Item,
    lists::read_list,
    note::{
        Fate::{Honoured, NotHonoured},
        Verdict,
    },
    site::Site,
    values::{size, time},
};
use forebay_types::Share;
use std::time::Duration;

/// Limits of the size of the cache.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Usage {
    /// Watermarks of the file system.
    pub(super) low: Amount,
    pub(super) high: Amount,
    /// Nominal and maximum size of the cache itself.
    pub(super) files: Option<(Amount, Amount)>,
    /// Files not used for this time are removed.
    pub(super) age_max: Option<Duration>,
}

/// An amount of bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Amount {
    /// A fraction of the file system.
    Part(Share),
    Bytes(u64),
}

impl Amount {
    pub(super) fn toml(self) -> String {
        match self {
            Self::Bytes(bytes) => size_value(bytes),
            Self::Part(share) => string(&share.to_string()),
        }
    }
}

/// Maximum size of files below a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Quota {
    pub(super) path: String,
    pub(super) bytes: u64,
}

/// Reads the directive `pfc.diskusage LOW HIGH [files BASE NOMINAL MAX] [purgeinterval T] [purgecoldfiles AGE PERIOD]`.
pub(super) fn take_usage(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let Some(usage) = read_usage(item) else { return Verdict::malformed() };
    let verdict = match (usage.files, usage.high) {
        (None, _) => Honoured.because(""),
        (Some((_, Amount::Part(_))), _) => NotHonoured.because(
            "the limits of the file system are honoured; those of the cache itself are fractions, which are not: write \
             purge.budget in bytes",
        ),
        (Some(_), Amount::Part(_)) => Honoured.because("`files` sets a budget for the cache, and space to keep free"),
        (Some(_), Amount::Bytes(_)) => NotHonoured.because(
            "the limits of the cache itself are honoured; for those of the file system write purge.free_min: its size minus the \
             high mark",
        ),
    };
    item.take(Some(usage), &mut site.usage);
    verdict
}

fn read_usage(item: &Item<'_>) -> Option<Usage> {
    let [low, high, rest @ ..] = item.words else { return None };
    let (low, high) = (amount(low)?, amount(high)?);
    let after = |key: &str| rest.iter().position(|word| *word == key).and_then(|at| rest.get(at + 1..));
    let files = match after("files") {
        None => None,
        Some([_, nominal, max, ..]) => Some((amount(nominal)?, amount(max)?)),
        Some(_) => return None,
    };
    let age_max = match after("purgecoldfiles") {
        None => None,
        Some([age, ..]) => Some(time(age)?),
        Some([]) => return None,
    };
    let is_ordered = match (low, high) {
        (Amount::Part(low), Amount::Part(high)) => low < high,
        (Amount::Bytes(low), Amount::Bytes(high)) => low < high,
        _ => true,
    };
    is_ordered.then_some(Usage { low, high, files, age_max })
}

/// A number without a unit is a fraction; one with a letter is in bytes.
fn amount(text: &str) -> Option<Amount> {
    if text.ends_with(|c: char| c.is_ascii_alphabetic()) {
        return size(text).map(Amount::Bytes);
    }
    text.parse().ok().and_then(Share::of_fraction).map(Amount::Part)
}

/// The complement of `share`.
pub(super) fn rest_of(share: Share) -> Share {
    let hundredths = WHOLE.saturating_sub(u32::try_from(share.of(u64::from(WHOLE))).unwrap_or(WHOLE));
    Share::of_fraction(f64::from(hundredths) / f64::from(WHOLE)).unwrap_or_default()
}

/// Hundredths of a percent in a whole.
const WHOLE: u32 = 10_000;

/// `pfc.purgelib LIBRARY [FILE]`: lines of `DIRECTORY SIZE`.
pub(super) fn take_quotas(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    if !item.first().contains("PurgeQuota") {
        return NotHonoured.because("XCache plug-ins are not loaded: use quotas if possible");
    }
    let path = item.rest().first().copied().unwrap_or_default();
    let lines = match read_list(path, item.machine) {
        Ok(lines) => lines,
        Err(reason) => return NotHonoured.because(reason),
    };
    let mut quotas = Vec::new();
    for line in lines.iter().filter(|line| !line.starts_with('#')) {
        let quota = line.split_once([' ', '\t']).and_then(|(path, bytes)| {
            Some(Quota { path: path.to_owned(), bytes: size(bytes.trim()).filter(|_| path.starts_with('/'))? })
        });
        let Some(quota) = quota else {
            return NotHonoured.because(format!("`{line}` in {path} is not a quota"));
        };
        quotas.push(quota);
    }
    let count = quotas.len();
    site.quotas = Some(item.written(quotas));
    Honoured.because(format!("{count} quotas of {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_parts_or_bytes() {
        let part = |text: &str| Amount::Part(text.parse().unwrap());
        for (text, expected) in [
            ("0.95", part("95%")),
            (".9", part("90%")),
            ("1", part("100%")),
            ("0.9998", part("99.98%")),
            ("1.5t", Amount::Bytes(3 << 39)),
            ("10g", Amount::Bytes(10 << 30)),
        ] {
            assert_eq!(amount(text), Some(expected), "{text}");
        }
        for text in ["", ".", "x", "-1", "1.1", "0.9.5", "0.9%"] {
            assert_eq!(amount(text), None, "{text}");
        }
        assert_eq!(rest_of("92.5%".parse().unwrap()).to_string(), "7.5%");
    }
}
