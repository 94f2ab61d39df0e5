//! Errors of commands that talk to the server.

use forebay_admin::model::ProblemDocument;
use std::io;

/// Why a command that talks to the server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminError {
    #[error(
        "cannot reach the server at {address}: {source}; is it running, and is this its admin port (--admin, --config)?"
    )]
    Unreachable { address: String, source: io::Error },
    #[error("connection to the server at {address} failed: {reason}")]
    Broken { address: String, reason: String },
    #[error("not authorized at {address}: {detail}")]
    Denied { address: String, detail: String },
    #[error("{address} is not a Forebay administration API: {reason}")]
    Strange { address: String, reason: String },
    #[error("{}", problem.detail)]
    Problem { problem: ProblemDocument },
    #[error("{reason}")]
    Job { reason: String },
    #[error("{done} of {total} done: {advice}")]
    Partly { done: u64, total: u64, advice: &'static str },
    #[error("interrupted: {advice}")]
    Interrupted { advice: &'static str },
}

impl AdminError {
    pub(crate) const fn exit_status(&self) -> u8 {
        match self {
            Self::Unreachable { .. } | Self::Broken { .. } => 3,
            Self::Denied { .. } => 4,
            Self::Strange { .. } | Self::Problem { .. } | Self::Job { .. } => 1,
            Self::Partly { .. } => 5,
            Self::Interrupted { .. } => 130,
        }
    }

    /// Whether it is the API problem of this name.
    pub(crate) fn is_problem(&self, name: &str) -> bool {
        matches!(self, Self::Problem { problem } if problem.r#type.rsplit(':').next() == Some(name))
    }
}
