//! The binary, run as its users run it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed, as it should")]

mod adopt;
mod check_config;
mod get;
mod inspect;
mod privileges;
mod program;
mod serve;
