//! Draining.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far a server is drained.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Drain {
    /// Whether new work is turned away.
    pub is_draining: bool,
    /// Files that clients still have open.
    pub open_handles: u64,
    /// Client connections.
    pub connections: u64,
}
