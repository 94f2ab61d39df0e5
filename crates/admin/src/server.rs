//! The server under administration.

use crate::{
    jobs::Jobs,
    problem::{Problem, ProblemKind},
};
use forebay_engine::Engine;
use forebay_front::Backend;
use forebay_telemetry::Readiness;

/// The parts of the server that operations use.
pub(crate) struct Server {
    pub(crate) backend: Backend,
    pub(crate) readiness: Readiness,
    pub(crate) jobs: Jobs,
    /// When the server was started, in seconds of the Unix epoch.
    pub(crate) started: i64,
}

impl Server {
    /// The engine; a manager has none, and refuses operations on files.
    pub(crate) fn engine(&self) -> Result<&Engine, Problem> {
        match &self.backend {
            Backend::Cache(engine) => Ok(engine),
            Backend::Manager(_) => Err(no_cache()),
        }
    }

    /// The engine, if it caches files.
    pub(crate) fn cache(&self) -> Result<&Engine, Problem> {
        self.engine().and_then(|engine| if engine.is_cache() { Ok(engine) } else { Err(no_cache()) })
    }
}

fn no_cache() -> Problem {
    let text = "this server caches no files: it only exports directories, or it is a manager; ask its filler";
    Problem::new(ProblemKind::NotSetUp, text)
}
