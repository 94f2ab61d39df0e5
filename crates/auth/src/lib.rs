//! Who somebody is, and what they may do: decided from bytes, keys and a time that the caller hands in.
//!
//! Nothing here performs I/O or reads a clock.

mod fqan;

pub use fqan::{FQAN_LEN_MAX, Fqan, FqanError};
