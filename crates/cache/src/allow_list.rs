//! The list of origins that clients may name.

use forebay_types::{OriginId, Scheme, canonical_host, glob_matches};
use std::str::FromStr;

/// Most patterns of a list, and most bytes of a pattern: each forwarded open walks the list.
const PATTERNS_MAX: usize = 1024;
const PATTERN_LEN_MAX: usize = 300;

/// The origins that clients may name. Empty by default, and an empty list allows none.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AllowList {
    patterns: Vec<OriginPattern>,
}

/// A pattern that could not be understood.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AllowListError {
    #[error(
        "`{pattern}` is not an origin pattern: write HOST, HOST:PORT or HOST:* for root://, or the same after https://, http://, \
         s3:// or pelican:// \
         (HOST may hold `*`, an IPv6 address goes in brackets, no port means the scheme's own)"
    )]
    Pattern { pattern: String },
    #[error("{count} origin patterns are more than {PATTERNS_MAX}")]
    TooMany { count: usize },
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct OriginPattern {
    scheme: Scheme,
    /// Lower-case text in which `*` stands for any run of characters.
    host: String,
    /// `None` for any port.
    port: Option<u16>,
}

impl AllowList {
    /// The list of `patterns`, each `HOST`, `HOST:PORT` or `HOST:*` for origins of `root://`, or the same after `https://`,
    /// `http://`, `s3://` or `pelican://`. In `HOST`, `*` stands for any run of characters, dots included; in a leading `*.` it stands for one character at
    /// least. No port means that of the scheme.
    ///
    /// # Errors
    /// Names the first pattern of another form.
    pub fn parse<T: AsRef<str>>(patterns: &[T]) -> Result<Self, AllowListError> {
        if patterns.len() > PATTERNS_MAX {
            return Err(AllowListError::TooMany { count: patterns.len() });
        }
        let patterns = patterns.iter().map(|pattern| pattern.as_ref().parse()).collect::<Result<_, _>>()?;
        Ok(Self { patterns })
    }

    /// Whether clients may name `origin`.
    pub fn allows(&self, origin: &OriginId) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(origin))
    }

    pub const fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }
}

impl OriginPattern {
    fn matches(&self, origin: &OriginId) -> bool {
        let host = origin.endpoint.host();
        origin.scheme == self.scheme
            && self.port.is_none_or(|port| port == origin.endpoint.port())
            && (!self.host.starts_with("*.") || !host.starts_with('.'))
            && glob_matches(self.host.as_bytes(), host.as_bytes())
    }
}

impl FromStr for OriginPattern {
    type Err = AllowListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || AllowListError::Pattern { pattern: text.to_owned() };
        // Patterns without a scheme are those of `root` origins.
        let (scheme, rest) = text.split_once("://").unwrap_or(("root", text));
        let scheme = match scheme {
            "root" => Scheme::Root,
            "https" | "davs" => Scheme::Https,
            "http" | "dav" => Scheme::Http,
            "s3" => Scheme::S3,
            "pelican" => Scheme::Pelican,
            _ => return Err(error()),
        };
        let is_host_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '*');
        let is_address_char = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.' | '%' | '*');
        let (host, tail, valid) = if let Some(rest) = rest.strip_prefix('[') {
            let (host, tail) = rest.split_once(']').ok_or_else(error)?;
            (host, tail, host.chars().all(is_address_char))
        } else {
            let (host, tail) = rest.split_at(rest.find(':').unwrap_or(rest.len()));
            (host, tail, host.chars().all(is_host_char))
        };
        if !valid || host.is_empty() || text.len() > PATTERN_LEN_MAX {
            return Err(error());
        }
        let port = match tail.strip_prefix(':') {
            None if tail.is_empty() => Some(scheme.default_port()),
            Some("*") => None,
            Some(digits) => Some(digits.parse().ok().filter(|&port| port != 0).ok_or_else(error)?),
            None => return Err(error()),
        };
        // Origins arrive in their canonical spelling (see `ForwardedPath`). A part of an address has none.
        let host = if host.contains('*') { host.to_ascii_lowercase() } else { canonical_host(host) };
        Ok(Self { scheme, host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(pattern: &str, origin: &str) -> bool {
        AllowList::parse(&[pattern]).unwrap().allows(&origin.parse().unwrap())
    }

    #[test]
    fn nothing_is_allowed_by_default() {
        assert!(AllowList::default().is_empty());
        assert!(!AllowList::default().allows(&"origin".parse().unwrap()));
    }

    #[test]
    fn hosts_and_ports_are_matched() {
        for (pattern, origin) in [
            ("origin", "origin:1094"),
            ("ORIGIN", "Origin"),
            ("origin:11", "origin:11"),
            ("origin:*", "origin:11"),
            ("*", "anything.example"),
            ("*.example.org", "a.example.org"),
            ("*.example.org", "a.b.example.org"),
            ("xrd*.example.org:*", "xrd.example.org:2"),
            ("xrd*-*.example.org", "xrd1-a-b.example.org"),
            ("*a*b*", "xaxbbx"),
            ("[2001:db8::*]:*", "[2001:DB8::7]:11"),
            ("[::1]", "[::1]"),
            ("[2001:0db8:0::7]", "[2001:db8::7]"),
            ("[::ffff:192.0.2.1]", "192.0.2.1"),
            ("origin.example.", "origin.example"),
            ("192.0.2.*", "192.0.2.17"),
            ("s3://*.example", "s3://a.example/bucket"),
            ("pelican://osg-htc.org", "pelican://osg-htc.org"),
        ] {
            assert!(allows(pattern, origin), "{pattern} {origin}");
        }
        for (pattern, origin) in [
            ("origin", "origin:11"),
            ("origin:11", "origin"),
            ("origin", "origin.example"),
            ("origin", "an-origin"),
            ("*.example.org", "example.org"),
            ("*.example.org", ".example.org"),
            ("*.example.org", "..example.org"),
            ("*.example.org", "a.example.org.evil.example"),
            ("*.example.org", "evilexample.org"),
            ("*.example.org", "a.example.org."),
            ("*a*b", "xaxbbx"),
            ("192.0.2.*", "[::1]"),
            ("*:*", "http://origin:1094"),
            ("origin", "roots://origin"),
            ("https://*", "pelican://origin"),
            ("https://*", "s3://origin/bucket"),
        ] {
            assert!(!allows(pattern, origin), "{pattern} {origin}");
        }
    }

    #[test]
    fn bad_patterns_are_named() {
        for pattern in
            ["", ":1094", "a:", "a:0", "a:70000", "a:1*", "a b", "ftp://a", "a/b", "::1", "[::1", "[]", "[::1]x", "é"]
        {
            let error = AllowListError::Pattern { pattern: pattern.to_owned() };
            assert_eq!(AllowList::parse(&["good", pattern]), Err(error), "{pattern}");
        }
        assert!(AllowList::parse(&vec!["a"; PATTERNS_MAX]).is_ok());
        assert!(AllowList::parse(&vec!["a"; PATTERNS_MAX + 1]).is_err());
        assert!(AllowList::parse(&["a".repeat(PATTERN_LEN_MAX + 1)]).is_err());
    }

    #[test]
    fn many_stars_cost_no_more_than_the_product_of_the_lengths() {
        let pattern = "*a".repeat(140);
        assert!(!allows(&pattern, &format!("{}b", "a".repeat(4000))));
    }
}
