//! Draining, purging, scrubbing and prefetching.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most files of one request; split longer lists.
pub const PREFETCH_NAMES_MAX: usize = 1000;

/// Longest name in characters: a path or a URL.
pub const PREFETCH_NAME_LEN_MAX: usize = 8192;

/// Progress of draining.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Drain {
    /// Whether new work is refused.
    pub is_draining: bool,
    /// Files held open by clients.
    pub open_handles: u64,
    /// Client connections.
    pub connections: u64,
}

/// Target of a purge.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PurgeRequest {
    /// Share of the space used by the cached files now that may remain in use, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub to: f64,
    /// Remove nothing: the job counts what would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

/// Files to fetch.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PrefetchRequest {
    /// Paths as clients request them, or full URLs: `/store/f.root`, `root://CACHE//root://ORIGIN//store/f.root`.
    #[schemars(length(min = 1, max = 1000), inner(length(min = 1, max = 8192)))]
    pub names: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_the_limits() {
        let schema = schemars::schema_for!(PrefetchRequest).to_value();
        let names = &schema["properties"]["names"];
        assert_eq!(names["maxItems"], PREFETCH_NAMES_MAX);
        assert_eq!(names["items"]["maxLength"], PREFETCH_NAME_LEN_MAX);
    }
}
