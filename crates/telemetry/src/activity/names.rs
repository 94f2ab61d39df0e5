//! Groups of accesses by names: data tier and dataset of a path, site of a client, region of an origin.

use forebay_types::glob_matches;
use std::{borrow::Cow, net::IpAddr};

/// Name of the group of everything that has no better one.
pub(super) const UNKNOWN: &str = "unknown";

/// Components of a path that are looked at: names of experiments have fewer.
const PARTS_MAX: usize = 24;

/// Components of a path of no known convention that name its dataset.
const GENERIC_DATASET_DEPTH: usize = 4;

/// Top directories of the name space of CMS whose files are of users and groups.
const CMS_PRIVATE: [&str; 3] = ["user", "group", "temp"];

/// Second-level labels below which countries register organizations.
const SECOND_LEVELS: [&str; 8] = ["ac", "co", "com", "edu", "gov", "net", "org", "go"];

/// What a path says about its data.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Data<'p> {
    pub(super) tier: Cow<'p, str>,
    pub(super) dataset: String,
}

/// The data of a path, by the conventions of CMS and ATLAS; else its directory.
pub(super) fn data_of(path: &str) -> Data<'_> {
    // On the stack: this is done for each close.
    let mut parts = [""; PARTS_MAX];
    let found = path.split('/').filter(|part| !part.is_empty());
    let count = parts.iter_mut().zip(found).map(|(place, part)| *place = part).count();
    let parts = parts.get(..count).unwrap_or_default();
    cms(parts).or_else(|| atlas(parts)).unwrap_or_else(|| generic(parts))
}

/// `/store/{data,mc,relval,…}/ERA/PRIMARY/TIER/PROCESSING/…`, wherever `/store` begins in the path.
fn cms<'p>(parts: &[&'p str]) -> Option<Data<'p>> {
    let start = parts.iter().position(|part| *part == "store")?;
    match parts.get(start + 1..)? {
        [private, owner, _, ..] if CMS_PRIVATE.contains(private) => {
            Some(Data { tier: private.to_uppercase().into(), dataset: ["/store/", private, "/", owner].concat() })
        }
        [_, era, primary, tier, processing, _, ..] if is_cms_tier(tier) => {
            let dataset = ["/", primary, "/", era, "-", processing, "/", tier].concat();
            Some(Data { tier: Cow::Borrowed(tier), dataset })
        }
        _ => None,
    }
}

fn is_cms_tier(text: &str) -> bool {
    let is_tier_byte = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() >= 3 && text.bytes().all(is_tier_byte)
}

/// `…/rucio/SCOPE/xx/yy/FILE`, with `FILE` as `TIER.TASK._NUMBER.…`; scopes of users have two components.
fn atlas<'p>(parts: &[&'p str]) -> Option<Data<'p>> {
    let start = parts.iter().position(|part| *part == "rucio")?;
    let below = parts.get(start + 1..)?;
    let (file, directories) = below.split_last()?;
    let is_hash = |part: &&&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let scope: Vec<&str> = directories.get(..directories.len().checked_sub(2)?)?.to_vec();
    if scope.is_empty() || directories.iter().rev().take(2).filter(is_hash).count() != 2 {
        return None;
    }
    let scope = scope.join(".");
    let mut fields = file.split('.');
    let (first, second) = (fields.next()?, fields.next().unwrap_or_default());
    let is_private = scope.starts_with("user.") || scope.starts_with("group.");
    let tier = if is_private {
        scope.split('.').next().unwrap_or_default().to_uppercase().into()
    } else {
        Cow::Borrowed(first)
    };
    let dataset = if is_private { scope } else { format!("{scope}:{first}.{second}") };
    Some(Data { tier, dataset })
}

fn generic<'p>(parts: &[&'p str]) -> Data<'p> {
    let directories = parts.split_last().map_or(&[][..], |(_, directories)| directories);
    let named = directories.get(..GENERIC_DATASET_DEPTH).unwrap_or(directories);
    let mut dataset = String::with_capacity(named.iter().map(|part| part.len() + 1).sum::<usize>().max(1));
    named.iter().for_each(|part| dataset.extend(["/", part]));
    if dataset.is_empty() {
        dataset.push('/');
    }
    Data { tier: Cow::Borrowed(UNKNOWN), dataset }
}

/// The site of a client: the domain of its host, or the network of its address.
pub(super) fn site_of(host: &str) -> String {
    if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
        return network_of(address.to_canonical());
    }
    let labels: Vec<&str> = host.trim_end_matches('.').split('.').collect();
    let is_country = labels.last().is_some_and(|last| last.len() == 2);
    let is_second = labels.iter().rev().nth(1).is_some_and(|second| SECOND_LEVELS.contains(second));
    let count = if is_country && is_second { 3 } else { 2 };
    labels.get(labels.len().saturating_sub(count)..).unwrap_or_default().join(".").to_lowercase()
}

