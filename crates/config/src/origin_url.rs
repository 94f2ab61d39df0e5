//! URLs of origins.

use forebay_types::Endpoint;

/// A text that names no origin that can be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OriginUrlError {
    /// A scheme without a client.
    #[error("origins of scheme `{scheme}` are not supported: write root://HOST:PORT")]
    Scheme {
        /// What was written before `://`.
        scheme: String,
    },
    /// No scheme.
    #[error("`{text}` is no origin: write root://HOST:PORT")]
    NoScheme {
        /// What was written.
        text: String,
    },
    /// A path behind the server.
    #[error("`{text}` has a path: write root://HOST:PORT alone, and the path as that of the export")]
    Path {
        /// What was written.
        text: String,
    },
    /// No server behind the scheme.
    #[error("`{text}` names no server: write root://HOST:PORT (an IPv6 address in brackets)")]
    Server {
        /// What was written.
        text: String,
    },
}

/// Reads `root://HOST[:PORT]` or `xroot://…`; a slash may follow.
///
/// # Errors
/// See [`OriginUrlError`].
pub fn parse_origin_url(text: &str) -> Result<Endpoint, OriginUrlError> {
    let text = text.trim();
    let (scheme, rest) = text.split_once("://").ok_or_else(|| OriginUrlError::NoScheme { text: text.to_owned() })?;
    if !["root", "xroot"].iter().any(|known| known.eq_ignore_ascii_case(scheme)) {
        return Err(OriginUrlError::Scheme { scheme: scheme.to_owned() });
    }
    let server = rest.trim_end_matches('/');
    if server.contains(['/', '?']) {
        return Err(OriginUrlError::Path { text: text.to_owned() });
    }
    server.parse().map_err(|_| OriginUrlError::Server { text: text.to_owned() })
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
            assert_eq!(parse_origin_url(text).unwrap().to_string(), endpoint);
        }
    }

    #[test]
    fn each_mistake_is_named() {
        assert!(matches!(parse_origin_url("https://a"), Err(OriginUrlError::Scheme { .. })));
        assert!(matches!(parse_origin_url("roots://a"), Err(OriginUrlError::Scheme { .. })));
        assert!(matches!(parse_origin_url("origin:1094"), Err(OriginUrlError::NoScheme { .. })));
        assert!(matches!(parse_origin_url("root://a//store"), Err(OriginUrlError::Path { .. })));
        for text in ["root://", "root://:1094", "root://a:0", "root://a b"] {
            assert!(matches!(parse_origin_url(text), Err(OriginUrlError::Server { .. })), "{text}");
        }
    }
}
