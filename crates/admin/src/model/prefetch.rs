//! Prefetching.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most files of one request: longer lists go into several.
pub const PREFETCH_NAMES_MAX: usize = 10_000;

/// Files to fetch.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PrefetchRequest {
    /// Paths as clients ask for them, or the whole URLs: `/store/f.root`, `root://CACHE//root://ORIGIN//store/f.root`.
    #[schemars(length(min = 1, max = 10_000), inner(length(min = 1, max = 8192)))]
    pub names: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_tells_the_limit() {
        let schema = schemars::schema_for!(PrefetchRequest).to_value();
        assert_eq!(schema["properties"]["names"]["maxItems"], PREFETCH_NAMES_MAX);
    }
}
