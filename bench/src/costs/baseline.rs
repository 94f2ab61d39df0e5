//! The figures that are kept in the repository, and when new ones are too far from them.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

/// The cost of one operation for the server.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Cost {
    /// Instructions in user space.
    pub(crate) instructions: u64,
    pub(crate) system_calls: f64,
}

/// The programs that the figures depend on besides the code.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tools {
    /// Output of `rustc --version`.
    pub(crate) rustc: String,
    /// Output of `valgrind --version`.
    pub(crate) valgrind: String,
    /// The processor's name: copying and checksums choose their instructions by what it can do.
    pub(crate) processor: String,
}

/// The figures that are kept.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Baseline {
    pub(crate) tools: Tools,
    pub(crate) rows: BTreeMap<String, Cost>,
}

/// How far a figure may be above the one that is kept.
const TOLERANCE: f64 = 0.10;

const HEADER: &str = "# What one operation on a warm cache costs the server: instructions in user space and system calls.\n\
                      # Written by `make costs ACCEPT=1`; `make costs` fails when a figure is more than 10 % higher.\n\n";

impl Baseline {
    /// Reads `path`; no figures when it is not there.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        match std::fs::read_to_string(path) {
            Ok(text) => toml::from_str(&text).with_context(|| format!("{} makes no sense", path.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Writes it to `path`.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let text = HEADER.to_owned() + &toml::to_string(self)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The complaints about `costs`, a sentence each: figures that have grown too much, and rows that the baseline
    /// lacks.
    pub(crate) fn complaints(&self, costs: &[(&str, Cost)]) -> Vec<String> {
        costs.iter().flat_map(|&(row, new)| self.complaints_of(row, new)).collect()
    }

    fn complaints_of(&self, row: &str, new: Cost) -> Vec<String> {
        let Some(old) = self.rows.get(row) else { return vec![format!("{row} is not in the baseline")] };
        let mut complaints = Vec::new();
        let growth = change(old.instructions, new.instructions);
        if growth > TOLERANCE {
            let (was, is) = (old.instructions, new.instructions);
            complaints.push(format!("{row} takes {is} instructions instead of {was} ({:+.1} %)", growth * 100.0));
        }
        if new.system_calls > old.system_calls * (1.0 + TOLERANCE) {
            complaints.push(format!("{row} makes {} system calls instead of {}", new.system_calls, old.system_calls));
        }
        complaints
    }

    /// Rows that have become so much cheaper that the baseline no longer guards them.
    pub(crate) fn outdated<'a>(&self, costs: &[(&'a str, Cost)]) -> Vec<&'a str> {
        let is_outdated = |&&(row, new): &&(&str, Cost)| {
            let Some(old) = self.rows.get(row) else { return false };
            change(old.instructions, new.instructions) < -TOLERANCE
                || new.system_calls < old.system_calls * (1.0 - TOLERANCE)
        };
        costs.iter().filter(is_outdated).map(|&(row, _)| row).collect()
    }
}

impl Tools {
    /// In what `self`, which made the baseline, differs from `now`, a sentence each; in nothing when there is no baseline.
    pub(crate) fn differences(&self, now: &Self) -> Vec<String> {
        if *self == Self::default() {
            return Vec::new();
        }
        let pairs = [(&self.rustc, &now.rustc), (&self.valgrind, &now.valgrind), (&self.processor, &now.processor)];
        let differing = pairs.into_iter().filter(|(then, now)| then != now);
        differing.map(|(then, now)| format!("the baseline was made with {then}, this is {now}")).collect()
    }
}

/// By what part `new` is more than `old`.
#[expect(clippy::cast_precision_loss, reason = "a ratio to a tenth of a percent")]
pub(crate) fn change(old: u64, new: u64) -> f64 {
    new as f64 / old.max(1) as f64 - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Baseline {
        let cost = Cost { instructions: 1_000, system_calls: 4.0 };
        Baseline { tools: Tools::default(), rows: [("read".to_owned(), cost)].into() }
    }

    #[test]
    fn more_than_a_tenth_is_complained_of_and_less_is_not() {
        let complaints =
            |instructions, system_calls| kept().complaints(&[("read", Cost { instructions, system_calls })]).len();
        assert_eq!(complaints(1_099, 4.4), 0);
        assert_eq!(complaints(1_101, 4.4), 1);
        assert_eq!(complaints(1_099, 5.0), 1);
        assert_eq!(complaints(1_101, 5.0), 2);
        assert_eq!(complaints(1, 1.0), 0);
    }

    #[test]
    fn a_complaint_tells_the_row_and_both_figures() {
        let complaints = kept().complaints(&[("read", Cost { instructions: 1_200, system_calls: 4.0 })]);
        assert_eq!(complaints, ["read takes 1200 instructions instead of 1000 (+20.0 %)"]);
    }

    #[test]
    fn a_row_without_a_baseline_is_complained_of() {
        let cost = Cost { instructions: 1, system_calls: 1.0 };
        assert_eq!(kept().complaints(&[("new", cost)]), ["new is not in the baseline"]);
    }

    #[test]
    fn what_became_cheaper_is_told() {
        let outdated =
            |instructions, system_calls| kept().outdated(&[("read", Cost { instructions, system_calls })]).len();
        assert_eq!(outdated(950, 4.0), 0);
        assert_eq!(outdated(850, 4.0), 1);
        assert_eq!(outdated(1_000, 3.0), 1);
    }

    #[test]
    fn a_written_baseline_reads_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("costs.toml");
        assert_eq!(Baseline::read(&path).unwrap(), Baseline::default());
        kept().write(&path).unwrap();
        assert_eq!(Baseline::read(&path).unwrap(), kept());
    }
}
