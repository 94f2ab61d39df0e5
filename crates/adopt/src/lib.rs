//! Taking over an XCache: reads an xrootd configuration and says it in ours.

mod reader;
#[cfg(test)]
mod testing;

pub use reader::{Directive, Found, Instance, Machine, Place, Problem, ReadError, read};
