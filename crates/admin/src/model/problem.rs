//! Errors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A problem document (RFC 9457).
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Problem")]
pub struct ProblemDocument {
    /// Kind of the problem: `urn:forebay:problem:` and a name.
    pub r#type: String,
    /// Short description of the kind.
    pub title: String,
    /// HTTP status code.
    pub status: u16,
    /// Description of this occurrence.
    pub detail: String,
}
