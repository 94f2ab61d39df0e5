//! The exported state of the cache disks.

use std::time::Duration;

/// The exported state of one cache disk.
#[derive(Clone, Debug)]
pub struct DiskGauges {
    /// The directory: the value of the label `disk`.
    pub path: String,
    /// Every state a disk can be in, and whether it is the current one.
    pub states: Vec<(&'static str, bool)>,
    /// Size of the file system; `None` if unknown.
    pub total_bytes: Option<u64>,
    pub free_bytes: Option<u64>,
    /// Operations that failed because of the disk.
    pub failures: u64,
    /// Recent mean time of an operation.
    pub latency: Duration,
}
