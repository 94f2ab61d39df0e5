//! The engine: the one thing a front talks to.

use crate::{
    Caller, Delegation, Error, ManagerOptions, OpenRequest, Options, catalog,
    entries::{
        open_files::OpenFiles,
        shared::{Shared, with_cause},
    },
    freshness::origin_permission::Want,
    manager::{self, Manager},
    namespace::{
        local_trees::disk_error,
        routes::{OriginTarget, Routes, Target, Writes},
    },
    upkeep::{disk_watch, file_checksums, leases, purge_rounds, scrub, store_owner, sync},
};
use forebay_origin::{Checksum, ListDetail};
use forebay_store::{Disk, StoreError, VolumeInfo};
use forebay_telemetry::Metrics;
use forebay_types::{DirEntry, Endpoint, Lfn};
use parking_lot::{Mutex, RwLock};
use std::{
    io,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::task::JoinHandle;

/// Serves files of origins through the cache, and files of exported directories. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// An engine that may be gone by now, as what goes on beside it holds it.
#[derive(Clone)]
pub(crate) struct WeakEngine {
    inner: Weak<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    table: Arc<OpenFiles>,
    routes: RwLock<Arc<Routes>>,
    manager: Option<Arc<Manager>>,
    /// What goes on beside requests, until the shutdown.
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// What happens to opens for writing and changes of the name space.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WritePolicy {
    /// They are refused.
    Refuse,
    /// The client is sent to this server.
    Redirect(Endpoint),
}

/// Room on the file system of the cache, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Space {
    /// In all.
    pub total_bytes: u64,
    /// Free for use.
    pub free_bytes: u64,
}

/// How long a shutdown waits for fills that are under way: most of what they fetch would be fetched again.
const FILLS_END_TIME_MAX: Duration = Duration::from_secs(5);

impl Engine {
    /// Starts the engine inside a tokio runtime. Without a disk nothing is kept, whatever is exported.
    #[must_use]
    pub fn start(options: Options, disk: Option<Arc<dyn Disk>>, routes: Routes, metrics: Metrics) -> Self {
        let make_manager =
            |set: ManagerOptions| Arc::new(Manager::new(set, options.direct_mode, options.workers.clone()));
        let manager = options.manager.clone().map(make_manager);
        let table = Arc::new(OpenFiles::new(options.open_files_max, options.open_wait_max));
        let syncer = tokio::spawn(sync::run(Arc::clone(&table), options.sync_interval, options.workers.clone()));
        let shared = Arc::new(Shared::new(options, disk, metrics));
        let indexer = shared.catalog.as_ref().map(|catalog| tokio::spawn(catalog::run::run(Arc::clone(catalog))));
        let watch = tokio::spawn(disk_watch::run(Arc::clone(&shared), Arc::clone(&table)));
        let purging =
            shared.disk.is_some().then(|| tokio::spawn(purge_rounds::run(Arc::clone(&shared), Arc::clone(&table))));
        let watching = manager.clone().map(|manager| tokio::spawn(manager::watch(manager)));
        let tasks = [Some(syncer), Some(watch), indexer, purging, watching].into_iter().flatten().collect();
        let routes = RwLock::new(Arc::new(routes));
        let inner = Inner { shared, table, routes, manager, tasks: Mutex::new(tasks) };
        let engine = Self { inner: Arc::new(inner) };
        if engine.inner.shared.disk.is_some() {
            let weak = WeakEngine { inner: Arc::downgrade(&engine.inner) };
            engine.inner.add_task(tokio::spawn(scrub::run(weak.clone())));
            engine.inner.add_task(tokio::spawn(leases::run(Arc::clone(&engine.inner.shared))));
            engine.inner.add_task(tokio::spawn(file_checksums::run(weak)));
        }
        engine
    }

    /// Replaces the name space. Files that are open stay open.
    pub fn reconfigure(&self, routes: Routes) {
        *self.inner.routes.write() = Arc::new(routes);
    }

    /// Waits for fills that are under way, for a bounded time, and syncs everything to disk. Called last, when no front
    /// serves any more.
    pub async fn shutdown(&self) {
        self.inner.shared.admission.stop();
        let files = self.inner.table.files();
        let fills_ended = async {
            for file in &files {
                file.claims().all_released().await;
            }
        };
        if tokio::time::timeout(FILLS_END_TIME_MAX, fills_ended).await.is_err() {
            tracing::warn!("fills were still under way at the end: what they have not written is fetched again later");
        }

        for task in self.inner.take_tasks() {
            task.abort();
            // Aborted is how it ends; a sync it had begun goes on in the pool, and the flush of its file waits for it.
            let _ = task.await;
        }
        self.inner.shared.leases.clear();
        sync::flush(&self.inner.table, &self.inner.shared.options.workers).await;
        self.inner.table.clear();
        store_owner::forget(&self.inner.shared).await;
        if let Some(catalog) = &self.inner.shared.catalog {
            catalog.close().await;
        }
    }

