//! The public interface: what the engine does for fronts.

mod catalog;
mod closed_files;
mod cold_small;
mod completion;
mod decisions;
mod direct;
mod disks;
mod entries;
mod faults;
mod house;
mod integrity;
mod keys_of_baskets;
mod memory;
mod permission;
mod purge;
mod random;
mod read_ahead;
mod reads;
mod root_jobs;
mod root_jobs_together;
mod shared_files;
mod shared_names;
mod validity;
