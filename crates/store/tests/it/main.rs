//! The public interface: disks, entries and what a crash leaves of them.

mod disk_set;
mod local_disk;
mod permissions;
mod scan;
mod survey;
mod together;
