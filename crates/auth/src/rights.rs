//! Rights on paths, and the scopes of tokens that carry them.

use forebay_types::{Lfn, named_enum};
use std::fmt;

named_enum! {
    /// An operation on a path that a rule may allow.
    pub enum Right {
        /// Read the contents of files.
        Read = "read",
        List = "list",
        /// Query existence, size, kind and times.
        Stat = "stat",
        /// Change what the cache does with files: fetch, pin, remove copies.
        Admin = "admin",
    }
}

impl Right {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of rights. Read and list include stat, since both reveal as much.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Rights(u8);

impl Rights {
    /// No right at all.
    pub const NONE: Self = Self(0);

    /// This set with one more right, and what it implies.
    pub const fn with(self, right: Right) -> Self {
        let implied = match right {
            Right::Read | Right::List => Right::Stat.bit(),
            Right::Stat | Right::Admin => 0,
        };
        Self(self.0 | right.bit() | implied)
    }

    /// Whether `right` is in the set.
    #[must_use]
    pub const fn has(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    /// Whether there is no right in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<T: IntoIterator<Item = Right>>(rights: T) -> Self {
        rights.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for right in Right::ALL.into_iter().filter(|right| self.has(*right)) {
            write!(out, "{separator}{right}")?;
            separator = ", ";
        }
        if self.is_empty() { out.write_str("nothing") } else { Ok(()) }
    }
}

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

    #[test]
    fn rights_to_read_or_list_include_stat_and_have_names() {
        assert_eq!(Rights::NONE.with(Right::Read).to_string(), "read, stat");
        assert_eq!(Rights::from_iter([Right::List]).to_string(), "list, stat");
        assert_eq!(Rights::from_iter([Right::Stat, Right::Admin]).to_string(), "stat, admin");
        assert!(!Rights::from_iter([Right::Admin]).has(Right::Read));
        assert!(!Rights::from_iter([Right::Stat]).has(Right::List));
        assert_eq!(Rights::NONE.to_string(), "nothing");
        for right in Right::ALL {
            assert_eq!(Right::from_name(right.as_str()), Some(right));
        }
        assert_eq!(Right::from_name("write"), None);
    }

    #[test]
    fn scopes_cover_what_is_below_and_the_existence_of_what_leads_there() {
        let scope = Scope { rights: Rights::NONE.with(Right::Read), path: Lfn::parse("/cms/store").unwrap() };
        for (right, path, is_covered) in [
            (Right::Read, "/cms/store", true),
            (Right::Read, "/cms/store/a", true),
            (Right::Read, "/cms/storeroom", false),
            (Right::Read, "/cms", false),
            (Right::List, "/cms/store/a", false),
            (Right::Stat, "/", true),
            (Right::Stat, "/cms", true),
            (Right::Stat, "/cms/store", true),
            (Right::Stat, "/cms/other", false),
            (Right::List, "/cms", false),
        ] {
            assert_eq!(scope.covers(right, &Lfn::parse(path).unwrap()), is_covered, "{right} {path}");
        }
    }
}
