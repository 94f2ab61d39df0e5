//! Where a server listens.

use std::{fmt, net::IpAddr, str::FromStr};

/// Port of `root://` servers when a URL names none.
pub const XROOTD_PORT: u16 = 1094;

/// A server's host and port. The host is a lower-case name, an IPv4 address, or an IPv6 address without brackets.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Endpoint {
    host: String,
    port: u16,
}

/// A text that names no endpoint.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{text}` is not HOST or HOST:PORT (an IPv6 address goes in brackets)")]
pub struct EndpointError {
    pub text: String,
}

impl Endpoint {
    pub fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_ascii_lowercase(), port }
    }

    /// Host name or address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The same server in the one spelling that names it in cache keys and rules, see [`canonical_host`].
    ///
    /// `None` if it has none: the host consists of dots, or has a `%` outside of an IPv6 address.
    pub fn canonical(&self) -> Option<Self> {
        let host = canonical_host(&self.host);
        let is_named = !host.is_empty() && (host.contains(':') || !host.contains('%'));
        is_named.then_some(Self { host, port: self.port })
    }

    pub(crate) fn parse_with_default(text: &str, default_port: u16) -> Result<Self, EndpointError> {
        let error = || EndpointError { text: text.to_owned() };
        let address = text.rsplit_once('@').map_or(text, |(_, rest)| rest);
        let (host, port) = if let Some(rest) = address.strip_prefix('[') {
            let (host, tail) = rest.split_once(']').ok_or_else(error)?;
            let valid =
                !host.is_empty() && host.chars().all(|c| c.is_ascii_hexdigit() || c == ':' || c == '.' || c == '%');
            (
                valid.then_some(host).ok_or_else(error)?,
                if tail.is_empty() { None } else { Some(tail.strip_prefix(':').ok_or_else(error)?) },
            )
        } else {
            let (host, port) = address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port)));
            let valid =
                !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
            (valid.then_some(host).ok_or_else(error)?, port)
        };
        let port = match port {
            None => default_port,
            Some(digits) => digits.parse().ok().filter(|&port| port != 0).ok_or_else(error)?,
        };
        Ok(Self::new(host, port))
    }
}

/// A host in one spelling: lower case, without dots at the end, addresses as RFC 5952 prints them, and an IPv4-mapped address
/// as the IPv4 address that it is. Other texts are left as they are.
#[must_use]
pub fn canonical_host(host: &str) -> String {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().to_string(),
        Err(_) => host,
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Reads `host`, `host:port`, `[v6]` or `[v6]:port`; a user part before `@` is dropped.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse_with_default(text, XROOTD_PORT)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_one_canonical_spelling() {
        for (text, canonical) in [
            ("Origin.example", "origin.example:1094"),
            ("origin.example.:11", "origin.example:11"),
            ("[2001:0DB8:0::1]", "[2001:db8::1]:1094"),
            ("[::ffff:192.0.2.1]:11", "192.0.2.1:11"),
            ("[::ffff:c000:201]:11", "192.0.2.1:11"),
            ("[fe80::1%2]", "[fe80::1%2]:1094"),
        ] {
            let found = text.parse::<Endpoint>().unwrap().canonical().unwrap();
            assert_eq!(found.to_string(), canonical, "{text}");
            assert_eq!(found.canonical(), Some(found.clone()), "{text}");
        }
        for text in [".", "...:11", "[a%b]"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().canonical(), None, "{text}");
        }
    }

    #[test]
    fn endpoints_parse_and_print() {
        for (text, printed) in [
            ("Origin.example", "origin.example:1094"),
            ("origin:11", "origin:11"),
            ("u27@origin:11", "origin:11"),
            ("[::1]:2094", "[::1]:2094"),
            ("[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]:1094"),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), printed);
        }
        for text in ["", ":1", "a:0", "a:70000", "a b:1", "[::1", "[::1]x", "a/b:1", "[]:1", "::1"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
