//! Whose side an error is on.

use std::fmt;

/// The side that an error is on: the one that can fix it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Side {
    /// The client asked for something that cannot be done.
    Client,
    /// The origin refused, failed, or could not be reached.
    Origin,
    Disk,
    Authorization,
    Internal,
}

impl Side {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Origin => "origin",
            Self::Disk => "disk",
            Self::Authorization => "authorization",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
