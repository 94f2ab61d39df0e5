//! Purging.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far to purge.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PurgeRequest {
    /// Share of the budget that may be in use afterwards, 0 to 1; of the file system when there is no budget.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub to: f64,
}
