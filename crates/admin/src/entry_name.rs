//! Names of cached files as administrators write them.

use forebay_cache::{CacheKey, ForwardedPath, ForwardingError};
use forebay_types::RequestPath;

/// A file of the cache, named by the path or the full URL that clients request.
///
/// Of `root://CACHE//root://ORIGIN//path` and `root://CACHE//path` the part after the cache's name counts. That name is not
/// checked: a cache has many.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EntryName {
    pub path: RequestPath,
    pub key: CacheKey,
}

/// URL schemes of requests to a cache.
const URL_SCHEMES: [&str; 2] = ["root://", "xroot://"];

impl EntryName {
    /// Reads a path or a URL.
    ///
    /// # Errors
    /// Why the text cannot name a file of a cache.
    pub fn parse(text: &str) -> Result<Self, String> {
        let path = RequestPath::parse(path_of(text).as_bytes()).map_err(|error| error.to_string())?;
        let key = match ForwardedPath::parse(path.lfn.as_str()) {
            Ok(Some(forwarded)) => CacheKey::forwarded(&forwarded.origin, &forwarded.lfn),
            Ok(None) => CacheKey::rucio_from_text(path.lfn.as_str()).map_or_else(|| CacheKey::fixed(&path.lfn), Ok),
            Err(ForwardingError::Scheme { scheme }) => return Err(format!("{scheme}:// origins are not supported")),
            Err(ForwardingError::Origin(_)) => {
                return Err("invalid origin in the path: the form is /root://HOST:PORT//path".to_owned());
            }
            Err(error @ ForwardingError::Bucket) => return Err(error.to_string()),
            Err(ForwardingError::Lfn(error)) => return Err(error.to_string()),
        };
        let key = key.map_err(|refusal| format!("{refusal}: no such file can be cached"))?;
        Ok(Self { path, key })
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
    use forebay_cache::KeyRefusal;
    use forebay_types::LfnError;

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

    const RUCIO_KEY: &str = "/rucio:/mc/3f/a0/a.root,12,adler32:0a1b2c3d";

    #[test]
    fn a_key_is_a_name_of_itself() {
        for text in ["/store/a.root", "/root:/origin:1095/store/a.root", "/https:/dav:443/a", "/a b/ü", RUCIO_KEY] {
            let key = EntryName::parse(text).unwrap().key;
            assert_eq!(EntryName::parse(key.as_str()).unwrap().key, key);
        }
    }

    #[test]
    fn names_that_cannot_be_cached_are_refused() {
        let no_key = |refusal: KeyRefusal| format!("{refusal}: no such file can be cached");
        for (text, error) in [
            ("store/a", LfnError::Relative.to_string()),
            ("", LfnError::Missing.to_string()),
            ("root://cache", LfnError::Missing.to_string()),
            ("/a/../../etc/passwd", LfnError::Climbs.to_string()),
            ("/", no_key(KeyRefusal::Root)),
            ("/a.cinfo", no_key(KeyRefusal::CinfoName)),
            ("/.forebay/lock", no_key(KeyRefusal::Reserved)),
            ("/root://h:0//a", "invalid origin in the path: the form is /root://HOST:PORT//path".to_owned()),
            ("/roots://h//a", "roots:// origins are not supported".to_owned()),
        ] {
            assert_eq!(EntryName::parse(text).unwrap_err(), error, "{text}");
        }
    }
}