/// The /24 of an IPv4 address, the /48 of an IPv6 address.
fn network_of(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [first, second, third, _] = address.octets();
            format!("{first}.{second}.{third}.0/24")
        }
        IpAddr::V6(address) => {
            let [first, second, third, ..] = address.segments();
            format!("{first:x}:{second:x}:{third:x}::/48")
        }
    }
}

/// The region of an origin's host: the first one with a pattern that matches; without regions, its top-level domain.
pub(super) fn region_of(host: &str, regions: &[(String, String)]) -> String {
    if !regions.is_empty() {
        let region = regions.iter().find(|(_, pattern)| glob_matches(pattern.as_bytes(), host.as_bytes()));
        return region.map_or_else(|| UNKNOWN.to_owned(), |(name, _)| name.clone());
    }
    match host.trim_end_matches('.').rsplit_once('.') {
        Some((_, top)) if host.parse::<IpAddr>().is_err() => top.to_lowercase(),
        _ => UNKNOWN.to_owned(),
    }
}

/// The longest of `exports` that `path` lies below; without one, the path names its origin.
pub(super) fn export_of<'e>(path: &str, exports: &'e [String]) -> &'e str {
    let is_below = |export: &&String| {
        let rest = path.strip_prefix(export.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let export = exports.iter().filter(is_below).max_by_key(|export| export.len());
    export.map_or("forwarding", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_experiments_have_a_tier_and_a_dataset() {
        for (path, tier, dataset) in [
            (
                "/store/mc/RunIISummer20/TTbar/NANOAODSIM/106X-v2/260000/0A1B.root",
                "NANOAODSIM",
                "/TTbar/RunIISummer20-106X-v2/NANOAODSIM",
            ),
            ("/store/data/Run2018A/EGamma/MINIAOD/UL-v1/00/f.root", "MINIAOD", "/EGamma/Run2018A-UL-v1/MINIAOD"),
            ("/store/user/ann/tuples/1.root", "USER", "/store/user/ann"),
            ("/root:/o:1094/store/data/R/P/RAW/v1/0/f.root", "RAW", "/P/R-v1/RAW"),
            (
                "/atlas/rucio/mc20_13TeV/a1/0f/DAOD_PHYS.31415._000001.pool.root.1",
                "DAOD_PHYS",
                "mc20_13TeV:DAOD_PHYS.31415",
            ),
            ("/atlas/rucio/user/ann/a1/0f/user.ann.1._1.root", "USER", "user.ann"),
            ("/belle/MC/release-06/DB/x/f.root", UNKNOWN, "/belle/MC/release-06/DB"),
            ("/f.root", UNKNOWN, "/"),
            ("/store/f.root", UNKNOWN, "/store"),
        ] {
            assert_eq!(data_of(path), Data { tier: tier.into(), dataset: dataset.to_owned() }, "{path}");
        }
    }

    #[test]
    fn a_client_belongs_to_its_domain_or_network() {
        for (host, site) in [
            ("wn12.gridka.de", "gridka.de"),
            ("WN.hep.ph.ic.ac.uk", "ic.ac.uk"),
            ("localhost", "localhost"),
            ("10.1.2.3", "10.1.2.0/24"),
            ("[::ffff:10.1.2.3]", "10.1.2.0/24"),
            ("2001:1458:201:e3::1", "2001:1458:201::/48"),
        ] {
            assert_eq!(site_of(host), site);
        }
    }

    #[test]
    fn an_origin_belongs_to_the_first_region_that_matches() {
        let regions = [("EU", "*.cern.ch"), ("US", "*.gov"), ("EU2", "*.ch")];
        let regions = regions.map(|(name, pattern)| (name.to_owned(), pattern.to_owned()));
        assert_eq!(region_of("eos.cern.ch", &regions), "EU");
        assert_eq!(region_of("cmsxrootd.fnal.gov", &regions), "US");
        assert_eq!(region_of("xrootd.example", &regions), UNKNOWN);
        assert_eq!(region_of("eos.cern.ch", &[]), "ch");
        assert_eq!(region_of("10.1.2.3", &[]), UNKNOWN);
    }

    #[test]
    fn the_longest_export_counts() {
        let exports = ["/".to_owned(), "/store".to_owned(), "/store/user".to_owned()];
        assert_eq!(export_of("/store/user/a", &exports), "/store/user");
        assert_eq!(export_of("/store2/a", &exports), "/");
        assert_eq!(export_of("/store/a", &exports[1..]), "/store");
        assert_eq!(export_of("//root://o//a", &exports[1..]), "forwarding");
    }
}
