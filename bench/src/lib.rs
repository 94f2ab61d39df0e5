//! Code that the benchmark's programs share: emulated networks, and a sign to end.

pub mod interrupt;
pub mod wan;
