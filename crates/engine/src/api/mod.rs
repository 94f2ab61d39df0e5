//! The engine as fronts see it: opens, handles, reads, and requests of administrators.

pub(crate) mod admin_requests;
pub(crate) mod checksum;
pub(crate) mod direct_open;
pub(crate) mod engine;
pub(crate) mod entry_queries;
pub(crate) mod handle;
pub(crate) mod learned_columns;
pub(crate) mod listing;
pub(crate) mod opening;
pub(crate) mod read;
pub(crate) mod staging;
