//! The public interface: xrootd configurations and their translation.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod http;
mod monitoring;
mod pelican;
mod proxy;
mod reader;
mod sandbox;
mod security;
mod server;
mod translated;
mod usage;
