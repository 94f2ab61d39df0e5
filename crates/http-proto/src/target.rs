//! The target of a request.

use crate::{session::Refusal, status::Status};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// The target of a request, decoded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Target<'a> {
    /// The path, which begins with a slash and has no query; `*` for a request to the server as a whole.
    pub path: String,
    /// The part after the first `?`, as it was sent. May hold secrets: never log it.
    pub query: &'a str,
}

/// Characters that a path in a URI cannot hold as they are. All others stay: XrdClHttp does not decode names in listings.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A path as it is written in a URI.
pub fn encode_path(path: &str) -> String {
    utf8_percent_encode(path, ENCODED).to_string()
}

impl<'a> Target<'a> {
    /// Reads the target of a request, in one of its four forms.
    ///
    /// # Errors
    /// When it is none of them.
    pub fn parse(target: &'a str) -> Result<Self, Refusal> {
        let refused = |text| Refusal::new(Status::BAD_REQUEST, text);
        if target == "*" {
            return Ok(Self { path: target.to_owned(), query: "" });
        }
        let target = if target.starts_with('/') {
            target
        } else {
            after_authority(target).ok_or_else(|| refused("the target is not a path"))?
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        // A fragment is for the client alone, and is not sent.
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.is_empty() { "/" } else { path };
        let path = percent_decode_str(path).decode_utf8().map_err(|_| refused("the path is not UTF-8"))?;
        // A name with a question mark would get parameters of its own at an origin.
        if path.contains(['?', '\0']) {
            return Err(refused("names cannot hold a question mark or NUL"));
        }
        Ok(Self { path: path.into_owned(), query })
    }

    /// The decoded value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        let value = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next()?;
        Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
    }

    /// Whether there is a parameter, with or without a value.
    pub fn has_parameter(&self, name: &str) -> bool {
        self.query.split('&').any(|pair| pair.split('=').next() == Some(name))
    }
}

/// The path and query of a URL of HTTP.
fn after_authority(url: &str) -> Option<&str> {
    let rest = ["http://", "https://"].iter().find_map(|scheme| {
        let (start, rest) = url.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    })?;
    Some(rest.find(['/', '?']).and_then(|at| rest.get(at..)).unwrap_or("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_forms_of_targets_are_read() {
        for (target, path, query) in [
            ("/a/b?c=d?e", "/a/b", "c=d?e"),
            ("/a%20b+%C3%A9", "/a b+\u{e9}", ""),
            ("http://host:80/a?b", "/a", "b"),
            ("HTTPS://host", "/", ""),
            ("http://host?x", "/", "x"),
            ("/a#b", "/a", ""),
            ("//root://host//f", "//root://host//f", ""),
            ("*", "*", ""),
        ] {
            assert_eq!(Target::parse(target), Ok(Target { path: path.to_owned(), query }), "{target}");
        }
        for target in ["", "a", "host:443", "ftp://h/a", "/%ff", "/a%3fb", "/a%00"] {
            assert!(Target::parse(target).is_err(), "{target}");
        }
    }

    #[test]
    fn parameters_are_found_among_others() {
        let target = Target::parse("/f?xrdclhttp.timeout=9s&authz=Bearer%20a.b&x&authz=c").unwrap();
        assert_eq!(target.parameter("authz").as_deref(), Some("Bearer a.b"));
        assert_eq!((target.parameter("x"), target.parameter("auth")), (None, None));
        assert_eq!([target.has_parameter("x"), target.has_parameter("auth")], [true, false]);
    }

    proptest! {
        #[test]
        fn encoded_paths_decode_to_themselves(path in "/[^?\0]{0,40}") {
            let encoded = encode_path(&path);
            prop_assert!(encoded.is_ascii() && !encoded.contains([' ', '#', '?']));
            prop_assert_eq!(Target::parse(&encoded).unwrap().path, path);
        }
    }
}
