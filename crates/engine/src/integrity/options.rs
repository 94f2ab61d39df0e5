//! How the contents of the disk are checked.

use std::fmt;

/// How the contents of the disk are checked.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct IntegrityOptions {
    /// When blocks found on disk are compared with their checksums.
    pub check: CheckPolicy,
}

/// When blocks found on disk are compared with their checksums.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CheckPolicy {
    /// Before their first use after a start.
    #[default]
    FirstRead,
    /// Never: what is on disk is taken as it is.
    Never,
}

impl CheckPolicy {
    /// The name used in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FirstRead => "first-read",
            Self::Never => "never",
        }
    }
}

impl fmt::Display for CheckPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
