//! Which origin a file comes from.

use crate::{Endpoint, XROOTD_PORT, named_enum};
use std::{fmt, str::FromStr};

/// An origin: scheme, server, and a bucket or base path if it is only a part of the server.
///
/// It names cached files, labels, links and credentials, and no two origins share any of them, even at one host and port. The text
/// is `HOST:PORT` for `root`, as it was before there were other schemes, else `SCHEME://HOST:PORT[/BASE]`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct OriginId {
    pub scheme: Scheme,
    pub endpoint: Endpoint,
    /// Empty, or `/` and components of letters, digits and `-._~`.
    base: String,
}

named_enum! {
    /// The protocol of an origin. TLS that a `root` origin demands, or an export always uses, does not make it `roots`.
    #[derive(Ord, PartialOrd)]
    pub enum Scheme {
        Root = "root",
        Roots = "roots",
        Http = "http",
        Https = "https",
        S3 = "s3",
        /// A federation, whose director names the servers of each file.
        Pelican = "pelican",
    }
}

impl Scheme {
    /// The port of a server that is named without one.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Root | Self::Roots => XROOTD_PORT,
            Self::Http => 80,
            Self::Https | Self::S3 | Self::Pelican => 443,
        }
    }

    /// Whether it is XRootD's own protocol.
    pub const fn is_xrootd(self) -> bool {
        matches!(self, Self::Root | Self::Roots)
    }
}

/// The federation that `osdf://` URLs, which name no host, mean.
pub const OSDF_FEDERATION: &str = "osg-htc.org";

/// A text that is not an [`OriginId`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{text}` is not HOST:PORT or SCHEME://HOST:PORT/BASE")]
pub struct OriginIdError {
    pub text: String,
}

/// Longest base in bytes: with the server it must fit a name of the operating system.
const BASE_LEN_MAX: usize = 128;

impl OriginId {
    /// The whole of a server.
    pub const fn of(scheme: Scheme, endpoint: Endpoint) -> Self {
        Self { scheme, endpoint, base: String::new() }
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    /// The same origin with the server in its one spelling, see [`Endpoint::canonical`].
    pub fn canonical(&self) -> Option<Self> {
        self.endpoint.canonical().map(|endpoint| Self { endpoint, ..self.clone() })
    }
}

impl From<Endpoint> for OriginId {
    /// The `root` origin there.
    fn from(endpoint: Endpoint) -> Self {
        Self::of(Scheme::Root, endpoint)
    }
}

impl FromStr for OriginId {
    type Err = OriginIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || OriginIdError { text: text.to_owned() };
        let (scheme, rest) = text.split_once("://").unwrap_or(("root", text));
        let scheme = Scheme::from_name(scheme).ok_or_else(error)?;
        let (server, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let endpoint = Endpoint::parse_with_default(server, scheme.default_port()).map_err(|_| error())?;
        let is_plain = |part: &str| {
            !matches!(part, "" | "." | "..")
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
        };
        let is_good = base.len() <= BASE_LEN_MAX && base.split('/').skip(1).all(is_plain);
        // XRootD servers have one name space each.
        let is_whole = base.is_empty() || !matches!(scheme, Scheme::Root | Scheme::Roots);
        if is_good && is_whole { Ok(Self { scheme, endpoint, base: base.to_owned() }) } else { Err(error()) }
    }
}

impl fmt::Display for OriginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, endpoint, base } = self;
        match scheme {
            Scheme::Root => write!(f, "{endpoint}"),
            _ => write!(f, "{}://{endpoint}{base}", scheme.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_parse_and_print() {
        for (text, printed) in [
            ("Origin.example", "origin.example:1094"),
            ("root://origin:11", "origin:11"),
            ("[::1]:2094", "[::1]:2094"),
            ("roots://origin", "roots://origin:1094"),
            ("http://origin", "http://origin:80"),
            ("https://origin:1094", "https://origin:1094"),
            ("https://origin/a.b/~c", "https://origin:443/a.b/~c"),
            ("s3://[::1]:9000/Bucket-1", "s3://[::1]:9000/Bucket-1"),
            ("pelican://Federation.example/ns", "pelican://federation.example:443/ns"),
        ] {
            let id: OriginId = text.parse().unwrap();
            assert_eq!(id.to_string(), printed);
            assert_eq!(printed.parse(), Ok(id));
        }
        for text in
            ["", "a b", "ftp://a", "HTTP://a", "http://", "http://a/", "http://a//b", "http://a/..", "http://a/b,c"]
        {
            assert_eq!(text.parse::<OriginId>(), Err(OriginIdError { text: text.to_owned() }));
        }
        assert!("a/b".parse::<OriginId>().is_err() && "roots://a/b".parse::<OriginId>().is_err());
        let based = |len: usize| format!("s3://a/{}", "b".repeat(len - 1)).parse::<OriginId>();
        assert!(based(BASE_LEN_MAX).is_ok() && based(BASE_LEN_MAX + 1).is_err());
    }
}
