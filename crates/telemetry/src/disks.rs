//! The disks of the cache, as the exposition sees them.

use std::{fmt, time::Duration};

/// What is shown of one disk of the cache.
#[derive(Clone, Debug)]
pub struct DiskGauges {
    /// The directory, which names the disk.
    pub path: String,
    /// Every state that a disk can be in, and whether it is.
    pub states: Vec<(&'static str, bool)>,
    /// Size of its file system; `None` when it does not tell.
    pub total_bytes: Option<u64>,
    /// What of it may still be written.
    pub free_bytes: Option<u64>,
    /// Operations that failed, for reasons that lie in the disk.
    pub failures: u64,
    /// Mean time of operations lately.
    pub latency: Duration,
}

/// Tells what is known of the disks.
pub(crate) struct Disks(pub(crate) Box<dyn Fn() -> Vec<DiskGauges> + Send + Sync>);

impl fmt::Debug for Disks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disks").finish_non_exhaustive()
    }
}
