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

/// The error of a text that is not an origin.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OriginUrlError {
    /// A scheme that is not supported.
    #[error("origins of scheme `{scheme}` are not supported: write root://HOST:PORT, or roots:// for TLS")]
    Scheme { scheme: String },
    /// No scheme.
    #[error("`{text}` is not an origin: write root://HOST:PORT")]
    NoScheme { text: String },
    /// A path after the server.
    #[error("`{text}` has a path: write root://HOST:PORT alone, and the path as that of the export")]
    Path { text: String },
    /// No server after the scheme.
    #[error("`{text}` names no server: write root://HOST:PORT (an IPv6 address in brackets)")]
    Server { text: String },
}

/// Reads `root://HOST[:PORT]`, `xroot://…`, or with TLS `roots://…`, `xroots://…`; a slash may follow.
///
/// # Errors
/// See [`OriginUrlError`].
pub fn parse_origin_url(text: &str) -> Result<OriginUrl, OriginUrlError> {
    let text = text.trim();
    let (scheme, rest) = text.split_once("://").ok_or_else(|| OriginUrlError::NoScheme { text: text.to_owned() })?;
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "root" | "xroot" => TlsUse::WhenDemanded,
        "roots" | "xroots" => TlsUse::Always,
        _ => return Err(OriginUrlError::Scheme { scheme: scheme.to_owned() }),
    };
    let server = rest.trim_end_matches('/');
    if server.contains(['/', '?']) {
        return Err(OriginUrlError::Path { text: text.to_owned() });
    }
    let server = server.parse().map_err(|_| OriginUrlError::Server { text: text.to_owned() })?;
    Ok(OriginUrl { server, tls })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_with_and_without_a_port() {
        for (text, endpoint) in [
            ("root://origin.example", "origin.example:1094"),
            ("root://origin:11/", "origin:11"),
            ("xroot://origin:11//", "origin:11"),
            ("ROOT://[::1]:11", "[::1]:11"),
        ] {
            assert_eq!(parse_origin_url(text).unwrap().server.to_string(), endpoint);
        }
    }

    #[test]
    fn the_scheme_says_whether_tls_is_a_must() {
        for (text, tls) in [
            ("root://a", TlsUse::WhenDemanded),
            ("xroot://a", TlsUse::WhenDemanded),
            ("roots://a", TlsUse::Always),
            ("XROOTS://a", TlsUse::Always),
        ] {
            assert_eq!(parse_origin_url(text).unwrap().tls, tls, "{text}");
        }
    }

    #[test]
    fn each_mistake_is_named() {
        assert!(matches!(parse_origin_url("https://a"), Err(OriginUrlError::Scheme { .. })));
        assert!(matches!(parse_origin_url("rootss://a"), Err(OriginUrlError::Scheme { .. })));
        assert!(matches!(parse_origin_url("origin:1094"), Err(OriginUrlError::NoScheme { .. })));
        assert!(matches!(parse_origin_url("root://a//store"), Err(OriginUrlError::Path { .. })));
        for text in ["root://", "root://:1094", "root://a:0", "root://a b"] {
            assert!(matches!(parse_origin_url(text), Err(OriginUrlError::Server { .. })), "{text}");
        }
    }
}
