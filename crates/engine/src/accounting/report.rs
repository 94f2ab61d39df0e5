//! Reports of purges and of the space in use.

use forebay_cache::{Footprint, Headroom};
use forebay_store::VolumeId;
use std::time::Duration;

/// Result of a purge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PurgeReport {
    pub files: u64,
    pub freed: Footprint,
    /// Victims that stayed: in use, or not removable.
    pub refused: u64,
    /// Space that the goals required and that could not be freed.
    pub unmet: Footprint,
    pub duration: Duration,
}

/// Result of a request to remove an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Evicted {
    Removed {
        /// Bytes of the entry that were on disk.
        bytes: u64,
    },
    NotCached,
    /// It stays: a client has it open, or opens it.
    Open,
    /// It stays: it is pinned.
    Pinned,
}

/// Space that the cache uses, and its limits.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Usage {
    pub used: Footprint,
    pub files: u64,
    pub pinned: u64,
    /// Space left before a purge is due and before nothing is kept; the largest numbers if nothing limits them.
    pub headroom: Headroom,
    pub disks: Vec<DiskUse>,
    /// By quota, in the order of the configuration.
    pub quotas: Vec<QuotaUse>,
}

/// Space used by the entries of one disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DiskUse {
    pub volume: VolumeId,
    pub used: Footprint,
}

/// Space used by the entries of one quota.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QuotaUse {
    pub path: String,
    pub used: Footprint,
    /// Guaranteed to the entries of the quota.
    pub min_bytes: u64,
    /// Limit of the quota, if it has one.
    pub max_bytes: Option<u64>,
}
