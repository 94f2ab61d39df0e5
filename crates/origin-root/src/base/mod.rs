//! Options, and the origin's error numbers in neutral terms.

pub(crate) mod options;
pub(crate) mod refusal;
