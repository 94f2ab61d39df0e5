//! The public interface: xrootd configurations and their translation.

mod proxy;
mod reader;
mod sandbox;
mod server;
mod usage;
