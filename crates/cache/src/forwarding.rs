//! Paths that name their origin.

use forebay_types::{Endpoint, EndpointError, Lfn, LfnError};

/// A file at an origin that the client named.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ForwardedPath {
    /// The origin.
    pub origin: Endpoint,
    /// The file's name there.
    pub lfn: Lfn,
}

/// A path that names an origin in a way that cannot be served.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ForwardingError {
    /// The scheme is known but no client for it exists.
    #[error("origins of scheme `{scheme}` are not supported yet: use root://")]
    Scheme {
        /// The scheme, in lower case.
        scheme: &'static str,
    },
    /// Nothing that can be a host follows the scheme.
    #[error("the path names no origin")]
    Origin(#[from] EndpointError),
    /// No file name, or a bad one, follows the origin.
    #[error("the path names no file at the origin")]
    Lfn(#[from] LfnError),
}

/// Schemes of XRootD's own protocol without TLS.
const SERVED_SCHEMES: [&str; 2] = ["root", "xroot"];

/// Schemes that are recognised in order to say that they are not served.
const KNOWN_SCHEMES: [&str; 4] = ["roots", "xroots", "http", "https"];

impl ForwardedPath {
    /// Reads a request's path that names an origin: `root://host[:port]//path` and `xroot://…`, with or without a `/`
    /// before it, with any number of slashes wherever there is one (servers and clients squeeze them: an [`Lfn`]'s
    /// text is `/root:/host:port/path`). A user before the host is dropped, an IPv6 address stands in brackets.
    ///
    /// `None` when the path does not begin with a known scheme: it is an ordinary name.
    ///
    /// # Errors
    /// When it begins with a known scheme and goes on wrongly.
    pub fn parse(path: &str) -> Result<Option<Self>, ForwardingError> {
        let path = path.trim_start_matches('/');
        let (scheme, rest) = path.split_once('/').unwrap_or((path, ""));
        let Some(scheme) = scheme.strip_suffix(':') else {
            return Ok(None);
        };
        if let Some(scheme) = KNOWN_SCHEMES.into_iter().find(|known| known.eq_ignore_ascii_case(scheme)) {
            return Err(ForwardingError::Scheme { scheme });
        }
        if !SERVED_SCHEMES.iter().any(|served| served.eq_ignore_ascii_case(scheme)) {
            return Ok(None);
        }
        let authority_and_path = rest.trim_start_matches('/');
        let path_start = authority_and_path.find('/').unwrap_or(authority_and_path.len());
        let (authority, path) = authority_and_path.split_at(path_start);
        Ok(Some(Self { origin: authority.parse()?, lfn: Lfn::parse(path)? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_an_origin_is_understood() {
        for (path, origin, lfn) in [
            ("root://origin//store/a", "origin:1094", "/store/a"),
            ("/root://origin:11//store/a", "origin:11", "/store/a"),
            ("//root:///origin:11///store//a", "origin:11", "/store/a"),
            ("/root:/origin:11/store/a", "origin:11", "/store/a"),
            ("/root:/origin/a", "origin:1094", "/a"),
            ("/xroot:/Origin.Example:11/a", "origin.example:11", "/a"),
            ("/ROOT:/origin/a", "origin:1094", "/a"),
            ("/root:/u27@origin:11/a", "origin:11", "/a"),
            ("/root:/user:word@origin:11/a", "origin:11", "/a"),
            ("/root:/[::1]:11/a", "[::1]:11", "/a"),
            ("/root:/[2001:DB8::1]/a", "[2001:db8::1]:1094", "/a"),
            ("/root:/origin/", "origin:1094", "/"),
            ("/root:/one/root:/two/a", "one:1094", "/root:/two/a"),
        ] {
            let parsed = ForwardedPath::parse(path).unwrap().unwrap();
            assert_eq!((parsed.origin.to_string().as_str(), parsed.lfn.as_str()), (origin, lfn), "{path}");
        }
    }

    #[test]
    fn ordinary_names_are_left_alone() {
        for path in ["", "/", "/store/a", "/root/a", "/rooted:/a/b", "/file:/a", "/C:/a", "/:/a", "/a/root:/b/c"] {
            assert_eq!(ForwardedPath::parse(path), Ok(None), "{path}");
        }
    }

    #[test]
    fn schemes_without_a_client_are_named() {
        for (path, scheme) in [("/https:/h/a", "https"), ("roots://h//a", "roots"), ("/XROOTS:/h/a", "xroots")] {
            assert_eq!(ForwardedPath::parse(path), Err(ForwardingError::Scheme { scheme }), "{path}");
        }
    }

    #[test]
    fn broken_origins_and_names_are_errors() {
        for path in
            ["/root:", "/root:/", "root://", "/root:/:1094/a", "/root:/h:0/a", "/root:/h:99999/a", "/root:/::1/a"]
        {
            assert!(matches!(ForwardedPath::parse(path), Err(ForwardingError::Origin(_))), "{path}");
        }
        assert_eq!(ForwardedPath::parse("/root:/h:1"), Err(ForwardingError::Lfn(LfnError::Missing)));
        assert_eq!(ForwardedPath::parse("root://h//../a"), Err(ForwardingError::Lfn(LfnError::Climbs)));
    }
}
