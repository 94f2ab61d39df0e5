//! The disk space that entries take.

pub(crate) mod disk_headroom;
pub(crate) mod purge_ledger;
pub(crate) mod surplus_account;
