//! The links to origins and the memory that fills share.

pub(crate) mod admission;
pub(crate) mod link_scheduler;
pub(crate) mod memory_budget;
