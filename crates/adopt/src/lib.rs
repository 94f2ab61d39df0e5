//! Taking over an XCache: reads an xrootd configuration as xrootd does, and says it in our terms.
//!
//! [`read`] carries out `set`, `if` and `continue` for one [`Instance`] and returns the [`Directive`]s that are left;
//! [`translate`] makes a configuration file of them, with a [`Note`] for each. Files and environment come from a
//! [`Machine`]: nothing here opens a file.

mod reader;
#[cfg(test)]
mod testing;
mod translation;

pub use reader::{Directive, Found, Instance, Machine, Place, Problem, ReadError, read};
pub use translation::{Fate, Note, Translation, translate};
