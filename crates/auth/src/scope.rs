//! Scopes of tokens.

use crate::{Right, Rights};
use forebay_types::Lfn;

/// Rights on a path and everything below it that a token carries.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Scope {
    pub rights: Rights,
    /// Where: with the issuer's base path in front.
    pub path: Lfn,
}

impl Scope {
    /// Whether the scope gives `right` on `path`. Of the directories that lead to its own path one may learn that they exist.
    #[must_use]
    pub fn covers(&self, right: Right, path: &Lfn) -> bool {
        let leads_there = || right == Right::Stat && !self.rights.is_empty() && self.path.is_within(path);
        (self.rights.has(right) && path.is_within(&self.path)) || leads_there()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(right: Right, path: &str) -> bool {
        let scope = Scope { rights: Rights::NONE.with(Right::Read), path: Lfn::parse("/cms/store").unwrap() };
        scope.covers(right, &Lfn::parse(path).unwrap())
    }

    #[test]
    fn scopes_cover_their_path_and_what_is_below() {
        assert!(covers(Right::Read, "/cms/store"));
        assert!(covers(Right::Read, "/cms/store/a"));
        assert!(!covers(Right::Read, "/cms/storeroom"));
        assert!(!covers(Right::Read, "/cms"));
        assert!(!covers(Right::List, "/cms/store/a"));
    }

    #[test]
    fn directories_that_lead_to_a_scope_may_be_known() {
        for path in ["/", "/cms", "/cms/store"] {
            assert!(covers(Right::Stat, path), "{path}");
        }
        assert!(!covers(Right::Stat, "/cms/other"));
        assert!(!covers(Right::List, "/cms"));
    }
}
