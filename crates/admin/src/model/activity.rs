//! Activity of clients.

use super::ByteCounts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most open files that one answer of the interface lists.
pub const OPEN_FILES_MAX: usize = 1000;

/// Activity of clients: now, and since the start.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Activity {
    /// Open files, most bytes first; at most a thousand.
    pub open: Vec<OpenFile>,
    /// Sums of closed files by `export`, `tier`, `organization`, `region`, `dataset`, `user`, `site` and `origin`.
    pub groups: Vec<GroupSums>,
}

/// A file that a client has open.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct OpenFile {
    /// The path, as the client has requested it.
    pub name: String,
    /// User name, proven or as the client says.
    pub user: String,
    /// Host name or address of the client.
    pub host: String,
    /// Program of the client, as it says.
    pub program: String,
    /// Size of the file.
    pub size: u64,
    /// Seconds since the file was opened by this client.
    pub open_seconds: f64,
    /// Bytes sent to the client so far.
    pub bytes: ByteCounts,
}

/// The sums of one kind of group.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct GroupSums {
    /// Property by which files are grouped.
    pub by: String,
    /// The groups, most bytes first. The last one may be `other`: all that are not listed.
    pub sums: Vec<NamedSum>,
}

/// The sums of one group.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct NamedSum {
    /// Name of the group, or `other` for those beyond the limit.
    pub name: String,
    /// Files that clients have closed.
    pub accesses: u64,
    /// Those of which all bytes read came from the cache.
    pub hits: u64,
    /// Those that had been used before.
    pub reused: u64,
    /// Bytes sent to clients.
    pub bytes: ByteCounts,
    /// Time of the last close.
    pub last: i64,
}
