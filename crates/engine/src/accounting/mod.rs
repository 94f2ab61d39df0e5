//! What entries take on disk.

pub(crate) mod disk_headroom;
pub(crate) mod follow;
pub(crate) mod purger;
pub(crate) mod report;
