//! URLs of origins.

use forebay_proto::TlsUse;
use forebay_types::{Endpoint, OSDF_FEDERATION, OriginId};

/// An origin as settings and commands name it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum OriginUrl {
    /// A server of XRootD's protocol.
    Root {
        server: Endpoint,
        /// TLS if the server demands it (`root://`), or always (`roots://`).
        tls: TlsUse,
    },
    /// An HTTP server, or a path there; or an S3 server, with a bucket; or a federation of Pelican.
    Http(OriginId),
}

/// Reads `root://HOST[:PORT]`, `xroot://…`, or with TLS `roots://…`, `xroots://…`; or `https://HOST[:PORT][/PATH]`, `davs://…`, or
/// without TLS `http://…`, `dav://…`; or `s3://HOST[:PORT]/BUCKET`, over TLS; or the federation
/// `pelican://HOST[:PORT][/PATH]`, or `osdf:///PATH` of OSDF. A slash may follow.
///
/// # Errors
/// The mistake, and what to write instead.
pub fn parse_origin_url(text: &str) -> Result<OriginUrl, String> {
    let text = text.trim();
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(format!("`{text}` is not an origin: write root://HOST:PORT or https://HOST:PORT"));
    };
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "root" | "xroot" => TlsUse::WhenDemanded,
        "roots" | "xroots" => TlsUse::Always,
        "pelican" => return parse_http("pelican", rest, text),
        "osdf" if rest.is_empty() || rest.starts_with('/') => {
            return parse_http("pelican", &format!("{OSDF_FEDERATION}{rest}"), text);
        }
        "osdf" => return Err(format!("`{text}` has a host: write osdf:///PATH, or pelican://HOST:PORT")),
        "s3" => return parse_http("s3", rest, text),
        "https" | "davs" => return parse_http("https", rest, text),
        "http" | "dav" => return parse_http("http", rest, text),
        _ => {
            let remedy = "write root://HOST:PORT, roots:// for TLS, https://HOST:PORT, s3://HOST:PORT/BUCKET, or pelican://HOST:PORT";
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
    Ok(OriginUrl::Root { server, tls })
}

fn parse_http(scheme: &str, rest: &str, text: &str) -> Result<OriginUrl, String> {
    let origin = format!("{scheme}://{}", rest.trim_end_matches('/'));
    let parsed = origin.parse().map_err(|_| {
        format!(
            "`{text}` is not an HTTP origin: write {scheme}://HOST:PORT, and after it at most a path of letters, digits and `-._~` below which the exported paths begin"
        )
    })?;
    Ok(OriginUrl::Http(parsed))
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
            assert_eq!(
                parse_origin_url(text),
                Ok(OriginUrl::Root { server: endpoint.parse().unwrap(), tls }),
                "{text}"
            );
        }
        for (text, origin) in [
            ("https://dav.example", "https://dav.example:443"),
            ("DAVS://dav.example:8443/", "https://dav.example:8443"),
            ("http://[::1]:8080/webdav/data/", "http://[::1]:8080/webdav/data"),
            ("dav://a", "http://a:80"),
            ("pelican://Federation.example/ns/", "pelican://federation.example:443/ns"),
            ("osdf:///", "pelican://osg-htc.org:443"),
            ("OSDF:///ospool/data", "pelican://osg-htc.org:443/ospool/data"),
        ] {
            assert_eq!(parse_origin_url(text), Ok(OriginUrl::Http(origin.parse().unwrap())), "{text}");
        }
    }

    #[test]
    fn each_mistake_is_named() {
        for (text, mistake) in [
            ("ftp://a", "scheme `ftp`"),
            ("rootss://a", "scheme `rootss`"),
            ("origin:1094", "is not an origin"),
            ("root://a//store", "has a path"),
            ("root://", "names no server"),
            ("root://:1094", "names no server"),
            ("root://a:0", "names no server"),
            ("root://a b", "names no server"),
            ("https://", "is not an HTTP origin"),
            ("https://a/b?c", "is not an HTTP origin"),
            ("osdf://a/b", "has a host"),
        ] {
            let error = parse_origin_url(text).unwrap_err();
            assert!(error.contains(mistake), "{text}: {error}");
        }
    }
}
