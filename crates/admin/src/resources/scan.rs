//! Iteration over the entries of the cache by a pattern.

use forebay_cache::{CacheKey, PathPattern};
use forebay_engine::{Engine, EntryInfo, Error};

use crate::entry_name::EntryName;

/// Entries read from the index at a time.
const PAGE_LEN: usize = 1000;

/// Entries that match a pattern, in the order of their keys, page by page.
pub(crate) struct Scan {
    pattern: Option<PathPattern>,
    /// Common prefix of all matches.
    prefix: String,
    /// The last entry read.
    after: Option<CacheKey>,
    is_over: bool,
}

impl Scan {
    /// Entries after `after` that match `pattern`; every entry without them.
    pub(crate) fn new(pattern: Option<PathPattern>, after: Option<CacheKey>) -> Self {
        let prefix =
            pattern.as_ref().map(|pattern| literal_prefix(&pattern.to_string()).to_owned()).unwrap_or_default();
        // The entries below a directory sort after its name.
        let directory = prefix.rsplit_once('/').and_then(|(directory, _)| EntryName::parse(directory).ok());
        let after = after.max(directory.map(|directory| directory.key));
        Self { pattern, prefix, after, is_over: false }
    }

    /// The matches in the next page of the index, possibly none; `None` after the last one.
    pub(crate) async fn next_page(&mut self, engine: &Engine) -> Result<Option<Vec<EntryInfo>>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let mut page = engine.entries(self.after.as_ref(), PAGE_LEN).await?;
        let last = page.last().map(|entry| entry.key.clone());
        self.is_over = page.len() < PAGE_LEN || last.as_ref().is_some_and(|last| self.is_past_end(last));
        self.after = last.or_else(|| self.after.take());
        page.retain(|entry| self.pattern.as_ref().is_none_or(|pattern| pattern.matches(entry.key.as_str())));
        Ok(Some(page))
    }

    /// The last entry read, if there are more.
    pub(crate) fn position(&self) -> Option<&CacheKey> {
        if self.is_over { None } else { self.after.as_ref() }
    }

    /// Whether all matches sort before `key`.
    fn is_past_end(&self, key: &CacheKey) -> bool {
        key.as_str() > self.prefix.as_str() && !key.as_str().starts_with(&self.prefix)
    }
}

/// The part of a pattern before its first wildcard.
fn literal_prefix(pattern: &str) -> &str {
    pattern.find(['*', '?']).and_then(|end| pattern.get(..end)).unwrap_or(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(pattern: &str, after: Option<&str>) -> Scan {
        let key = |text: &str| EntryName::parse(text).unwrap().key;
        Scan::new(Some(PathPattern::parse(pattern).unwrap()), after.map(key))
    }

    #[test]
    fn a_scan_starts_at_the_directory_of_its_pattern_and_ends_after_it() {
        let begin = |pattern, after| scan(pattern, after).after.map(|key| key.as_str().to_owned());
        assert_eq!(begin("/store/mc/*.root", None).as_deref(), Some("/store/mc"));
        assert_eq!(begin("/store/mc/x*", Some("/a")).as_deref(), Some("/store/mc"));
        assert_eq!(begin("/store/mc/x*", Some("/store/mc/xa")).as_deref(), Some("/store/mc/xa"));
        assert_eq!(begin("**/x", None), None);
        assert_eq!(begin("/store/*", None).as_deref(), Some("/store"));
        let past_end = |pattern, key: &str| scan(pattern, None).is_past_end(&EntryName::parse(key).unwrap().key);
        assert!(past_end("/store/mc/*", "/store/md"));
        assert!(!past_end("/store/mc/*", "/store/mc/z"));
        assert!(!past_end("/store/mc/*", "/a"));
        assert!(!past_end("**", "/z"));
    }
}
