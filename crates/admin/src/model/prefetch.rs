//! Prefetching.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most files of one request: longer lists go into several.
pub const PREFETCH_NAMES_MAX: usize = 1000;

/// Longest name in characters: a path, or a URL with all that may stand in it.
pub const PREFETCH_NAME_LEN_MAX: usize = 8192;

/// Files to fetch.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PrefetchRequest {
    /// Paths as clients ask for them, or the whole URLs: `/store/f.root`, `root://CACHE//root://ORIGIN//store/f.root`.
    #[schemars(length(min = 1, max = 1000), inner(length(min = 1, max = 8192)))]
    pub names: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_tells_the_limits() {
        let schema = schemars::schema_for!(PrefetchRequest).to_value();
        let names = &schema["properties"]["names"];
        assert_eq!(names["maxItems"], PREFETCH_NAMES_MAX);
        assert_eq!(names["items"]["maxLength"], PREFETCH_NAME_LEN_MAX);
    }
}
