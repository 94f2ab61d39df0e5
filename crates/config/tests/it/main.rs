//! The public interface: settings as administrators write them.

mod disks;
mod purge;
mod refusals;
mod trace;
