//! Tasks that keep the cache in order while it serves.

pub(crate) mod disk_watch;
mod disk_work;
pub(crate) mod entry_check;
pub(crate) mod examination;
pub(crate) mod file_checksums;
pub(crate) mod leases;
pub(crate) mod part_holder;
pub(crate) mod purge;
pub(crate) mod purge_by_walk;
pub(crate) mod removal;
mod running_purge;
pub(crate) mod scrub;
pub(crate) mod store_owner;
pub(crate) mod sync;
