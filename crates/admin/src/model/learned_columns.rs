//! Columns of ROOT files that jobs read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most sets of one page.
pub const COLUMN_SETS_PER_PAGE_MAX: usize = 1000;

/// A page of learned sets.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct ColumnSetList {
    /// The sets of this page.
    pub sets: Vec<LearnedSet>,
    /// Value of `after` for the next page; `null` after the last page.
    pub next: Option<String>,
}

/// The columns that jobs read of the files of a dataset. Only hashes of their names are stored.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct LearnedSet {
    /// Directory that holds the files.
    pub dataset: String,
    /// Tree in the files; `null` for the place of their metadata.
    pub tree: Option<String>,
    /// User; `null` for the set of all users.
    pub user: Option<String>,
    /// Program of the user, as it names itself.
    pub program: Option<String>,
    /// Number of columns; `null` for all.
    pub columns: Option<u64>,
    /// Files of which columns were expected because of the set.
    pub uses: u32,
    /// Those of which at least half of these columns were read.
    pub hits: u32,
    /// When a file was last learned from.
    pub last_use: i64,
}

/// Result of forgetting learned sets.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
pub struct ForgottenSets {
    /// Number of the sets that were removed.
    pub sets: u64,
}
