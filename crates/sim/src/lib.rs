//! Seeded simulation: the whole engine on one thread and a virtual clock, with a disk and an origin that fail.
//!
//! A seed decides everything: the set-up, what clients do, when the disk is full or slow, when the origin is away or changes its
//! files, when the machine crashes and what of the unsynced bytes survives. The same seed gives the same run, so a failure is
//! replayed with one command.
//!
//! [`run`] simulates one seed and checks throughout that no byte differs, that nothing is stuck, that bytes are accounted once,
//! that memory is given back, and after each crash that every block a record names is on disk.

mod client;
mod content;
mod crash;
mod dice;
mod disk;
mod index;
mod operator;
mod origin;
mod phase;
mod scenario;
mod seeds;
mod store;
mod verdict;
mod world;

pub use phase::run;
pub use seeds::{Report, run_seeds};
pub use verdict::{Failure, Summary};
