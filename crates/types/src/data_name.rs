//! The data tier and the dataset of a file, by the conventions that experiments follow in its path.

use std::borrow::Cow;

/// Data of a file, as its path names it: the one rule for metrics, status page, reports and simulations.
///
/// - CMS: `/store/KIND/ERA/PRIMARY/TIER/PROCESSING/…` is of the dataset `/PRIMARY/ERA-PROCESSING/TIER`. Below `/store/user`, `/store/group` and
///   `/store/temp` the tier is `USER`, `GROUP` or `TEMP`, and the dataset is the directory of the owner. `/store` may begin anywhere.
/// - ATLAS: in `…/rucio/SCOPE/xx/yy/FILE` and elsewhere, a file is named `TIER.TASK._NUMBER…`, and a dataset or its files
///   `PROJECT.RUN.STREAM.STEP.TIER.TAGS`. Below `rucio/user` and `rucio/group` the tier is `USER` or `GROUP`.
/// - Other paths have no tier. Their first four directories count as a dataset.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DataName<'p> {
    /// The tier, or [`DataName::NO_TIER`]. Except for those of users, groups and temporary files, it is a component of the path or a field of one between dots.
    pub tier: &'p str,
    pub dataset: Cow<'p, str>,
}

/// Components of a path that are considered: names of experiments have fewer.
const PARTS_MAX: usize = 24;

/// Directories of a path of no known convention that name its dataset.
const GENERIC_DATASET_DEPTH: usize = 4;

/// Shortest and longest tier in bytes.
const TIER_LEN: std::ops::RangeInclusive<usize> = 3..=32;

/// Position of the tier among the fields of the name of an ATLAS dataset.
const ATLAS_TIER_FIELD: usize = 4;

impl<'p> DataName<'p> {
    /// The tier of files without one.
    pub const NO_TIER: &'static str = "unknown";

    /// The data of the file at `path`.
    pub fn of(path: &'p str) -> Self {
        // On the stack: this is done for each close.
        let mut parts = [""; PARTS_MAX];
        let found = path.split('/').filter(|part| !part.is_empty());
        let count = parts.iter_mut().zip(found).map(|(place, part)| *place = part).count();
        let parts = parts.get(..count).unwrap_or_default();
        cms(parts).or_else(|| rucio(parts)).or_else(|| atlas(parts)).unwrap_or_else(|| generic(parts))
    }
}

fn cms<'p>(parts: &[&'p str]) -> Option<DataName<'p>> {
    let start = parts.iter().position(|part| *part == "store")?;
    match *parts.get(start + 1..)? {
        [kind, owner, _, ..] if private_tier(kind).is_some() => {
            Some(DataName { tier: private_tier(kind)?, dataset: ["/store/", kind, "/", owner].concat().into() })
        }
        [_, era, primary, tier, processing, _, ..] if is_tier(tier) => {
            let dataset = ["/", primary, "/", era, "-", processing, "/", tier].concat();
            Some(DataName { tier, dataset: dataset.into() })
        }
        _ => None,
    }
}

/// Data of users and groups, which have names of their own choice.
fn private_tier(kind: &str) -> Option<&'static str> {
    match kind {
        "user" => Some("USER"),
        "group" => Some("GROUP"),
        "temp" => Some("TEMP"),
        _ => None,
    }
}

/// A file in a tree of Rucio; its directories between scope and file are a hash.
fn rucio<'p>(parts: &[&'p str]) -> Option<DataName<'p>> {
    let start = parts.iter().position(|part| *part == "rucio")?;
    match *parts.get(start + 1..)? {
        [kind @ ("user" | "group"), owner, _, ..] => {
            Some(DataName { tier: private_tier(kind)?, dataset: [kind, ".", owner].concat().into() })
        }
        [scope, .., file] => Some(match named(file) {
            Some((tier, dataset)) => DataName { tier, dataset: [scope, ":", dataset].concat().into() },
            None => DataName { tier: DataName::NO_TIER, dataset: scope.into() },
        }),
        _ => None,
    }
}

/// A file of ATLAS in some other directory.
fn atlas<'p>(parts: &[&'p str]) -> Option<DataName<'p>> {
    let (tier, dataset) = parts.iter().rev().find_map(|part| named(part))?;
    Some(DataName { tier, dataset: dataset.into() })
}

/// Tier and dataset of an ATLAS name of a file or a dataset: fields between dots, up to the one that numbers the file, `_NUMBER`.
fn named(name: &str) -> Option<(&str, &str)> {
    let dataset_len = name.find("._").unwrap_or(name.len());
    let dataset = name.get(..dataset_len).unwrap_or(name);
    let mut fields = dataset.split('.');
    let (first, second) = (fields.next()?, fields.next()?);
    if is_tier(first) && !second.is_empty() && dataset_len < name.len() {
        return Some((first, dataset));
    }
    let tier = fields.nth(ATLAS_TIER_FIELD - 2).filter(|tier| is_tier(tier))?;
    Some((tier, dataset))
}

