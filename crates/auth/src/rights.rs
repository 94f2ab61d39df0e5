//! Rights on a path.

use std::fmt;

/// An operation on a path that a rule may allow.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Right {
    /// Read the contents of files.
    Read,
    List,
    /// Query existence, size, kind and times.
    Stat,
    /// Change what the cache does with files: fetch, pin, remove copies.
    Admin,
}

impl Right {
    /// All rights, in display order.
    pub const ALL: [Self; 4] = [Self::Read, Self::List, Self::Stat, Self::Admin];

    /// The name used in the configuration, in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::List => "list",
            Self::Stat => "stat",
            Self::Admin => "admin",
        }
    }

    /// The right of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.as_str() == name)
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::List => 2,
            Self::Stat => 4,
            Self::Admin => 8,
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
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
