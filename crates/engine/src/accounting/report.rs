//! Reports of purges and of the space in use.

use forebay_cache::{Footprint, Headroom};
use forebay_store::VolumeId;
use std::time::Duration;

/// What a purge has done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PurgeReport {
    /// Entries removed.
    pub files: u64,
    /// Room they took.
    pub freed: Footprint,
    /// Entries that were to go and stayed: in use, or not removable.
    pub refused: u64,
    /// What was wanted beyond that.
    pub unmet: Footprint,
    /// How long it took.
    pub duration: Duration,
}

/// What became of the wish to remove an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Evicted {
    /// It is gone.
    Removed {
        /// Bytes of it that were there.
        bytes: u64,
    },
    /// There was none.
    NotCached,
    /// It stays: a client has it open, or opens it.
    Open,
    /// It stays: it is pinned.
    Pinned,
}

/// What the cache takes and may take.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Usage {
    /// What all entries take.
    pub used: Footprint,
    /// Entries.
    pub files: u64,
    /// Entries that are pinned.
    pub pinned: u64,
    /// What may be added before a purge is due and before nothing is kept; the largest numbers when nothing limits them.
    pub headroom: Headroom,
    /// By disk.
    pub disks: Vec<DiskUse>,
    /// By quota, in the order of the configuration.
    pub quotas: Vec<QuotaUse>,
}

/// What the entries of a disk take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DiskUse {
    /// The disk.
    pub volume: VolumeId,
    /// What its entries take.
    pub used: Footprint,
}

/// What the entries of a quota take.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QuotaUse {
    /// Its path.
    pub path: String,
    /// What its entries take.
    pub used: Footprint,
    /// Bytes it is guaranteed.
    pub min_bytes: u64,
    /// Bytes it may take.
    pub max_bytes: Option<u64>,
}
