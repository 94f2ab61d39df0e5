//! The server under administration.

use crate::{
    jobs::Jobs,
    problem::{Problem, ProblemKind},
};
use forebay_engine::Engine;
use forebay_telemetry::Readiness;

/// The parts of the server that operations use.
pub(crate) struct Server {
    pub(crate) engine: Engine,
    pub(crate) readiness: Readiness,
    pub(crate) jobs: Jobs,
    /// When the server was started, in seconds of the Unix epoch.
    pub(crate) started: i64,
}

impl Server {
    /// Refuses an operation on files where there are none.
    pub(crate) fn require_cache(&self) -> Result<(), Problem> {
        if self.engine.keeps_files() {
            return Ok(());
        }
        let text = "this server caches no files: it only exports directories, or it is a manager; ask its filler";
        Err(Problem::new(ProblemKind::NotSetUp, text))
    }
}
