//! Names of files that Rucio manages. Their path ends in the same way at every origin, so one copy serves the names of all.

use forebay_types::{Checksum, Lfn};
use std::fmt;

/// The end of the path of a Rucio file, from its scope on: `mc23_13p6TeV/3f/a0/DAOD.1.root`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RucioName(String);

/// The content of a file, for keys of entries that several origins share: different contents have different keys.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ContentId<'a> {
    pub size: u64,
    pub checksum: &'a Checksum,
}

/// The component before the scope.
const MARKER: &str = "rucio";

/// Components of the shortest end of a path: a scope, two of the hash, and the name.
const COMPONENTS_MIN: usize = 4;

/// Most components of a scope. Those of users and groups have a slash for each dot.
const SCOPE_COMPONENTS_MAX: usize = 8;

/// Separator of the name, the size and the checksum in the last component of a key.
const SEPARATOR: char = ',';

impl RucioName {
    /// The name of the file at `lfn`, if its path has the form `…/rucio/SCOPE/xx/yy/NAME`, where `xx` and `yy` are two hexadecimal
    /// digits each.
    #[must_use]
    pub fn of(lfn: &Lfn) -> Option<Self> {
        // The last one: a site may keep its files below a directory of the same name.
        let (_, end) = lfn.as_str().rsplit_once(&format!("/{MARKER}/"))?;
        Self::parse(end)
    }

    fn parse(end: &str) -> Option<Self> {
        let components: Vec<&str> = end.split('/').collect();
        let (scope_len, [.., first, second, name]) =
            (components.len().checked_sub(COMPONENTS_MIN - 1)?, components.as_slice())
        else {
            return None;
        };
        let is_scope = (1..=SCOPE_COMPONENTS_MAX).contains(&scope_len) && !name.is_empty();
        (is_scope && is_hash(first) && is_hash(second)).then(|| Self(end.to_owned()))
    }

    /// The scope: that of a user or group has dots where the path has slashes.
    #[must_use]
    pub fn scope(&self) -> String {
        let components: Vec<&str> = self.0.split('/').collect();
        let scope = components.len().saturating_sub(COMPONENTS_MIN - 1);
        components.get(..scope).unwrap_or_default().join(".")
    }

    /// The name within the scope.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The text of a key for the content `id`, after the top of such keys.
    pub(crate) fn with_content(&self, id: ContentId<'_>) -> String {
        let Checksum { algorithm, value } = id.checksum;
        format!("{self}{SEPARATOR}{}{SEPARATOR}{algorithm}:{value}", id.size)
    }

    /// The name in the text of a key for a content; `None` if the text is not one.
    #[must_use]
    pub fn from_content(text: &str) -> Option<Self> {
        let mut parts = text.rsplitn(3, SEPARATOR);
        let (algorithm, value) = parts.next()?.split_once(':')?;
        let size: u64 = parts.next()?.parse().ok()?;
        let name = Self::parse(parts.next()?)?;
        let is_canonical = name.with_content(ContentId { size, checksum: &Checksum::new(algorithm, value) }) == text;
        (is_canonical && is_word(algorithm) && is_word(value)).then_some(name)
    }
}

impl ContentId<'_> {
    /// Whether the checksum can be a part of a name.
    pub(crate) fn is_nameable(&self) -> bool {
        is_word(&self.checksum.algorithm) && is_word(&self.checksum.value)
    }
}

impl fmt::Display for RucioName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_hash(component: &str) -> bool {
    component.len() == 2 && component.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CacheKey;

    fn of(path: &str) -> Option<RucioName> {
        RucioName::of(&Lfn::parse(path).unwrap())
    }

    #[test]
    fn the_end_of_the_path_is_the_name_at_every_origin() {
        let name = of("/eos/atlas/atlasdatadisk/rucio/mc23_13p6TeV/3f/a0/DAOD.1.root").unwrap();
        assert_eq!((name.scope().as_str(), name.name()), ("mc23_13p6TeV", "DAOD.1.root"));
        assert_eq!(of("/dpm/rucio/site/rucio/mc23_13p6TeV/3f/a0/DAOD.1.root").unwrap(), name);
        let name = of("/rucio/user/jdoe/00/ff/ntuple").unwrap();
        assert_eq!((name.scope().as_str(), name.name()), ("user.jdoe", "ntuple"));
        for path in [
            "/store/mc/f.root",
            "/rucio/3f/a0/name",
            "/rucio/mc/3F/a0/name",
            "/rucio/mc/3f/a0b/name",
            "/rucio/mc/3f/name",
            "/rucio/a/b/c/d/e/f/g/h/i/3f/a0/name",
            "/norucio/mc/3f/a0/name",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn different_contents_have_different_keys_from_which_the_name_is_read() {
        let name = of("/rucio/mc/3f/a0/a,b.root").unwrap();
        let (one, two) = (Checksum::new("adler32", "0a1b2c3d"), Checksum::new("adler32", "0a1b2c3e"));
        let key = |size, checksum| CacheKey::of_rucio(&name, ContentId { size, checksum }).unwrap();
        let text = "/rucio:/mc/3f/a0/a,b.root,12,adler32:0a1b2c3d";
        assert_eq!(key(12, &one).as_str(), text);
        assert!(key(12, &one) != key(12, &two) && key(12, &one) != key(13, &one));
        assert_eq!(CacheKey::from_text(text), Some(key(12, &one)));
        assert_eq!(RucioName::from_content("mc/3f/a0/a,b.root,12,adler32:0a1b2c3d"), Some(name.clone()));
        assert!(CacheKey::fixed(&Lfn::parse(text).unwrap()).is_err());
        for text in ["a", "/rucio:/mc/3f/a0/a", "/rucio:/mc/3f/a0/a,012,adler32:0a", "/rucio:/mc/3f/a0/a,1,adler32:A"] {
            assert_eq!(CacheKey::from_text(text), None, "{text}");
        }
        let unusual = Checksum::new("adler32", "a/b");
        assert!(CacheKey::of_rucio(&name, ContentId { size: 1, checksum: &unusual }).is_err());
    }
}
