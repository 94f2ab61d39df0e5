//! The public interface: disks, entries and what a crash leaves of them.

mod batch_sync;
mod disk_set;
mod local_disk;
mod permissions;
mod scan;
mod survey;
