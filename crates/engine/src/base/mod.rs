//! Building blocks without knowledge of files.

pub(crate) mod digest;
pub(crate) mod disk_depth;
pub(crate) mod disk_places;
pub(crate) mod disk_queues;
pub(crate) mod disk_reads;
pub(crate) mod error;
pub(crate) mod latch;
pub(crate) mod open_request;
pub(crate) mod options;
pub(crate) mod pause;
pub(crate) mod segment;
pub(crate) mod sequential_run;
pub(crate) mod shards;
pub(crate) mod versioned;
pub(crate) mod workers;
