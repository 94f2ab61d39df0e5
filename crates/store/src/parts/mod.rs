//! Parts of a store on a shared file system, which several fillers share: each part has one owner at a time.
//!
//! # Layout
//!
//! `ROOT/.parts/count` has the number of parts, which never changes, so that no name moves. `ROOT/.parts/N` is part *N*, in the
//! layout of every store. `ROOT/.parts/fillers/ID` is the record of a filler that runs, renewed all the time. The highest
//! `ROOT/.parts/owners/N.EPOCH` names the owner of part *N*; it is empty if the part is free. Both kinds of files are created with their
//! contents by a link, which succeeds for one process only.
//!
//! # Lease
//!
//! A filler may take a part whose owner has no record, or one that did not change for the time of the lease by the clock of
//! the filler that takes: times of different machines are never compared. An owner that could not renew its record for half of that
//! time gives up all of its parts.
//!
//! # Fence
//!
//! A process that was stopped may finish one more operation after its lease. Every file that gets a name in a part, data or record, is
//! moved there from a directory of its owner's epoch. The next owner removes that directory before it looks at the part: from
//! then on the file system itself refuses the late move.

mod fence;
mod lease;
mod observer;
mod registry;

pub(crate) use fence::{clear_lower, enter, staging_of};
pub use lease::LEASE_MIN;
pub(crate) use lease::{PartLease, Tenure};
pub use observer::Observer;
pub(crate) use observer::Step;
pub use registry::{Ownership, Registry, Snapshot};

use forebay_cache::{CacheKey, placement_hash};
use std::path::{Path, PathBuf};

/// Directory of the parts, below the root of a store.
pub(crate) const PARTS_DIRECTORY: &str = ".parts";

/// Most parts: each is a disk of the engine.
pub const PARTS_MAX: u16 = 256;

/// Number of a part.
pub type Part = u16;

/// The part of `count` that the entry of `key` belongs to.
pub fn part_of(key: &CacheKey, count: u16) -> Part {
    let hash = placement_hash(key.as_str().as_bytes());
    u16::try_from(hash % u64::from(count.max(1))).unwrap_or(0)
}

/// The directory of a part of the store below `root`.
pub fn directory_of(root: &Path, part: Part) -> PathBuf {
    root.join(PARTS_DIRECTORY).join(part.to_string())
}
