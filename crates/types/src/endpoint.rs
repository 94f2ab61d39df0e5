//! Where a server listens.

use std::{fmt, str::FromStr};

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
    /// What was written.
    pub text: String,
}

impl Endpoint {
    /// The endpoint `host`:`port`.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_ascii_lowercase(), port }
    }

    /// Host name or address, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// TCP port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Reads `host`, `host:port`, `[v6]` or `[v6]:port`; a user part before `@` is dropped.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
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
            None => XROOTD_PORT,
            Some(digits) => digits.parse().ok().filter(|&port| port != 0).ok_or_else(error)?,
        };
        Ok(Self::new(host, port))
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
