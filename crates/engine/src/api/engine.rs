//! The engine: the one thing a front talks to.

use crate::{
    Caller, Delegation, Error, OpenRequest, Options, Space, WritePolicy,
    api::{listing::Listing, staging::Staging},
    base::error::with_cause,
    catalog,
    entries::{
        file_context::{COMPLETED_MAX, CompletedFile, FileContext},
        open_files::OpenFiles,
    },
    freshness::{origin_metadata::OriginMetadata, origin_permission::OriginPermissions, shared_names::SharedNames},
    namespace::routes::{Routes, Target, Writes},
    upkeep::{
        disk_watch,
        entry_check::EntryCheck,
        file_checksums::{FileChecksums, TargetOf},
        leases::{self, Leases},
        part_holder::PartHolder,
        purge::Purge,
        scrub::Scrubber,
        store_owner::StoreOwner,
        sync,
    },
};
use forebay_origin::{BoxFuture, ListDetail};
use forebay_store::{Disk, PartSet, VolumeInfo};
use forebay_telemetry::{Metrics, Observers};
use forebay_types::Lfn;
use parking_lot::{Mutex, RwLock};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{sync::mpsc, task::JoinHandle};

/// Serves files of origins through the cache, and files of exported directories. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) context: Arc<FileContext>,
    pub(crate) open_files: Arc<OpenFiles>,
    routes: Arc<RwLock<Arc<Routes>>>,
    pub(crate) metadata: Arc<OriginMetadata>,
    pub(crate) permissions: OriginPermissions,
    pub(crate) shared_names: SharedNames,
    pub(crate) leases: Arc<Leases>,
    pub(crate) purge: Arc<Purge>,
    pub(crate) checksums: Arc<FileChecksums>,
    pub(crate) scrubber: Arc<Scrubber>,
    pub(crate) staging: Staging,
    pub(crate) store_owner: Arc<StoreOwner>,
    /// Set if the store has parts, which several fillers share.
    parts: OnceLock<Arc<PartSet>>,
    /// Background tasks, which end with the shutdown.
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// How often clients may have a copy compared with its origin.
const REVALIDATION_PERIOD: Duration = Duration::from_secs(5);

const MEASURING: &str = "measuring the space of";

/// How long a shutdown waits for fills that are under way: most of what they fetch would be fetched again.
const FILLS_END_TIME_MAX: Duration = Duration::from_secs(5);

impl Engine {
    /// Starts the engine inside a tokio runtime. Without a disk nothing is kept, whatever is exported.
    pub fn start(options: Options, disk: Option<Arc<dyn Disk>>, routes: Routes, metrics: Metrics) -> Self {
        let (completed, is_complete) = mpsc::channel(COMPLETED_MAX);
        let context = Arc::new(FileContext::new(options, disk, metrics, completed));
        let Options { open_files_max, open_wait_max, .. } = context.options;
        let open_files = Arc::new(OpenFiles::new(open_files_max, open_wait_max, Arc::clone(&context.closed)));
        let routes = Arc::new(RwLock::new(Arc::new(routes)));
        let check = EntryCheck { context: Arc::clone(&context), open_files: Arc::clone(&open_files) };
        let checksums = Arc::new(FileChecksums::new(check, target_of(Arc::clone(&routes))));
        let inner = Inner {
            routes,
            metadata: Arc::default(),
            permissions: OriginPermissions::default(),
            shared_names: SharedNames::default(),
            leases: Arc::default(),
            purge: Arc::new(Purge::new(Arc::clone(&context), Arc::clone(&open_files))),
            scrubber: Arc::new(Scrubber::new(Arc::clone(&checksums))),
            checksums,
            staging: Staging::default(),
            store_owner: Arc::default(),
            parts: OnceLock::new(),
            context,
            open_files,
            tasks: Mutex::default(),
        };
        inner.start_tasks(is_complete);
        Self { inner: Arc::new(inner) }
    }

    /// Replaces the name space. Files that are open stay open.
    pub fn reconfigure(&self, routes: Routes) {
        *self.inner.routes.write() = Arc::new(routes);
    }

