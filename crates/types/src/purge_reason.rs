//! Why an entry left the cache.

use std::fmt;

/// Why an entry was removed to make room or on request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum PurgeReason {
    Space,
    Inodes,
    /// Less was free on the file system than must be.
    FreeMin,
    /// The quota it counts for was used up.
    Quota,
    Age,
    /// It was not used for longer than its expiry rule allows.
    Expired,
    Requested,
    Evicted,
}

impl PurgeReason {
    /// Every reason, in the order of the counters.
    pub const ALL: [Self; 8] = [
        Self::Space,
        Self::Inodes,
        Self::FreeMin,
        Self::Quota,
        Self::Age,
        Self::Expired,
        Self::Requested,
        Self::Evicted,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Space => "space",
            Self::Inodes => "inodes",
            Self::FreeMin => "free_min",
            Self::Quota => "quota",
            Self::Age => "age",
            Self::Expired => "expired",
            Self::Requested => "requested",
            Self::Evicted => "evicted",
        }
    }
}

impl fmt::Display for PurgeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
