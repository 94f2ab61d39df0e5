//! The engine as fronts see it: opens, handles, reads, and requests of administrators.

pub(crate) mod checksum;
pub(crate) mod complete;
pub(crate) mod direct_open;
pub(crate) mod engine;
pub(crate) mod entry_queries;
pub(crate) mod handle;
pub(crate) mod manager_requests;
pub(crate) mod opened;
pub(crate) mod opening;
pub(crate) mod presence;
pub(crate) mod purge_requests;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod recovery;
pub(crate) mod scrub;
pub(crate) mod staging;
pub(crate) mod store_owner;
pub(crate) mod switching;