    /// Waits for fills that are under way, for a bounded time, and syncs everything to disk. Called last, when no front
    /// serves any more.
    pub fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.stop())
    }

    async fn stop(&self) {
        // First of all: prefetches and completions stop, so that only fills with readers remain to be waited for.
        self.inner.context.admission.stop();
        if tokio::time::timeout(FILLS_END_TIME_MAX, self.inner.context.fills_ended()).await.is_err() {
            tracing::warn!("fills were still running at shutdown: bytes not written yet are fetched again later");
            self.inner.context.fills_stopped.set();
            self.inner.context.fills_ended().await;
        }

        for task in self.inner.take_tasks() {
            task.abort();
            // It ends aborted. A sync that it had begun continues in the pool, and the flush of its file waits for it.
            let _ = task.await;
        }
        // After the tasks: none of them grants or sweeps a lease any more. Before the flush: a leased file counts as open.
        self.inner.leases.clear();
        // The last sync needs the disk and the table, so it comes before both are let go.
        sync::flush(&self.inner.open_files, &self.inner.context).await;
        self.inner.open_files.clear();
        self.inner.context.closed.clear();
        // After the flush: another process may use the store as soon as it finds this record gone.
        self.inner.store_owner.forget(&self.inner.context.options.workers).await;
        if let Some(parts) = self.inner.parts.get() {
            PartHolder::leave(Arc::clone(parts), &self.inner.context).await;
        }
        // Last: the syncs above note their results for the index.
        if let Some(catalog) = &self.inner.context.catalog {
            catalog.close().await;
        }
    }

    pub fn metrics(&self) -> &Metrics {
        &self.inner.context.metrics
    }

    pub fn events(&self) -> &Observers {
        &self.inner.context.options.events
    }

    /// Whether anything is cached; otherwise only directories are exported.
    pub fn is_cache(&self) -> bool {
        self.routes().is_cache()
    }

    /// Whether writers of any export are redirected to its origin.
    pub fn redirects_writers(&self) -> bool {
        self.routes().redirects_writers()
    }

    /// Whether this publishes complete files for managers.
    #[must_use]
    pub fn is_filler(&self) -> bool {
        self.context().options.publishes_complete
    }

    /// The entries of a directory, as the origin lists them.
    ///
    /// # Errors
    /// As for [`Engine::open`]; also when the path is not a directory.
    pub fn list<'a>(
        &'a self,
        request: &'a OpenRequest,
        caller: &'a Caller,
        detail: ListDetail,
    ) -> BoxFuture<'a, Result<Listing, Error>> {
        Box::pin(self.find_entries(request, caller, detail))
    }

    async fn find_entries(&self, request: &OpenRequest, caller: &Caller, detail: ListDetail) -> Result<Listing, Error> {
        let context = &self.inner.context;
        match self.target(request, &caller.delegation)? {
            Target::Local { tree, lfn } => {
                let entries = self.blocking(lfn, move |lfn| tree.list(lfn, detail)).await?;
                Listing::new(entries, context).await
            }
            // A listing is not kept: the origin is asked for the client at once.
            Target::Origin(target) => {
                let link = context.admission.link(&target.server);
                // Held until the listing has memory: clients that do not take theirs must not let others gather.
                let _place = link.listings.acquire().await;
                let mut entries = target.origin.list(&target.path_for_client(), detail).await?;
                if target.writes == Writes::Refuse {
                    for stat in entries.iter_mut().filter_map(|entry| entry.stat.as_mut()) {
                        stat.access = None;
                    }
                }
                Listing::new(entries, context).await
            }
        }
    }

    /// The answer to an open for writing, or to a change of the name space, at this path.
    ///
    /// # Errors
    /// When no export covers the path.
    pub fn write_policy(&self, request: &OpenRequest) -> Result<WritePolicy, Error> {
        self.routes().write_policy(request)
    }

    /// Room on the file system of the cache; of the exported directory when nothing is cached.
    ///
    /// # Errors
    /// When the operating system does not report it.
    pub async fn space(&self) -> Result<Space, Error> {
        let disk = self.inner.context.disk.clone();
        let routes = self.routes();
        self.blocking(Lfn::parse("/")?, move |root| match disk {
            Some(disk) => disk.space().map_err(|error| Error::disk(root, MEASURING, with_cause(&error))),
            None => routes.local_space().map_err(|error| Error::disk(root, MEASURING, error)),
        })
        .await
    }

    /// Runs blocking work; a panic in it costs this request.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        lfn: Lfn,
        work: impl FnOnce(&Lfn) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let name = lfn.clone();
        self.inner.context.options.workers.run(move || work(&lfn)).await.unwrap_or_else(|error| {
            tracing::error!(lfn = name.as_str(), %error, "blocking work broke off");
            Err(Error::Internal { what: "blocking work broke off" })
        })
    }

    /// Adds a background task, which is aborted at the shutdown.
    pub(crate) fn add_task(&self, task: JoinHandle<()>) {
        self.inner.add_task(task);
    }

    pub(crate) fn context(&self) -> &Arc<FileContext> {
        &self.inner.context
    }

    /// The disks of the cache, in the order of their numbers, as they were found a moment ago.
    pub fn volumes(&self) -> Vec<VolumeInfo> {
        self.inner.context.volumes.lock().iter().filter(|volume| !volume.is_elsewhere).cloned().collect()
    }

    /// Where a name leads, in whose name it is asked.
    pub(crate) fn target(&self, request: &OpenRequest, delegation: &Delegation) -> Result<Target, Error> {
        let mut target = self.routes().resolve(request, delegation)?;
        if let Target::Origin(target) = &mut target {
            if request.revalidates {
                target.validity = target.validity.checked_within(REVALIDATION_PERIOD);
            }
            self.inner.shared_names.apply(target);
        }
        Ok(target)
    }

    fn routes(&self) -> Arc<Routes> {
        // Cloned under the lock and used without it: a reconfiguration never waits for a request.
        Arc::clone(&self.inner.routes.read())
    }
}

