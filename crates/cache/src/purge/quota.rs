//! Quotas: parts of the name space with a share of the cache of their own.

use crate::CacheKey;
use forebay_types::Lfn;

/// Limit and guarantee for the entries at and below a path. The longest path that covers an entry is the one
/// it counts for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Quota {
    /// The entries at and below this path.
    pub path: Lfn,
    /// Bytes that other entries' need for room does not take from these; 0 guarantees nothing.
    pub min_bytes: u64,
    /// Bytes that they may take; `None` for as much as there is.
    pub max_bytes: Option<u64>,
}

impl Quota {
    /// The part of its maximum down to which an exceeded quota is brought: nineteen twentieths, so that one purge gives room
    /// for many files.
    pub(crate) const fn low_bytes(max_bytes: u64) -> u64 {
        max_bytes - max_bytes / 20
    }

    fn covers(&self, key: &CacheKey) -> bool {
        let path = self.path.as_str();
        path == "/" || key.as_str().strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// The number of the quota that `key` counts for.
pub(crate) fn quota_of(quotas: &[Quota], key: &CacheKey) -> Option<u16> {
    let covering = quotas.iter().enumerate().filter(|(_, quota)| quota.covers(key));
    let (index, _) = covering.max_by_key(|(_, quota)| quota.path.as_str().len())?;
    u16::try_from(index).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_path_that_covers_an_entry_counts() {
        let quota = |path| Quota { path: Lfn::parse(path).unwrap(), min_bytes: 0, max_bytes: None };
        let quotas = [quota("/store"), quota("/store/user"), quota("/root:/o:1094/store")];
        let of = |path: &str| quota_of(&quotas, &CacheKey::fixed(&Lfn::parse(path).unwrap()).unwrap());
        assert_eq!(of("/store/data/f"), Some(0));
        assert_eq!(of("/store/user/f"), Some(1));
        assert_eq!(of("/store/user"), Some(1));
        assert_eq!(of("/store/users/f"), Some(0));
        assert_eq!(of("/stores"), None);
        let forwarded = CacheKey::forwarded(&"o".parse().unwrap(), &Lfn::parse("/store/f").unwrap()).unwrap();
        assert_eq!(quota_of(&quotas, &forwarded), Some(2));
        assert_eq!(quota_of(&[quota("/")], &forwarded), Some(0));
    }
}
