//! Cache keys, the names of entries, and their numbers.

use crate::{
    forwarding::{forwarded_name, is_forwarding_top, parse_name, spelled_name},
    rucio::{ContentId, RucioName},
};
use forebay_types::{LFN_COMPONENT_LEN_MAX, LFN_LEN_MAX, Lfn, OriginId};
use std::{
    cmp::Ordering,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

/// Follows an entry's name in the name of its cinfo.
pub const CINFO_SUFFIX: &str = ".cinfo";

/// Longest key in bytes: with the suffix and a NUL it must fit a path of the operating system.
pub const KEY_LEN_MAX: usize = LFN_LEN_MAX - CINFO_SUFFIX.len() - 1;

/// Longest last component of a key in bytes: with the suffix it must fit a name of the operating system.
const NAME_LEN_MAX: usize = LFN_COMPONENT_LEN_MAX - CINFO_SUFFIX.len();

/// First components that belong to the cache itself: XCache's statistics and page checksums, and our own files.
const RESERVED_TOP: [&str; 4] = ["pfc-stats", ".xrdt", ".forebay", ".forebay-probe"];

/// Whether `name`, directly below the store's root, belongs to the cache itself and holds no entries.
#[must_use]
pub fn is_reserved_top(name: &str) -> bool {
    RESERVED_TOP.contains(&name)
}

/// First component of the keys of Rucio files.
const RUCIO_TOP: &str = "rucio:";

/// The name of a cache entry: a path below the store's root, without `.` or `..` components. Cheap to clone, to compare with another
/// one and to hash.
#[derive(Clone)]
pub struct CacheKey {
    text: Arc<str>,
    /// Of the text, the same in each run. An open looks into several tables, and would hash the text for each of them.
    hash: u64,
}

/// Why a file cannot have a cache entry and is read past the cache.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, thiserror::Error)]
pub enum KeyRefusal {
    /// The name lies in a part of the tree that belongs to the cache itself.
    #[error("the name belongs to the cache itself")]
    Reserved,
    /// A component ends in [`CINFO_SUFFIX`] and could be taken for a cinfo.
    #[error("a component of the name ends in .cinfo")]
    CinfoName,
    /// The name leaves no room for [`CINFO_SUFFIX`].
    #[error("the name is too long to have a cinfo beside it")]
    TooLong,
    /// The root directory is no file.
    #[error("the root directory is no file")]
    Root,
}

impl CacheKey {
    /// The key of a file of a fixed origin: its name, as in XCache.
    ///
    /// # Errors
    /// See [`KeyRefusal`]; names that look like [`Self::forwarded`] keys are reserved.
    pub fn fixed(lfn: &Lfn) -> Result<Self, KeyRefusal> {
        let top = lfn.as_str().split('/').nth(1).unwrap_or_default();
        if RESERVED_TOP.contains(&top) || is_forwarding_top(top) || top == RUCIO_TOP {
            return Err(KeyRefusal::Reserved);
        }
        Self::checked(lfn, lfn.shared())
    }

    /// The key of a file of an origin that the client named: its [`forwarded_name`].
    ///
    /// # Errors
    /// See [`KeyRefusal`].
    pub fn forwarded(origin: &OriginId, lfn: &Lfn) -> Result<Self, KeyRefusal> {
        Self::checked(lfn, forwarded_name(origin, lfn).into())
    }

    /// The key of a Rucio file with this content, whichever origin has it.
    ///
    /// # Errors
    /// See [`KeyRefusal`]; a checksum that cannot be a part of a name is reserved.
    pub fn of_rucio(name: &RucioName, content: ContentId<'_>) -> Result<Self, KeyRefusal> {
        if !content.is_nameable() {
            return Err(KeyRefusal::Reserved);
        }
        let text = format!("/{RUCIO_TOP}/{}", name.with_content(content));
        let lfn = Lfn::parse(&text).map_err(|_| KeyRefusal::TooLong)?;
        Self::checked(&lfn, text.into())
    }

    fn new(text: Arc<str>) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self { hash: hasher.finish(), text }
    }

    fn checked(lfn: &Lfn, key: Arc<str>) -> Result<Self, KeyRefusal> {
        let (_, name) = lfn.as_str().rsplit_once('/').unwrap_or_default();
        if name.is_empty() {
            return Err(KeyRefusal::Root);
        }
        if lfn.as_str().split('/').any(|component| component.ends_with(CINFO_SUFFIX)) {
            return Err(KeyRefusal::CinfoName);
        }
        if name.len() > NAME_LEN_MAX || key.len() > KEY_LEN_MAX {
            return Err(KeyRefusal::TooLong);
        }
        Ok(Self::new(key))
    }

    /// The key whose [`Self::as_str`] is `text`, or `None` when no key looks like this.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        if let Some(key) = Self::rucio_from_text(text) {
            return Some(key);
        }
        let key = match parse_name(text) {
            // Stores hold keys of other spellings from before names were canonical: they can be listed and purged.
            Some((origin, lfn)) => Self::checked(&lfn, spelled_name(&origin, &lfn).into()),
            None => Self::fixed(&Lfn::parse(text).ok()?),
        };
        key.ok().filter(|key| key.as_str() == text)
    }

    /// The key of [`Self::of_rucio`] whose [`Self::as_str`] is `text`.
    #[must_use]
    pub fn rucio_from_text(text: &str) -> Option<Self> {
        let shared = text.strip_prefix('/')?.strip_prefix(RUCIO_TOP)?.strip_prefix('/')?;
        RucioName::from_content(shared)?;
        let lfn = Lfn::parse(text).ok().filter(|lfn| lfn.as_str() == text)?;
        Self::checked(&lfn, text.into()).ok()
    }

    /// The key as text, beginning with `/`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The path of the entry's directory below the store's root (empty for the root itself), and the entry's name in it.
    #[must_use]
    pub fn split(&self) -> (&str, &str) {
        let (parent, name) = self.text.rsplit_once('/').unwrap_or_default();
        (parent.trim_start_matches('/'), name)
    }
}

impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CacheKey").field(&self.text).finish()
    }
}

impl Hash for CacheKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialEq for CacheKey {
    fn eq(&self, other: &Self) -> bool {
        // Keys of one directory differ in their last letters only.
        self.hash == other.hash && self.text == other.text
    }
}

impl Eq for CacheKey {}

impl PartialOrd for CacheKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CacheKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

/// The number of an entry in the index and in the replacement policies. A number is never given twice within one index,
/// not even for a new entry of the same key.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct EntryId(pub u64);

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lfn(path: &str) -> Lfn {
        Lfn::parse(path).unwrap()
    }

    #[test]
    fn keys_of_a_fixed_origin_are_the_path() {
        let key = CacheKey::fixed(&lfn("//store//a.root")).unwrap();
        assert_eq!(key.as_str(), "/store/a.root");
        assert_eq!(key.split(), ("store", "a.root"));
        assert_eq!(CacheKey::fixed(&lfn("/a")).unwrap().split(), ("", "a"));
    }

    /// Never change the texts: they are on disks.
    #[test]
    fn every_origin_has_keys_of_its_own_from_which_it_can_be_read() {
        let path = lfn("/a/b");
        for (spelled, text) in [
            ("Origin.Example", "/root:/origin.example:1094/a/b"),
            ("origin.example.", "/root:/origin.example:1094/a/b"),
            ("localhost", "/root:/127.0.0.1:1094/a/b"),
            ("127.1", "/root:/127.0.0.1:1094/a/b"),
            ("0x7f000001:11", "/root:/127.0.0.1:11/a/b"),
            ("[2001:DB8::1]:11", "/root:/[2001:db8::1]:11/a/b"),
            ("[2001:db8:0::1]:11", "/root:/[2001:db8::1]:11/a/b"),
        ] {
            assert_eq!(CacheKey::forwarded(&spelled.parse().unwrap(), &path).unwrap().as_str(), text);
        }
        for (id, text) in [
            ("origin:11", "/root:/origin:11/a/b"),
            ("origin:1094", "/root:/origin:1094/a/b"),
            ("[2001:db8::1]:11", "/root:/[2001:db8::1]:11/a/b"),
            ("roots://origin:1094", "/roots:/origin:1094/a/b"),
            ("http://origin:1094", "/http:/origin:1094/a/b"),
            ("https://origin:1094", "/https:/origin:1094/a/b"),
            ("https://origin:1094/a", "/https:/origin:1094,a/a/b"),
            ("https://origin:1094/a/b", "/https:/origin:1094,a,b/a/b"),
            ("pelican://federation:443", "/pelican:/federation:443/a/b"),
            ("s3://[2001:db8::1]:9000/bucket", "/s3:/[2001:db8::1]:9000,bucket/a/b"),
        ] {
            let origin: OriginId = id.parse().unwrap();
            let key = CacheKey::forwarded(&origin, &path).unwrap();
            assert_eq!((origin.to_string().as_str(), key.as_str()), (id, text));
            assert_eq!(parse_name(text), Some((origin, path.clone())));
            assert_eq!(CacheKey::from_text(text), Some(key));
            assert_eq!(CacheKey::fixed(&lfn(text)), Err(KeyRefusal::Reserved));
        }
        for text in
            ["/https:/o/a", "/https:/o:1,/a", "/https:/o:1,../a", "/root:/o:1,b/a", "/s3:/o,b:1/a", "/ftp:/o:1/a/"]
        {
            assert_eq!(CacheKey::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn keys_are_read_back_from_their_text() {
        for text in
            ["/a", "/store/a.root", "/root:/origin:1094/a", "/root:/[2001:db8::1]:11/store/a.root", "/root:/o.:1094/a"]
        {
            assert_eq!(CacheKey::from_text(text).unwrap().as_str(), text);
        }
        for text in ["", "/", "a", "//a", "/a/", "/a.cinfo", "/.forebay/lock", "/root:", "/root:/o:1094", "/root:/o/a"]
        {
            assert_eq!(CacheKey::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn names_of_the_cache_itself_are_refused() {
        for path in [
            "/pfc-stats",
            "/pfc-stats/DirStat.json",
            "/.xrdt/a",
            "/.forebay/lock",
            "/.forebay-probe",
            "/root:/evil:1094/a",
        ] {
            assert_eq!(CacheKey::fixed(&lfn(path)), Err(KeyRefusal::Reserved), "{path}");
        }
        for path in ["/a.cinfo", "/a.cinfo/b", "/.cinfo"] {
            assert_eq!(CacheKey::fixed(&lfn(path)), Err(KeyRefusal::CinfoName), "{path}");
        }
        assert_eq!(CacheKey::fixed(&lfn("/")), Err(KeyRefusal::Root));
        assert_eq!(CacheKey::forwarded(&"o".parse().unwrap(), &lfn("/")), Err(KeyRefusal::Root));
        for path in ["/pfc-stats2", "/a/pfc-stats", "/a.cinfo2", "/a/.forebay/x", "/root"] {
            assert!(CacheKey::fixed(&lfn(path)).is_ok(), "{path}");
        }
    }

    #[test]
    fn names_leave_room_for_the_suffix() {
        let name_of = |len: usize| format!("/{}", "n".repeat(len));
        assert!(CacheKey::fixed(&lfn(&name_of(NAME_LEN_MAX))).is_ok());
        assert_eq!(CacheKey::fixed(&lfn(&name_of(NAME_LEN_MAX + 1))), Err(KeyRefusal::TooLong));
        let path_of = |len: usize| format!("{}/{}", "/d".repeat(1900), "n".repeat(len - 3801));
        assert!(CacheKey::fixed(&lfn(&path_of(3900))).is_ok());
        let long = format!("{}/{}", "/dd".repeat(1300), "n".repeat(180));
        assert!(CacheKey::fixed(&lfn(&long)).is_ok());
        let origin = "an-origin-with-a-long-name.example.org".parse().unwrap();
        assert_eq!(CacheKey::forwarded(&origin, &lfn(&long)), Err(KeyRefusal::TooLong));
    }
}
