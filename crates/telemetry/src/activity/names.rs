//! Groups of accesses by names: site of a client, region of an origin, export of a path.

use forebay_types::glob_matches;
use std::net::IpAddr;

/// Name of the group of everything that has no better one.
pub(super) const UNKNOWN: &str = "unknown";

/// Second-level labels below which countries register organizations.
const SECOND_LEVELS: [&str; 8] = ["ac", "co", "com", "edu", "gov", "net", "org", "go"];

/// The site of a client: the domain of its host, or the network of its address.
#[must_use]
pub fn site_of(host: &str) -> String {
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
