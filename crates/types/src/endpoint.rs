//! Where a server listens.

use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, Ipv4Addr},
    str::FromStr,
    sync::Arc,
};

/// Port of `root://` servers when a URL names none.
pub const XROOTD_PORT: u16 = 1094;

/// A server's host and port. The host is a lower-case name, an IPv4 address, or an IPv6 address without brackets.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Endpoint {
    /// Shared: an endpoint is copied with each open of a file.
    host: Arc<str>,
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
        Self { host: host.to_ascii_lowercase().into(), port }
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
        is_named.then(|| Self { host: host.into(), port: self.port })
    }

    /// Reads `HOST[:PORT]`, an IPv6 address in brackets, with `default_port` where there is none. A user before an `@` is dropped.
    ///
    /// # Errors
    /// If it is not a server.
    pub fn parse_with_default(text: &str, default_port: u16) -> Result<Self, EndpointError> {
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

/// A host in one spelling: lower case, without dots at the end, addresses as RFC 5952 prints them, and as the IPv4 address that
/// it is any other number (`127.1`, `0x7f000001`, `::ffff:127.0.0.1`) and `localhost`. Other texts are left as they are.
#[must_use]
pub fn canonical_host(host: &str) -> String {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    if matches!(host.as_str(), "localhost" | "localhost.localdomain") || host.ends_with(".localhost") {
        return Ipv4Addr::LOCALHOST.to_string();
    }
    if let Some(address) = numeric_v4(&host) {
        return address.to_string();
    }
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().to_string(),
        Err(_) => host,
    }
}

/// An IPv4 address as resolvers read it: one to four numbers, decimal, octal (`0`) or hexadecimal (`0x`), of which the last
/// fills the remaining bytes.
fn numeric_v4(host: &str) -> Option<Ipv4Addr> {
    let number = |part: &str| {
        let (digits, radix) = match (part.strip_prefix("0x"), part.strip_prefix('0')) {
            (Some(digits), _) => (digits, 16),
            (None, Some(digits)) if !digits.is_empty() => (digits, 8),
            _ => (part, 10),
        };
        // `from_str_radix` takes a sign.
        let is_plain = digits.starts_with(|c: char| c.is_ascii_hexdigit());
        if is_plain { u32::from_str_radix(digits, radix).ok() } else { None }
    };
    let parts: Vec<u32> = host.split('.').map(number).collect::<Option<_>>()?;
    let (&last, bytes) = parts.split_last()?;
    let bits_left = 32_u32.checked_sub(u32::try_from(bytes.len()).ok()?.checked_mul(8)?).filter(|&bits| bits > 0)?;
    let is_good = bytes.iter().all(|&byte| byte < 256) && u64::from(last) < 1 << bits_left;
    let high = bytes.iter().zip([24, 16, 8]).fold(0, |high, (byte, shift)| high | byte << shift);
    is_good.then(|| (high | last).into())
}

/// A path, or a pattern or prefix of paths, with the host of a forwarded name (`/root:/HOST:PORT/path`) in its one spelling. A host
/// with wildcards is left as it is.
#[must_use]
pub fn canonical_forwarded(path: &str) -> Cow<'_, str> {
    let canonical = || {
        let rest = path.strip_prefix("/root:/")?;
        let (server, tail) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host_len = server.find(']').map_or_else(|| server.find(':'), |end| end.checked_add(1));
        let (host, port) = server.split_at(host_len.unwrap_or(server.len()));
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if bare.is_empty() || bare.contains(['*', '?', '{']) {
            return None;
        }
        let name = canonical_host(bare);
        let name = if name.contains(':') { format!("[{name}]") } else { name };
        Some(format!("/root:/{name}{port}{tail}")).filter(|canonical| canonical != path)
    };
    canonical().map_or(Cow::Borrowed(path), Cow::Owned)
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
            ("127.1", "127.0.0.1:1094"),
            ("127.0.1", "127.0.0.1:1094"),
            ("2130706433", "127.0.0.1:1094"),
            ("0x7F000001", "127.0.0.1:1094"),
            ("0x7f.0.0.0x1", "127.0.0.1:1094"),
            ("017700000001:11", "127.0.0.1:11"),
            ("0177.0.0.01", "127.0.0.1:1094"),
            ("LocalHost.", "127.0.0.1:1094"),
            ("a.localhost", "127.0.0.1:1094"),
            ("0", "0.0.0.0:1094"),
            ("255.255.255.255", "255.255.255.255:1094"),
            ("4294967296", "4294967296:1094"),
            ("1.2.3.256", "1.2.3.256:1094"),
            ("256.1", "256.1:1094"),
            ("1.2.3.4.5", "1.2.3.4.5:1094"),
            ("0x", "0x:1094"),
            ("08", "08:1094"),
            ("1..2", "1..2:1094"),
            ("cafe", "cafe:1094"),
            ("10.example.org", "10.example.org:1094"),
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
    fn forwarded_names_in_rules_have_canonical_hosts() {
        for (text, canonical) in [
            ("/root:/localhost:1094/data", "/root:/127.0.0.1:1094/data"),
            ("/root:/LOCALHOST.:*/**", "/root:/127.0.0.1:*/**"),
            ("/root:/0x7f.1", "/root:/127.0.0.1"),
            ("/root:/[::FFFF:127.0.0.1]:11/a", "/root:/127.0.0.1:11/a"),
            ("/root:/[2001:DB8:0::1]:11/a", "/root:/[2001:db8::1]:11/a"),
            ("/root:/Origin.Example.:1094/A", "/root:/origin.example:1094/A"),
            ("/root:/*.Example.org:1094/a", "/root:/*.Example.org:1094/a"),
            ("/root:/{vo}:1094/a", "/root:/{vo}:1094/a"),
            ("/data/root:/localhost:1/a", "/data/root:/localhost:1/a"),
            ("/root:", "/root:"),
            ("**", "**"),
        ] {
            assert_eq!(canonical_forwarded(text), canonical);
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
