//! The way of an answer back to its client.

pub(crate) mod answer;
pub(crate) mod slow_read;
