//! How bytes get from an origin to readers and to the disk.

pub(crate) mod access_tracker;
pub(crate) mod block_check;
pub(crate) mod complete_file;
pub(crate) mod driver;
pub(crate) mod planner;
pub(crate) mod structure_parse;
pub(crate) mod structure_prefetch;
pub(crate) mod vector_window;
pub(crate) mod writer;
