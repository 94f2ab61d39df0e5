//! The part that answers the requests of clients: a cache, or a manager.

use forebay_engine::{Caller, Engine, Error, OpenRequest, Opening, Redirects, Routes, WritePolicy};
use forebay_manager::Manager;
use forebay_telemetry::{Metrics, Observers};
use std::sync::Arc;

/// A cache or a manager, which answers the requests of clients. Cheap to clone.
#[derive(Clone)]
pub enum Backend {
    /// Serves files of origins, cached, and of exported directories.
    Cache(Engine),
    /// Serves no files: it redirects clients.
    Manager(Arc<Manager>),
}

impl Backend {
    pub fn metrics(&self) -> &Metrics {
        match self {
            Self::Cache(engine) => engine.metrics(),
            Self::Manager(manager) => manager.metrics(),
        }
    }

    /// The subscribers to what happens to files.
    pub fn events(&self) -> &Observers {
        match self {
            Self::Cache(engine) => engine.events(),
            Self::Manager(manager) => manager.events(),
        }
    }

    /// Opens a file for reading, or returns where the client is to open it.
    ///
    /// # Errors
    /// As for [`Engine::open`] and [`Manager::open`].
    pub async fn open(
        &self,
        request: &OpenRequest,
        caller: &Arc<Caller>,
        redirects: Redirects,
    ) -> Result<Opening, Error> {
        match self {
            Self::Cache(engine) => engine.open_or_redirect(request, caller, redirects).await,
            Self::Manager(manager) => manager.open(request, caller, redirects).await,
        }
    }

    /// The answer to an open for writing, or to a change of the name space, at this path.
    ///
    /// # Errors
    /// When no export covers the path.
    pub fn write_policy(&self, request: &OpenRequest) -> Result<WritePolicy, Error> {
        match self {
            Self::Cache(engine) => engine.write_policy(request),
            Self::Manager(manager) => manager.routes().write_policy(request),
        }
    }

    /// Replaces the name space. Files that are open stay open.
    pub fn reconfigure(&self, routes: Routes) {
        match self {
            Self::Cache(engine) => engine.reconfigure(routes),
            Self::Manager(manager) => manager.reconfigure(routes),
        }
    }
}

impl From<Engine> for Backend {
    fn from(engine: Engine) -> Self {
        Self::Cache(engine)
    }
}
