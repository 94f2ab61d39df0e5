//! Scrubbing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the scrub is, which reads everything on disk and checks it.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Scrub {
    /// Whether one is under way, or about to begin because it was asked for.
    pub is_running: bool,
    /// When the last one was begun, or gone on with after a restart.
    pub started: Option<i64>,
    /// When the last one came to its end.
    pub finished: Option<i64>,
    /// Files it has read.
    pub files: u64,
    /// Bytes it has read.
    pub bytes: u64,
    /// Blocks that were damaged, and are fetched again when they are wanted.
    pub bad_blocks: u64,
    /// Blocks that had no checksum and have one now.
    pub learned_blocks: u64,
}
