//! The operations: thin adapters between the documents of the API and the engine.

pub(crate) mod activity;
pub(crate) mod evict;
pub(crate) mod files;
pub(crate) mod learned_columns;
pub(crate) mod locations;
pub(crate) mod maintenance;
pub(crate) mod prefetch;
mod scan;
pub(crate) mod sizing;
pub(crate) mod status;

use crate::{
    Popularity,
    jobs::Jobs,
    problem::{Problem, ProblemKind},
};
use forebay_cluster::Locator;
use forebay_engine::Engine;
use forebay_front::Backend;
use forebay_telemetry::{Activity, Readiness};
use std::sync::Arc;
use tokio::task::JoinSet;

/// The server under administration.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) backend: Backend,
    pub(crate) readiness: Readiness,
    pub(crate) jobs: Arc<Jobs>,
    /// Activity of clients, if it is followed.
    pub(crate) activity: Option<Activity>,
    /// Which files are read, if that is followed.
    pub(crate) popularity: Option<Popularity>,
    /// Where files are in the cluster, if this server is a member of one.
    pub(crate) locator: Option<Locator>,
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

/// Runs `tasks`, at most `count` of them at a time. Dropping the future aborts them.
async fn run_all<F: Future<Output = ()> + Send + 'static>(count: usize, tasks: impl Iterator<Item = F>) {
    let mut under_way = JoinSet::new();
    for task in tasks {
        if under_way.len() >= count {
            let _ended = under_way.join_next().await;
        }
        under_way.spawn(task);
    }
    while under_way.join_next().await.is_some() {}
}