    /// The counters.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.inner.shared.metrics
    }

    /// Whether anything is cached; otherwise only directories are exported.
    #[must_use]
    pub fn is_cache(&self) -> bool {
        self.routes().is_cache()
    }

    /// Whether files of origins are kept here.
    #[must_use]
    pub fn keeps_files(&self) -> bool {
        self.is_cache() && self.inner.manager.is_none()
    }

    /// The entries of a directory, as the origin lists them.
    ///
    /// # Errors
    /// As for [`Engine::open`]; also when the path is no directory.
    pub async fn list(
        &self,
        request: &OpenRequest,
        caller: &Caller,
        detail: ListDetail,
    ) -> Result<Vec<DirEntry>, Error> {
        match self.target(request, &caller.delegation)? {
            Target::Local { tree, lfn } => {
                self.blocking(&lfn, {
                    let lfn = lfn.clone();
                    move || tree.list(&lfn, detail)
                })
                .await
            }
            // A listing is not kept: the origin is asked for the client at once.
            Target::Origin(target) => Ok(target.origin.list(&target.path_for_client(), detail).await?),
        }
    }

    /// A file's checksum: from the cache when it holds all of the file, else the origin's; computed for an exported file.
    ///
    /// # Errors
    /// As for [`Engine::open`]; also when the algorithm is not known.
    pub async fn checksum(
        &self,
        request: &OpenRequest,
        caller: &Caller,
        algorithm: Option<&str>,
    ) -> Result<Checksum, Error> {
        match self.target(request, &caller.delegation)? {
            Target::Local { tree, lfn } => {
                let algorithm = algorithm.map(str::to_owned);
                self.blocking(&lfn, {
                    let lfn = lfn.clone();
                    move || tree.checksum(&lfn, algorithm.as_deref())
                })
                .await
            }
            Target::Origin(target) => {
                drop(self.authorize(&target, Want::Read).await?);
                if let Some(checksum) = self.cached_checksum((request, caller), &target, algorithm).await {
                    return Ok(checksum);
                }
                Ok(target.origin.checksum(&target.path, algorithm).await?)
            }
        }
    }

    /// What happens to an open for writing, or to a change of the name space, at this path.
    ///
    /// # Errors
    /// When no export covers the path.
    pub fn write_policy(&self, request: &OpenRequest) -> Result<WritePolicy, Error> {
        Ok(match self.target(request, &Delegation::Operator)? {
            Target::Origin(OriginTarget { writes: Writes::Redirect, server, key, decisions, .. }) => {
                if let Some(key) = key {
                    decisions.forget_missing(&key);
                }
                WritePolicy::Redirect(server)
            }
            Target::Origin(_) | Target::Local { .. } => WritePolicy::Refuse,
        })
    }

    /// Room on the file system of the cache; of the exported directory when nothing is cached.
    ///
    /// # Errors
    /// When the operating system does not tell.
    pub async fn space(&self) -> Result<Space, Error> {
        let root = Lfn::parse("/")?;
        let (disk, routes) = (self.inner.shared.disk.clone(), self.routes());
        self.blocking(&root.clone(), move || {
            let failed = |error: io::Error| disk_error(&error, &root, "measuring the space of");
            let (total_bytes, free_bytes) = match disk {
                Some(disk) => disk
                    .space()
                    .map(|space| (space.total_bytes, space.free_bytes))
                    .map_err(|error| store_error(&error, &root))?,
                None => routes.local_space().map_err(failed)?,
            };
            Ok(Space { total_bytes, free_bytes })
        })
        .await
    }

    /// Runs blocking work; a panic in it costs this request.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        lfn: &Lfn,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.inner.shared.options.workers.run(work).await.unwrap_or_else(|error| {
            tracing::error!(lfn = lfn.as_str(), %error, "blocking work broke off");
            Err(Error::Internal { what: "blocking work broke off" })
        })
    }

    /// Has a task go on beside requests, until the shutdown.
    pub(crate) fn add_task(&self, task: JoinHandle<()>) {
        self.inner.add_task(task);
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    pub(crate) fn manager(&self) -> Option<&Arc<Manager>> {
        self.inner.manager.as_ref()
    }

    pub(crate) fn table(&self) -> &Arc<OpenFiles> {
        &self.inner.table
    }

    /// The disks of the cache, in the order of their numbers, as they were found a moment ago.
    #[must_use]
    pub fn volumes(&self) -> Vec<VolumeInfo> {
        self.inner.shared.volumes().clone()
    }

    /// Where a name leads, in whose name it is asked.
    pub(crate) fn target(&self, request: &OpenRequest, delegation: &Delegation) -> Result<Target, Error> {
        self.routes().resolve(request, delegation)
    }

    fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.inner.routes.read())
    }
}

impl WeakEngine {
    pub(crate) fn upgrade(&self) -> Option<Engine> {
        Some(Engine { inner: self.inner.upgrade()? })
    }
}

impl Inner {
    fn add_task(&self, task: JoinHandle<()>) {
        self.tasks.lock().push(task);
    }

    fn take_tasks(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.tasks.lock())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.admission.stop();
        for task in self.take_tasks() {
            task.abort();
        }
    }
}

fn store_error(error: &StoreError, lfn: &Lfn) -> Error {
    Error::Disk { lfn: lfn.clone(), doing: "measuring the space of", reason: with_cause(error) }
}
