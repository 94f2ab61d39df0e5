//! A data manager: it keeps and serves nothing. It redirects clients to complete files of a store that another process fills,
//! with all other requests to that process, and to the origin while that does not answer.

mod filler;
mod open;
mod part_fillers;
mod shared_store;

pub use filler::{FillerState, Ping};
pub use part_fillers::Parts;

use filler::Filler;
use forebay_engine::Routes;
use forebay_telemetry::{Metrics, Observers};
use forebay_types::Endpoint;
use parking_lot::RwLock;
use part_fillers::PartFillers;
use shared_store::SharedStore;
use std::{path::PathBuf, sync::Arc};
use tokio::task::JoinHandle;

/// Decides where clients are redirected, and watches the filler until it is dropped.
pub struct Manager {
    store: SharedStore,
    filler: Arc<Filler>,
    /// Set if several fillers share the store.
    part_fillers: Option<Arc<PartFillers>>,
    routes: RwLock<Arc<Routes>>,
    metrics: Metrics,
    events: Observers,
    watch: JoinHandle<()>,
}

/// Set-up of a manager. All fields come from the configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directories of the store.
    pub roots: Vec<PathBuf>,
    /// Permission bits of files that clients may read themselves.
    pub direct_mode: u32,
    /// Where the filler is; `None` to believe the record that it keeps in the store.
    pub filler: Option<Endpoint>,
    /// Division of the store, if several fillers share it; then there is one directory.
    pub parts: Option<Parts>,
    /// Checks whether the filler answers.
    pub ping: Ping,
    /// Subscribers to what happens to files.
    pub events: Observers,
}

impl Manager {
    /// Starts to watch the filler, inside a tokio runtime.
    pub fn start(options: Options, routes: Routes, metrics: Metrics) -> Arc<Self> {
        let filler = Arc::new(Filler::new(options.filler));
        let part_fillers = options.parts.map(|parts| Arc::new(PartFillers::new(parts)));
        let watch = match (&part_fillers, options.roots.first()) {
            (Some(fillers), Some(root)) => {
                tokio::spawn(part_fillers::watch(Arc::clone(fillers), root.clone(), options.ping))
            }
            _ => tokio::spawn(filler::watch(Arc::clone(&filler), options.roots.clone(), options.ping)),
        };
        let parts = options.parts.map(|parts| parts.count);
        Arc::new(Self {
            store: SharedStore::new(options.roots, options.direct_mode, parts),
            filler,
            part_fillers,
            routes: RwLock::new(Arc::new(routes)),
            metrics,
            events: options.events,
            watch,
        })
    }

    /// Replaces the name space.
    pub fn reconfigure(&self, routes: Routes) {
        *self.routes.write() = Arc::new(routes);
    }

    pub const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The subscribers to what happens to files.
    pub const fn events(&self) -> &Observers {
        &self.events
    }

    /// The filler as this manager sees it.
    pub fn filler(&self) -> FillerState {
        self.filler.state()
    }

    /// The name space of the moment.
    pub fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.routes.read())
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.watch.abort();
    }
}
