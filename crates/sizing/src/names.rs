//! The data tier and the dataset of a file, by its path.

/// The data tier of the file at `path`, such as `MINIAODSIM` or `DAOD_PHYS`; `other` if the path has none.
///
/// CMS: `/store/{data,mc,...}/ERA/PRIMARY/TIER/...`; below `/store/user` and `/store/group` the tier is `USER` and `GROUP`. ATLAS: the
/// field of a dataset's name that is in capitals, as in `mc20_13TeV.410470.PhPy8.deriv.DAOD_PHYS.e6337_p5631`, or the beginning
/// of a file's name, as in `DAOD_PHYS.31066871._000001.pool.root.1`.
#[must_use]
pub fn tier_of(path: &str) -> &str {
    let mut components = path.split('/').filter(|component| !component.is_empty());
    let top = components.find(|component| matches!(*component, "store" | "atlas" | "rucio"));
    if top == Some("store") {
        return match components.next() {
            Some("user" | "temp") => "USER",
            Some("group") => "GROUP",
            _ => components.nth(2).filter(|tier| is_tier(tier)).unwrap_or("other"),
        };
    }
    let name = path.rsplit('/').next().unwrap_or_default();
    let of_name = name.split('.').next().filter(|tier| is_tier(tier));
    let dataset = || path.rsplit('/').find_map(|component| component.split('.').nth(4).filter(|tier| is_tier(tier)));
    of_name.or_else(dataset).unwrap_or("other")
}

/// The dataset of the file at `path`: the part of its path that names it. CMS: up to the tier; otherwise the directory.
#[must_use]
pub fn dataset_of(path: &str) -> &str {
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    let Some(store) = path.find("/store/") else { return directory };
    let tail = path.get(store..).unwrap_or_default();
    // `/store`, kind, era, primary dataset, tier.
    let end = tail.match_indices('/').nth(5).map(|(position, _)| store + position);
    let is_official = tier_of(path) != "USER" && tier_of(path) != "GROUP";
    let dataset = if is_official { end.and_then(|end| path.get(..end)) } else { None };
    dataset.unwrap_or(directory)
}

/// Longest name of a tier in characters.
const TIER_LEN_MAX: usize = 32;

fn is_tier(name: &str) -> bool {
    let is_of_tier = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    (3..=TIER_LEN_MAX).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(is_of_tier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_and_datasets_are_those_of_the_experiments() {
        let cms = "/store/mc/Run3Summer22/DYto2L/MINIAODSIM/130X-v2/2520000/a.root";
        let atlas = "/atlas/rucio/mc20_13TeV/ab/cd/DAOD_PHYS.31066871._000001.pool.root.1";
        let dataset = "/data/mc20_13TeV.410470.PhPy8.deriv.DAOD_PHYS.e6337_p5631/f.root";
        for (path, tier, of) in [
            (cms, "MINIAODSIM", "/store/mc/Run3Summer22/DYto2L/MINIAODSIM"),
            ("/store/data/Run2023C/Muon0/NANOAOD/v1/f.root", "NANOAOD", "/store/data/Run2023C/Muon0/NANOAOD"),
            ("/root:/o:1094/store/data/R/M/RAW/v1/f", "RAW", "/root:/o:1094/store/data/R/M/RAW"),
            ("/store/user/ann/job/f.root", "USER", "/store/user/ann/job"),
            ("/store/group/higgs/f.root", "GROUP", "/store/group/higgs"),
            (atlas, "DAOD_PHYS", "/atlas/rucio/mc20_13TeV/ab/cd"),
            (dataset, "DAOD_PHYS", "/data/mc20_13TeV.410470.PhPy8.deriv.DAOD_PHYS.e6337_p5631"),
            ("/data/f.root", "other", "/data"),
            ("/f", "other", ""),
            ("/store/mc", "other", "/store"),
        ] {
            assert_eq!((tier_of(path), dataset_of(path)), (tier, of), "{path}");
        }
    }
}
