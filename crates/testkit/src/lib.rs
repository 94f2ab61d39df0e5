//! Test parts: contents that can be checked byte by byte, fault-injecting disks, scripted origins, issuers of tokens.

#![expect(clippy::missing_errors_doc, reason = "a test that fails shows the error")]

mod content;
mod disk_faults;
mod event_recorder;
mod faulty_disk;
mod memory_origin;
mod scripted_origin;
mod token_issuer;
mod token_server;

pub use content::{byte_at, bytes_at};
pub use disk_faults::DiskFaults;
pub use event_recorder::{Closed, EventRecorder, Events};
pub use faulty_disk::{DiskOperation, Faults, FaultyDisk};
pub use memory_origin::{MemoryOrigin, Script};
pub use scripted_origin::{Facts, Reply, ScriptedOrigin, Seen};
pub use token_issuer::TokenIssuer;
pub use token_server::TokenServer;