impl Inner {
    fn start_tasks(&self, completed: mpsc::Receiver<CompletedFile>) {
        let Self { context, open_files, .. } = self;
        self.add_task(tokio::spawn(sync::run(Arc::clone(open_files), Arc::clone(context))));
        self.add_task(tokio::spawn(disk_watch::run(Arc::clone(context), Arc::clone(open_files))));
        if let Some(catalog) = &context.catalog {
            self.add_task(tokio::spawn(catalog::run::run(Arc::clone(catalog))));
        }
        // Without a disk there is nothing to purge, to check or to lease.
        if context.disk.is_some() {
            self.add_task(tokio::spawn(Arc::clone(&self.purge).run()));
            self.add_task(tokio::spawn(Arc::clone(&self.scrubber).run()));
            self.add_task(tokio::spawn(leases::run(Arc::clone(&self.leases))));
            self.add_task(tokio::spawn(Arc::clone(&self.checksums).run(completed)));
        }
    }

    fn add_task(&self, task: JoinHandle<()>) {
        self.tasks.lock().push(task);
    }

    fn take_tasks(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.tasks.lock())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // An engine dropped without a shutdown still stops its tasks: they hold the context alive otherwise.
        self.context.admission.stop();
        for task in self.take_tasks() {
            task.abort();
        }
    }
}

/// Finds the file of an origin that an entry is a copy of, by the name space of the moment.
fn target_of(routes: Arc<RwLock<Arc<Routes>>>) -> TargetOf {
    // As the operator: checksums are compared in the name of the server, without any client.
    Box::new(move |key| {
        let request = OpenRequest::of(Lfn::parse(key.as_str()).ok()?);
        let routes = Arc::clone(&routes.read());
        routes.origin(&request, &Delegation::Operator).ok()
    })
}

impl Engine {
    /// Lets managers and others know that this process fills the store and is reached at `url`, until the shutdown.
    pub fn tell_who_fills(&self, url: &str) {
        let roots = self.volumes().into_iter().map(|volume| volume.path).collect();
        let workers = self.context().options.workers.clone();
        self.add_task(tokio::spawn(Arc::clone(&self.inner.store_owner).run(url.to_owned(), roots, workers)));
    }

    /// Takes parts of a store whose fillers share it, until the shutdown; others reach this one at `url`. To be called once; `parts` is
    /// the disk of this engine.
    pub fn share_parts(&self, parts: Arc<PartSet>, url: &str) {
        parts.begin(url);
        let (context, open_files) = (Arc::clone(self.context()), Arc::clone(&self.inner.open_files));
        let holder = PartHolder { parts: Arc::clone(&parts), context, open_files };
        if self.inner.parts.set(parts).is_ok() {
            self.add_task(tokio::spawn(holder.run()));
        }
    }

    /// Waits until another process is found to fill the store: then this process has to leave it.
    pub async fn store_lost(&self) {
        self.inner.store_owner.lost.wait().await;
    }
}
