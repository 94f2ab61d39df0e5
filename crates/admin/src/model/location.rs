//! Files on the members of a cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file on the members of the cluster.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct FileLocations {
    /// The path, as clients request it.
    pub name: String,
    /// All members: those that take new files in the order in which placement tries them for this file, then the others.
    pub members: Vec<FileLocation>,
}

/// A member of the cluster, and the file on it.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct FileLocation {
    /// Host and port.
    pub member: String,
    /// Whether it is the server that answers.
    pub is_this_server: bool,
    /// `active`; `inactive`: it takes no new files; or `silent`: it does not answer.
    pub state: String,
    /// Size of its store in GiB, which determines its share of new files; absent if it has never answered.
    pub weight: Option<u32>,
    /// Position in the order of placement for this file, from 1; absent if it takes no new files.
    pub rank: Option<u32>,
    /// `data`: it has data of the file; `promised`: it will fetch it; `absent`; or `unknown`: it does not answer.
    pub file: String,
}