fn generic<'p>(parts: &[&'p str]) -> DataName<'p> {
    let directories = parts.split_last().map_or(&[][..], |(_, directories)| directories);
    let named = directories.get(..GENERIC_DATASET_DEPTH).unwrap_or(directories);
    if named.is_empty() {
        return DataName { tier: DataName::NO_TIER, dataset: "/".into() };
    }
    let mut dataset = String::with_capacity(named.iter().map(|part| part.len() + 1).sum());
    named.iter().for_each(|part| dataset.extend(["/", part]));
    DataName { tier: DataName::NO_TIER, dataset: dataset.into() }
}

/// Tiers are in capitals.
fn is_tier(text: &str) -> bool {
    let is_of_tier = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    TIER_LEN.contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.bytes().all(is_of_tier)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: &str = DataName::NO_TIER;

    fn assert_names(cases: &[(&str, &str, &str)]) {
        for (path, tier, dataset) in cases {
            assert_eq!(DataName::of(path), DataName { tier, dataset: (*dataset).into() }, "{path}");
        }
    }

    #[test]
    fn cms_names_have_the_tier_as_a_directory() {
        assert_names(&[
            (
                "/store/mc/RunIISummer20/TTbar/NANOAODSIM/106X-v2/260000/0A1B.root",
                "NANOAODSIM",
                "/TTbar/RunIISummer20-106X-v2/NANOAODSIM",
            ),
            ("/store/data/Run2018A/EGamma/MINIAOD/UL-v1/00/f.root", "MINIAOD", "/EGamma/Run2018A-UL-v1/MINIAOD"),
            ("/store/data/R/P/ALCARECO/v1/f", "ALCARECO", "/P/R-v1/ALCARECO"),
            ("/root:/o:1094/store/data/R/P/RAW/v1/0/f.root", "RAW", "/P/R-v1/RAW"),
            ("/store/user/ann/tuples/1.root", "USER", "/store/user/ann"),
            ("/store/group/higgs/f.root", "GROUP", "/store/group/higgs"),
            ("/store/temp/user/ann/f.root", "TEMP", "/store/temp/user"),
            // No processing, no tier in capitals, no owner.
            ("/store/data/R/P/RAW/f.root", NONE, "/store/data/R/P"),
            ("/store/mc/R/P/raw/v1/0/f.root", NONE, "/store/mc/R/P"),
            ("/store/user/f.root", NONE, "/store/user"),
            ("/store/f.root", NONE, "/store"),
        ]);
    }

    #[test]
    fn atlas_names_have_the_tier_as_a_field() {
        assert_names(&[
            (
                "/atlas/rucio/mc20_13TeV/a1/0f/DAOD_PHYS.31415._000001.pool.root.1",
                "DAOD_PHYS",
                "mc20_13TeV:DAOD_PHYS.31415",
            ),
            (
                "/rucio/data18_13TeV/a1/0f/data18_13TeV.00348885.physics_Main.merge.AOD.f937_m1972._lb0001._0001.1",
                "AOD",
                "data18_13TeV:data18_13TeV.00348885.physics_Main.merge.AOD.f937_m1972",
            ),
            ("/atlas/rucio/user/ann/a1/0f/user.ann.1._1.root", "USER", "user.ann"),
            ("/atlas/rucio/group/phys-higgs/a1/0f/x.root", "GROUP", "group.phys-higgs"),
            ("/atlas/rucio/tests/a1/0f/file", NONE, "tests"),
            (
                "/data/mc20_13TeV.410470.PhPy8.deriv.DAOD_PHYS.e6337_p5631/f.root",
                "DAOD_PHYS",
                "mc20_13TeV.410470.PhPy8.deriv.DAOD_PHYS.e6337_p5631",
            ),
            ("/scratch/DAOD_PHYS.31415._000001.pool.root.1", "DAOD_PHYS", "DAOD_PHYS.31415"),
            ("/scratch/DAOD_PHYS.31415.root", NONE, "/scratch"),
        ]);
    }

    #[test]
    fn other_names_have_their_first_directories_as_dataset() {
        assert_names(&[
            ("/belle/MC/release-06/DB/x/f.root", NONE, "/belle/MC/release-06/DB"),
            ("/data/README.md", NONE, "/data"),
            ("/f.root", NONE, "/"),
            ("/", NONE, "/"),
            ("", NONE, "/"),
        ]);
        let deep = "/d".repeat(PARTS_MAX + 1);
        assert_eq!(DataName::of(&deep).dataset, "/d/d/d/d");
    }

    #[test]
    fn tiers_have_three_to_thirty_two_bytes() {
        for (tier, is_one) in [("AO", false), ("AOD", true), ("1AOD", false), ("A-D", true), ("A.D", false)] {
            assert_eq!(is_tier(tier), is_one, "{tier}");
        }
        assert!(is_tier(&"A".repeat(32)));
        assert!(!is_tier(&"A".repeat(33)));
    }
}
