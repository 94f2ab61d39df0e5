//! The binary, run as its users run it.

mod check_config;
mod get;
mod inspect;
mod program;
mod serve;
