//! Interpretation of answers. No I/O.

pub(crate) mod content_range;
pub(crate) mod digest;
pub(crate) mod facts;
pub(crate) mod multipart;
pub(crate) mod multistatus;
pub(crate) mod objects;
pub(crate) mod status;
mod xml;
