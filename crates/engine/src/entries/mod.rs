//! Files of the cache: those that are open, and those that lie on disk.

pub(crate) mod block_sums;
pub(crate) mod cached_file;
pub(crate) mod claims;
pub(crate) mod closed_files;
pub(crate) mod closed_uses;
pub(crate) mod file_account;
pub(crate) mod file_context;
pub(crate) mod file_read_ahead;
pub(crate) mod file_structure;
pub(crate) mod file_sync;
pub(crate) mod fill;
pub(crate) mod from_origin;
pub(crate) mod identity;
pub(crate) mod lazy_data_file;
pub(crate) mod left_files;
pub(crate) mod loader;
pub(crate) mod open_files;
pub(crate) mod publication;
pub(crate) mod stored_entry;
