//! Where redirects of an origin may lead.

use forebay_net::is_of_this_machine;
use forebay_types::{AddressPattern, Endpoint, canonical_host, glob_matches};
use std::{net::IpAddr, str::FromStr};

/// Longest pattern in bytes: longer than any host name.
const PATTERN_LEN_MAX: usize = 300;

/// The servers that redirects of an origin may lead to, and the setting that says so. Addresses of this machine are excluded,
/// unless the origin has one itself or a pattern names them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Redirects {
    pub to: RedirectTargets,
    /// Name of the setting, for messages.
    pub setting: &'static str,
}

/// The servers that redirects of an origin may lead to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum RedirectTargets {
    /// Those in the domain of a server of the origin's list: its host name without the first label, if that leaves two that are
    /// not public as `ac.uk`, else the host itself. An address is its own domain.
    #[default]
    SameDomain,
    Named(Vec<TargetPattern>),
    /// All but this machine.
    Any,
    /// All, also this machine: for commands, which do what their user can do.
    Everywhere,
}

/// A pattern of servers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TargetPattern {
    /// Host names or addresses, in which `*` stands for any run of characters.
    Host(String),
    Network(AddressPattern),
}

/// A text that is not a [`TargetPattern`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{0}` is not a pattern of hosts: write a name or an address, with `*` for any run of characters, or a network"
)]
pub struct TargetPatternError(String);

impl Default for Redirects {
    fn default() -> Self {
        Self { to: RedirectTargets::default(), setting: "redirects" }
    }
}

