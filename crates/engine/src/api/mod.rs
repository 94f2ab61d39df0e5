//! The engine as fronts see it: opens, handles, reads, and requests of administrators.

pub(crate) mod direct_open;
pub(crate) mod engine;
pub(crate) mod entry_queries;
pub(crate) mod handle;
pub(crate) mod opened;
pub(crate) mod opening;
pub(crate) mod options;
pub(crate) mod purge_requests;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod recovery;
pub(crate) mod segment;
pub(crate) mod staging;
