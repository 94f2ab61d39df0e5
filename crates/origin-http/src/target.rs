//! URLs of requests.

use forebay_auth::without_tokens;
use forebay_http_proto::encode_path;
use forebay_origin::OriginPath;
use forebay_types::{Endpoint, OriginId, Scheme};
use hyper::Uri;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt;

/// Characters that are escaped in queries, which clients send escaped.
const NOT_IN_QUERIES: &AsciiSet = &CONTROLS.add(b' ').add(b'#');

/// First parts of parameters that `root://` clients and servers exchange; HTTP servers have no use for them.
const ROOT_PARAMETERS: [&str; 6] = ["xrd.", "xrdcl.", "oss.", "cks.", "tried", "cms."];

/// Longest URL in bytes that a server may name.
const URL_LEN_MAX: usize = 16 << 10;
const TOO_LONG: &str = "it names a URL longer than 16 KiB";

/// A server, and a path with its query, which may hold secrets.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct Target {
    /// Scheme and endpoint, without a base.
    pub(crate) server: OriginId,
    pub(crate) path_and_query: String,
}

impl Target {
    /// The URL of `path` at `origin`, without tokens: they are sent in a header, and not to every server.
    pub(crate) fn new(origin: &OriginId, path: &OriginPath) -> Self {
        if origin.scheme == Scheme::S3 {
            return Self {
                server: server_of(origin),
                path_and_query: s3_path(&[origin.base(), path.lfn.as_str()].concat()),
            };
        }
        let cgi = without_tokens(&path.cgi);
        let is_of_root = |pair: &&str| ROOT_PARAMETERS.iter().any(|prefix| pair.starts_with(prefix));
        let query: Vec<&str> = cgi.split('&').filter(|pair| !pair.is_empty() && !is_of_root(pair)).collect();
        let mut url = format!("{}{}", origin.base(), encode_path(path.lfn.as_str()));
        if !query.is_empty() {
            url.push('?');
            url.push_str(&utf8_percent_encode(&query.join("&"), NOT_IN_QUERIES).to_string());
        }
        Self { server: server_of(origin), path_and_query: url }
    }

    /// The target that the `Location` of an answer from here names.
    ///
    /// # Errors
    /// States why it cannot be followed.
    pub(crate) fn redirected(&self, location: &str) -> Result<Self, &'static str> {
        if location.starts_with('/') && !location.starts_with("//") {
            if location.len() > URL_LEN_MAX {
                return Err(TOO_LONG);
            }
            let path_and_query = location.split('#').next().unwrap_or_default().to_owned();
            return Ok(Self { path_and_query, ..self.clone() });
        }
        Self::absolute(location)
    }

    /// The target of a URL with a server.
    ///
    /// # Errors
    /// States why it cannot be used.
    pub(crate) fn absolute(url: &str) -> Result<Self, &'static str> {
        if url.len() > URL_LEN_MAX {
            return Err(TOO_LONG);
        }
        let uri: Uri = url.parse().map_err(|_| "it names a text that is not a URL")?;
        let scheme = match uri.scheme_str() {
            Some("https" | "davs") => Scheme::Https,
            Some("http" | "dav") => Scheme::Http,
            _ => return Err("it names a URL that is neither http:// nor https://"),
        };
        let authority = uri.authority().ok_or("it names a URL without a host")?;
        if authority.as_str().contains('@') {
            return Err("it names a URL with a user name");
        }
        let text = format!("{}://{authority}", scheme.as_str());
        let server = text.parse().map_err(|_| "it names a URL with a malformed host")?;
        let path_and_query = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { server, path_and_query })
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.server.scheme != Scheme::Http
    }

    pub(crate) fn is_s3(&self) -> bool {
        self.server.scheme == Scheme::S3
    }

    pub(crate) const fn endpoint(&self) -> &Endpoint {
        &self.server.endpoint
    }

    /// The value of `Host`: without the port where it is the scheme's own.
    pub(crate) fn host(&self) -> String {
        let endpoint = self.endpoint();
        let own_port = if self.is_tls() { 443 } else { 80 };
        let text = endpoint.to_string();
        if endpoint.port() != own_port {
            return text;
        }
        text.rsplit_once(':').map_or_else(|| text.clone(), |(host, _)| host.to_owned())
    }

    /// Whether `other` is the same path with a slash at its end, to which servers redirect requests for directories.
    pub(crate) fn is_directory_at(&self, other: &Self) -> bool {
        let path = |target: &Self| target.path_and_query.split('?').next().unwrap_or_default().to_owned();
        self.server == other.server && format!("{}/", path(self)) == path(other)
    }

    /// The same for a directory, with a slash at the end of its path.
    pub(crate) fn as_directory(&self) -> Self {
        let (path, query) = self.path_and_query.split_once('?').unwrap_or((&self.path_and_query, ""));
        let between = if query.is_empty() { "" } else { "?" };
        let path = path.trim_end_matches('/');
        Self { server: self.server.clone(), path_and_query: format!("{path}/{between}{query}") }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Queries hold tokens and signatures.
        let path = self.path_and_query.split('?').next().unwrap_or_default();
        write!(f, "{}{path}", self.server)
    }
}

