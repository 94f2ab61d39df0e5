//! Errors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A problem as RFC 9457 describes it.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Problem")]
pub struct ProblemDocument {
    /// What kind of problem it is: `urn:forebay:problem:` and a name.
    pub r#type: String,
    /// The kind in a few words.
    pub title: String,
    /// The status code of the answer.
    pub status: u16,
    /// What happened to this request.
    pub detail: String,
}