impl Redirects {
    /// Whether an origin of the servers `home`, which were reached at `addresses`, may redirect to `to`.
    ///
    /// # Errors
    /// Says why not.
    pub fn permit(&self, home: &[Endpoint], addresses: &[IpAddr], to: &Endpoint) -> Result<(), String> {
        let setting = self.setting;
        let host = one_name(to.host());
        let is_of_home = home.iter().any(|server| one_name(server.host()) == host);
        let address = host_address(&host);
        let is_home_address = address.is_some_and(|address| addresses.contains(&address));
        match &self.to {
            RedirectTargets::SameDomain if is_of_home || is_home_address => return Ok(()),
            RedirectTargets::SameDomain => {
                if !home.iter().any(|server| has_domain_of(&host, server.host())) {
                    return Err(format!(
                        "it is not in the domain of its origin; if it serves it, name it in {setting}"
                    ));
                }
            }
            RedirectTargets::Named(patterns) => {
                if !patterns.iter().any(|pattern| pattern.matches(&host)) && !is_of_home {
                    return Err(format!("{setting} does not name it"));
                }
            }
            RedirectTargets::Any | RedirectTargets::Everywhere => {}
        }
        // A server of the network must not make this cache read from services that only this machine can reach.
        match address {
            Some(address) if is_of_this_machine(address) && !self.reaches_this_machine(home, addresses, to) => {
                Err(format!("{address} is an address of this machine or of its link; {setting} must name it"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a redirect to `to` may lead to an address of this machine.
    #[must_use]
    pub fn reaches_this_machine(&self, home: &[Endpoint], addresses: &[IpAddr], to: &Endpoint) -> bool {
        let host = one_name(to.host());
        // The addresses of a name are known once it was connected to.
        let at_home = home.iter().filter_map(|server| host_address(&one_name(server.host())));
        let is_home = at_home.chain(addresses.iter().copied()).any(is_of_this_machine);
        is_home
            || home.iter().any(|server| one_name(server.host()) == host)
            || match &self.to {
                RedirectTargets::Named(patterns) => patterns.iter().any(|pattern| pattern.names(&host)),
                RedirectTargets::Everywhere => true,
                RedirectTargets::SameDomain | RedirectTargets::Any => false,
            }
    }
}

impl TargetPattern {
    fn matches(&self, host: &str) -> bool {
        match self {
            Self::Host(pattern) => glob_matches(pattern.as_bytes(), host.as_bytes()),
            Self::Network(network) => host_address(host).is_some_and(|address| network.matches(address)),
        }
    }

    /// Whether it means this host in particular: its name, or a part of its address.
    fn names(&self, host: &str) -> bool {
        let is_general = match self {
            Self::Host(pattern) if host_address(host).is_some() => pattern.starts_with('*'),
            Self::Host(pattern) => pattern.contains('*'),
            Self::Network(network) => matches!(network, AddressPattern::Network { prefix_len: 0, .. }),
        };
        !is_general && self.matches(host)
    }
}

impl FromStr for TargetPattern {
    type Err = TargetPatternError;

    fn from_str(text: &str) -> Result<Self, TargetPatternError> {
        let error = || TargetPatternError(text.escape_default().to_string());
        if text.contains('/') {
            return text.parse().map(Self::Network).map_err(|_| error());
        }
        let is_host_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '*' | ':');
        let host = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        // A port would look like a part of an IPv6 address.
        let has_port = host.matches(':').count() == 1;
        if host.is_empty() || has_port || text.len() > PATTERN_LEN_MAX || !host.chars().all(is_host_char) {
            return Err(error());
        }
        Ok(Self::Host(if host.contains('*') { host.to_ascii_lowercase() } else { one_name(host) }))
    }
}

/// The host in one spelling; the names and addresses of the machine itself have one name.
fn one_name(host: &str) -> String {
    let host = canonical_host(host);
    let is_here = host == "::1" || host == "localhost" || host.ends_with(".localhost");
    if is_here { "127.0.0.1".to_owned() } else { host }
}

fn host_address(host: &str) -> Option<IpAddr> {
    // An IPv6 address may end in a zone.
    host.split('%').next()?.parse().ok()
}

/// Whether `host` is in the domain of `server`.
fn has_domain_of(host: &str, server: &str) -> bool {
    let server = one_name(server);
    if host_address(host).is_some() || host_address(&server).is_some() {
        // Neighbouring addresses say nothing about who operates them.
        return *host == server;
    }
    let is_of_one_party = |domain: &&str| domain.contains('.') && !is_public(domain);
    let domain = server.split_once('.').map(|(_, domain)| domain).filter(is_of_one_party);
    let domain = domain.unwrap_or(&server);
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Whether the domain is one below which all parties can register names, as `ac.uk`: a well-known second level of a country.
fn is_public(domain: &str) -> bool {
    // A list of all public suffixes would have to be kept current; these cover the registries that have sites of this field.
    let labels = domain.split_once('.');
    labels.is_some_and(|(second, country)| country.len() == 2 && PUBLIC_SECOND_LEVELS.contains(&second))
}

/// Second levels that countries use for registrations of all parties.
const PUBLIC_SECOND_LEVELS: [&str; 10] = ["ac", "co", "com", "edu", "go", "gov", "ne", "net", "or", "org"];

#[cfg(test)]
mod tests {
    use super::*;

    fn permitted(to: &RedirectTargets, home: &str, target: &str) -> bool {
        let redirects = Redirects { to: to.clone(), setting: "export.redirects" };
        redirects.permit(&[home.parse().unwrap()], &[], &target.parse().unwrap()).is_ok()
    }

    fn named(patterns: &[&str]) -> RedirectTargets {
        RedirectTargets::Named(patterns.iter().map(|pattern| pattern.parse().unwrap()).collect())
    }

    #[test]
    fn a_domain_is_a_host_name_without_its_first_label() {
        for (home, target, expected) in [
            ("door.example.org", "door.example.org:2000", true),
            ("door.example.org", "POOL.example.org.", true),
            ("door.example.org", "pool.grid.example.org", true),
            ("door.example.org", "example.org", true),
            ("door.example.org", "badexample.org", false),
            ("door.example.org", "example.org.evil.net", false),
            ("door.example.org", "192.0.2.1", false),
            ("example.org", "pool.example.org", true),
            ("example.org", "other.org", false),
            ("a.ac.uk", "b.ac.uk", false),
            ("a.ac.uk", "pool.a.ac.uk", true),
            ("door.a.ac.uk", "pool.a.ac.uk", true),
            ("door.a.ac.uk", "pool.b.ac.uk", false),
            ("a.com.cn", "b.com.cn", false),
            ("a.go.jp", "B.go.jp.", false),
            ("door.cern.ch", "pool.cern.ch", true),
            ("door.net.org", "pool.net.org", true),
            ("door", "pool", false),
            ("door", "door:7", true),
            ("192.0.2.1", "192.0.2.1:7", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "pool.2.1", false),
            ("[2001:db8::1]", "[2001:0db8::1]:7", true),
            ("127.0.0.1", "127.0.0.1:7", true),
            ("127.0.0.1", "localhost:7", true),
            ("localhost", "[::1]:7", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("door.example.org", "127.0.0.1", false),
            ("door.example.org", "localhost", false),
        ] {
            assert_eq!(permitted(&RedirectTargets::SameDomain, home, target), expected, "{home} to {target}");
        }
    }

    #[test]
    fn an_address_that_a_server_of_the_origin_has_is_the_same_server() {
        let (home, to) = (["door.example.org".parse().unwrap()], "192.0.2.7:1".parse().unwrap());
        let permitted = |address: &str| Redirects::default().permit(&home, &[address.parse().unwrap()], &to).is_ok();
        assert!(permitted("192.0.2.7") && !permitted("192.0.2.8"));
    }

    #[test]
    fn patterns_name_hosts_and_networks() {
        let home = "door.example.org";
        for (pattern, target, expected) in [
            ("*.site.org", "pool.SITE.org:7", true),
            ("*.site.org", "site.org", false),
            ("*.site.org", "pool.example.org", false),
            ("*.site.org", "door.example.org:7", true),
            ("192.0.2.0/24", "192.0.2.9", true),
            ("192.0.2.0/24", "[::ffff:192.0.2.9]", true),
            ("192.0.2.0/24", "192.0.3.9", false),
            ("[2001:db8::1]", "[2001:db8:0::1]", true),
            ("*", "pool.anywhere", true),
        ] {
            assert_eq!(permitted(&named(&[pattern]), home, target), expected, "{pattern} {target}");
        }
        for text in ["", "a b", "host:1094", "10.0.0.1/8", "a/b", "root://a"] {
            assert!(text.parse::<TargetPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn this_machine_must_be_named() {
        let door = "door.example.org";
        for target in ["127.0.0.1", "localhost", "127.9.9.9", "[::1]", "169.254.169.254", "[fe80::1]", "0.0.0.0"] {
            assert!(!permitted(&RedirectTargets::Any, door, target), "{target}");
            assert!(!permitted(&named(&["*"]), door, target), "{target}");
            assert!(permitted(&RedirectTargets::Any, "127.0.0.1", target), "the origin is here as well: {target}");
            assert!(permitted(&RedirectTargets::Everywhere, door, target), "{target}");
        }
        for (pattern, target) in [
            ("localhost", "127.0.0.1"),
            ("127.*", "127.0.0.1"),
            ("169.254.0.0/16", "169.254.1.1"),
            ("[::1]", "localhost"),
        ] {
            assert!(permitted(&named(&[pattern]), door, target), "{pattern} {target}");
        }
        assert!(permitted(&RedirectTargets::Any, door, "192.0.2.1"));
    }
}