/// Characters that are escaped in signed queries, and in signed paths.
const NOT_UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const NOT_IN_SIGNED_PATHS: &AsciiSet = &NOT_UNRESERVED.remove(b'/');

/// A value in the query of a signed URL.
pub(crate) fn s3_value(value: &str) -> String {
    utf8_percent_encode(value, NOT_UNRESERVED).to_string()
}

/// The path of a signed URL.
fn s3_path(path: &str) -> String {
    utf8_percent_encode(path, NOT_IN_SIGNED_PATHS).to_string()
}

/// The server of an origin alone.
pub(crate) fn server_of(origin: &OriginId) -> OriginId {
    OriginId::of(origin.scheme, origin.endpoint.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_origin::DelegatedCredentials;
    use forebay_types::Lfn;

    fn at(origin: &str, lfn: &str, cgi: &str) -> Target {
        let path = OriginPath {
            lfn: Lfn::parse(lfn).unwrap(),
            cgi: cgi.to_owned(),
            delegation: DelegatedCredentials::default(),
        };
        Target::new(&origin.parse().unwrap(), &path)
    }

    #[test]
    fn paths_are_escaped_and_queries_keep_what_http_servers_understand() {
        for (origin, lfn, cgi, host, url) in [
            ("https://dav.example", "/store/a b", "", "dav.example", "/store/a%20b"),
            ("https://dav.example:8443/base", "/a+%é", "", "dav.example:8443", "/base/a+%25%C3%A9"),
            ("http://[::1]:80", "/a", "x=1&xrd.gsiusrpxy=y&oss.asize=3&z", "[::1]", "/a?x=1&z"),
            ("http://h:8080", "/a", "authz=Bearer%20secret&x=1", "h:8080", "/a?x=1"),
            ("s3://h:9000/bucket", "/a b+(1)%", "x=1", "h:9000", "/bucket/a%20b%2B%281%29%25"),
            ("s3://bucket.s3.example", "/a~b", "", "bucket.s3.example", "/a~b"),
        ] {
            let target = at(origin, lfn, cgi);
            assert_eq!((target.host().as_str(), target.path_and_query.as_str()), (host, url));
        }
    }

    #[test]
    fn redirects_are_resolved() {
        let door = at("https://door.example:8443", "/a/b", "");
        for (location, to) in [
            ("http://pool.example:2000/x?uuid=1", Ok("http://pool.example:2000/x?uuid=1")),
            ("https://pool.example", Ok("https://pool.example:443/")),
            ("/other?a=b#part", Ok("https://door.example:8443/other?a=b")),
            ("ftp://pool/x", Err("neither")),
            ("//pool/x", Err("neither")),
            ("https://me@pool/x", Err("user name")),
            ("a b", Err("not a URL")),
        ] {
            let followed = door.redirected(location);
            match to {
                Ok(to) => {
                    let target = followed.unwrap();
                    assert_eq!(format!("{}{}", target.server, target.path_and_query), to);
                }
                Err(reason) => assert!(followed.unwrap_err().contains(reason), "{location}"),
            }
        }
        let directory = door.redirected("https://door.example:8443/a/b/").unwrap();
        assert!(door.is_directory_at(&directory) && !door.is_directory_at(&door));
        assert_eq!(at("http://h", "/a", "x=1").as_directory().path_and_query, "/a/?x=1");
    }

    #[test]
    fn queries_are_not_printed() {
        assert_eq!(format!("{:?}", at("http://h", "/a", "signature=secret")), "http://h:80/a");
    }
}
