//! Names of cached files as administrators write them.

use forebay_cache::{CacheKey, ForwardedPath, ForwardingError, KeyRefusal};
use forebay_types::{LfnError, RequestPath};

/// A file of the cache, named by the path or the full URL that clients request.
///
/// Of `root://CACHE//root://ORIGIN//path` and `root://CACHE//path` the part after the cache's name counts. That name is not
/// checked: a cache has many.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EntryName {
    pub path: RequestPath,
    pub key: CacheKey,
}

/// Why a text cannot name a file of a cache.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum EntryNameError {
    #[error("{0}")]
    Path(LfnError),
    #[error("invalid origin in the path: the form is /root://HOST:PORT//path")]
    Origin,
    #[error("{scheme}:// origins are not supported")]
    Scheme { scheme: &'static str },
    #[error("{0}: no such file can be cached")]
    Key(KeyRefusal),
}

/// URL schemes of requests to a cache.
const URL_SCHEMES: [&str; 2] = ["root://", "xroot://"];

impl EntryName {
    /// Reads a path or a URL.
    ///
    /// # Errors
    /// See [`EntryNameError`].
    pub fn parse(text: &str) -> Result<Self, EntryNameError> {
        let path = RequestPath::parse(path_of(text).as_bytes()).map_err(EntryNameError::Path)?;
        let key = match ForwardedPath::parse(path.lfn.as_str()) {
            Ok(Some(forwarded)) => CacheKey::forwarded(&forwarded.origin, &forwarded.lfn),
            Ok(None) => CacheKey::fixed(&path.lfn),
            Err(ForwardingError::Scheme { scheme }) => return Err(EntryNameError::Scheme { scheme }),
            Err(ForwardingError::Origin(_)) => return Err(EntryNameError::Origin),
            Err(ForwardingError::Lfn(error)) => return Err(EntryNameError::Path(error)),
        };
        Ok(Self { path, key: key.map_err(EntryNameError::Key)? })
    }
}

/// The path of a URL, after the server's name; any other text unchanged.
fn path_of(text: &str) -> &str {
    let Some(rest) = URL_SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme)) else { return text };
    rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_urls_lead_to_one_key() {
        for (text, key) in [
            ("/store/a.root", "/store/a.root"),
            ("//store//a.root", "/store/a.root"),
            ("/store/a.root?tried=x", "/store/a.root"),
            ("root://cache//store/a.root", "/store/a.root"),
            ("xroot://cache:1094//store/a.root", "/store/a.root"),
            ("root://cache//root://origin//store/a.root", "/root:/origin:1094/store/a.root"),
            ("/root://Origin:1095//store/a.root", "/root:/origin:1095/store/a.root"),
            ("/root:/origin:1095/store/a.root", "/root:/origin:1095/store/a.root"),
        ] {
            assert_eq!(EntryName::parse(text).unwrap().key.as_str(), key, "{text}");
        }
        assert_eq!(EntryName::parse("/a?x=y").unwrap().path.cgi, "x=y");
    }

    #[test]
    fn a_key_is_a_name_of_itself() {
        for text in ["/store/a.root", "/root:/origin:1095/store/a.root", "/a b/ü"] {
            let key = EntryName::parse(text).unwrap().key;
            assert_eq!(EntryName::parse(key.as_str()).unwrap().key, key);
        }
    }

    #[test]
    fn names_that_cannot_be_cached_are_refused() {
        for (text, error) in [
            ("store/a", EntryNameError::Path(LfnError::Relative)),
            ("", EntryNameError::Path(LfnError::Missing)),
            ("root://cache", EntryNameError::Path(LfnError::Missing)),
            ("/a/../../etc/passwd", EntryNameError::Path(LfnError::Climbs)),
            ("/", EntryNameError::Key(KeyRefusal::Root)),
            ("/a.cinfo", EntryNameError::Key(KeyRefusal::CinfoName)),
            ("/.forebay/lock", EntryNameError::Key(KeyRefusal::Reserved)),
            ("/root://h:0//a", EntryNameError::Origin),
            ("/https://h//a", EntryNameError::Scheme { scheme: "https" }),
        ] {
            assert_eq!(EntryName::parse(text).unwrap_err(), error, "{text}");
        }
    }
}
