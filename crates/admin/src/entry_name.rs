//! Names of files as people write them.

use forebay_cache::{CacheKey, ForwardedPath, ForwardingError, KeyRefusal};
use forebay_types::{LfnError, RequestPath};

/// A file of the cache, as a person names it: the path clients ask for, or the whole URL with which they do.
///
/// Of `root://CACHE//root://ORIGIN//path` and `root://CACHE//path` the part behind the cache's name counts. Whose name it is
/// nobody checks: a cache has many.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EntryName {
    /// What clients ask for.
    pub path: RequestPath,
    /// Under what the cache keeps it.
    pub key: CacheKey,
}

/// Why a text names no file that a cache could hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum EntryNameError {
    /// It is no path.
    #[error("{0}")]
    Path(LfnError),
    /// It names an origin in a way that cannot be served.
    #[error("the name of an origin in the path cannot be understood: write /root://HOST:PORT//path")]
    Origin,
    /// It names an origin by a scheme that this release does not serve.
    #[error("{scheme}:// origins are not served")]
    Scheme { scheme: &'static str },
    /// The cache keeps no file of this name.
    #[error("{0}: the cache keeps no file of this name")]
    Key(KeyRefusal),
}

/// Schemes of URLs with which clients ask a cache.
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

/// What stands behind the server's name of a URL; the text itself when it is none.
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
    fn what_names_no_file_of_a_cache_is_refused() {
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
