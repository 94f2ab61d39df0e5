//! URLs of origins.

use forebay_proto::TlsUse;
use forebay_types::Endpoint;

/// A server, and its use of TLS.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OriginUrl {
    pub server: Endpoint,
    /// TLS if the server demands it (`root://`), or always (`roots://`).
    pub tls: TlsUse,
}

/// Reads `root://HOST[:PORT]`, `xroot://…`, or with TLS `roots://…`, `xroots://…`; a slash may follow.
///
/// # Errors
/// The mistake, and what to write instead.
pub fn parse_origin_url(text: &str) -> Result<OriginUrl, String> {
    let text = text.trim();
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(format!("`{text}` is not an origin: write root://HOST:PORT"));
    };
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "root" | "xroot" => TlsUse::WhenDemanded,
        "roots" | "xroots" => TlsUse::Always,
        _ => {
            let remedy = "write root://HOST:PORT, or roots:// for TLS";
            return Err(format!("origins of scheme `{scheme}` are not supported: {remedy}"));
        }
    };
    let server = rest.trim_end_matches('/');
    if server.contains(['/', '?']) {
        return Err(format!("`{text}` has a path: write root://HOST:PORT alone, and the path as that of the export"));
    }
    let server = server
        .parse()
        .map_err(|_| format!("`{text}` names no server: write root://HOST:PORT (an IPv6 address in brackets)"))?;
    Ok(OriginUrl { server, tls })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_with_and_without_a_port_and_tls() {
        for (text, endpoint, tls) in [
            ("root://origin.example", "origin.example:1094", TlsUse::WhenDemanded),
            ("root://origin:11/", "origin:11", TlsUse::WhenDemanded),
            ("xroot://origin:11//", "origin:11", TlsUse::WhenDemanded),
            ("ROOT://[::1]:11", "[::1]:11", TlsUse::WhenDemanded),
            ("roots://a", "a:1094", TlsUse::Always),
            ("XROOTS://a", "a:1094", TlsUse::Always),
        ] {
            let url = parse_origin_url(text).unwrap();
            assert_eq!((url.server.to_string().as_str(), url.tls), (endpoint, tls), "{text}");
        }
    }

    #[test]
    fn each_mistake_is_named() {
        for (text, mistake) in [
            ("https://a", "scheme `https`"),
            ("rootss://a", "scheme `rootss`"),
            ("origin:1094", "is not an origin"),
            ("root://a//store", "has a path"),
            ("root://", "names no server"),
            ("root://:1094", "names no server"),
            ("root://a:0", "names no server"),
            ("root://a b", "names no server"),
        ] {
            let error = parse_origin_url(text).unwrap_err();
            assert!(error.contains(mistake), "{text}: {error}");
        }
    }
}
