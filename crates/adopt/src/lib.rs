//! Adoption of an XCache: reads an xrootd configuration as xrootd does, and translates it.
//!
//! [`read`] executes `set`, `if` and `continue` for one [`Instance`] and returns the remaining [`Directive`]s;
//! [`read_pelican`] does it for the settings of a cache of Pelican. [`translate`] generates a configuration file from them, with a [`Note`] for each. Files and environment come from a
//! [`Machine`]: nothing here opens a file.

#[cfg(test)]
extern crate self as forebay_adopt;

mod reader;
#[cfg(test)]
#[path = "../tests/it/sandbox.rs"]
mod sandbox;
mod translation;

pub use reader::{
    DIRECTIVES_MAX, Directive, FILE_LEN_MAX, Found, Instance, Machine, PROBLEMS_MAX, Place, Problem, ReadError, read,
    read_pelican,
};
pub use translation::{Fate, Note, Translation, translate};
