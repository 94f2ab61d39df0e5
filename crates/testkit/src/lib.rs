//! Test parts: contents that can be checked byte by byte, fault-injecting disks, scripted origins, issuers of tokens.

mod content;
mod faulty_disk;
mod memory_origin;
mod scripted_origin;
mod token_issuer;
mod token_server;

pub use content::{byte_at, bytes_at};
pub use faulty_disk::{DiskFaults, FaultyDisk};
pub use memory_origin::{MemoryOrigin, Script};
pub use scripted_origin::{Facts, Reply, ScriptedOrigin, Seen};
pub use token_issuer::TokenIssuer;
pub use token_server::TokenServer;
