//! Rights on a path.

use forebay_types::named_enum;
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
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct Rights(u8);

impl Rights {
    /// No right at all.
    pub const NONE: Self = Self(0);

    /// This set with one more right, and what it implies.
    #[must_use]
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

impl fmt::Debug for Rights {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Rights({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_read_or_list_may_stat() {
        assert_eq!(Rights::NONE.with(Right::Read).to_string(), "read, stat");
        assert_eq!(Rights::from_iter([Right::List]).to_string(), "list, stat");
        assert_eq!(Rights::from_iter([Right::Stat, Right::Admin]).to_string(), "stat, admin");
        assert!(!Rights::from_iter([Right::Admin]).has(Right::Read));
        assert!(!Rights::from_iter([Right::Stat]).has(Right::List));
        assert_eq!(Rights::NONE.to_string(), "nothing");
    }

    #[test]
    fn names_lead_back_to_their_rights() {
        for right in Right::ALL {
            assert_eq!(Right::from_name(right.as_str()), Some(right));
        }
        assert_eq!(Right::from_name("write"), None);
    }
}
