//! What the programs of the benchmark share: emulated networks, and a sign to end.

pub mod interrupt;
pub mod wan;
