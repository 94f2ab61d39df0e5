//! The engine: the one thing a front talks to.

use crate::{
    Client, Error, Handle, Options,
    cached::{CachedFile, file_stat},
    handle::Source,
    kept::Kept,
    local::disk_error,
    routes::{OriginTarget, Routes, Target, Writes},
    shared::{Shared, with_cause},
    sync,
};
use forebay_cache::{CacheKey, ChecksumState, Cinfo, Geometry};
use forebay_origin::{Checksum, FileIdentity, ListDetail, OriginError, OriginFile};
use forebay_store::{Disk, Entry, OriginMark, StoreError};
use forebay_telemetry::{DiskOperation, Metrics, NotKept};
use forebay_types::{BlockSize, DirEntry, Endpoint, FileStat, Lfn, RequestPath};
use std::{
    io,
    os::unix::fs::MetadataExt,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};
use tokio::task::JoinHandle;

/// Serves files of origins through the cache, and files of exported directories. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    routes: RwLock<Arc<Routes>>,
    /// Until the shutdown.
    syncer: Mutex<Option<JoinHandle<()>>>,
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
        let shared = Arc::new(Shared::new(options, disk, metrics));
        let syncer = tokio::spawn(sync::run(Arc::clone(&shared)));
        Self {
            inner: Arc::new(Inner { shared, routes: RwLock::new(Arc::new(routes)), syncer: Mutex::new(Some(syncer)) }),
        }
    }

    /// Replaces the name space. Files that are open stay open.
    pub fn reconfigure(&self, routes: Routes) {
        *self.inner.routes.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(routes);
    }

    /// Waits for fills that are under way, for a bounded time, and syncs everything to disk. Called last, when no front
    /// serves any more.
    pub async fn shutdown(&self) {
        let files = self.inner.shared.table.files();
        let fills_ended = async {
            for file in &files {
                file.claims().all_released().await;
            }
        };
        if tokio::time::timeout(FILLS_END_TIME_MAX, fills_ended).await.is_err() {
            tracing::warn!("fills were still under way at the end: what they have not written is fetched again later");
        }

        let syncer = self.inner.take_syncer();
        if let Some(syncer) = syncer {
            syncer.abort();
            // Aborted is how it ends; a sync it had begun goes on in the pool, and the flush of its file waits for it.
            let _ = syncer.await;
        }
        sync::flush(&self.inner.shared).await;
        self.inner.shared.table.clear();
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

    /// Opens a file for reading.
    ///
    /// A file that the cache holds, even in part, is opened without asking its origin.
    ///
    /// # Errors
    /// When no export covers the path, or the origin or the exported directory has no such readable file.
    pub async fn open(&self, path: &RequestPath, client: &Client) -> Result<Handle, Error> {
        let metrics = self.metrics();
        match self.routes().resolve(path)? {
            Target::Local { tree, lfn } => {
                let (file, stat) = blocking(&lfn, {
                    let lfn = lfn.clone();
                    move || tree.open_file(&lfn)
                })
                .await?;
                Ok(Handle::new(Source::Local { file, stat }, path.lfn.clone(), client, metrics))
            }
            Target::Origin(target) => {
                let file = self.open_cached(target).await?;
                Ok(Handle::new(Source::Cached(file), path.lfn.clone(), client, metrics))
            }
        }
    }

    /// What is known of a path: from the cache when it holds the file, else from the origin.
    ///
    /// # Errors
    /// As for [`Engine::open`].
    pub async fn stat(&self, path: &RequestPath) -> Result<FileStat, Error> {
        match self.routes().resolve(path)? {
            Target::Local { tree, lfn } => {
                blocking(&lfn, {
                    let lfn = lfn.clone();
                    move || tree.stat(&lfn)
                })
                .await
            }
            Target::Origin(target) => {
                if let Some(stat) = self.cached_stat(&target).await {
                    return Ok(stat);
                }
                Ok(target.origin.stat(&target.path).await?)
            }
        }
    }

    /// The entries of a directory, as the origin lists them.
    ///
    /// # Errors
    /// As for [`Engine::open`]; also when the path is no directory.
    pub async fn list(&self, path: &RequestPath, detail: ListDetail) -> Result<Vec<DirEntry>, Error> {
        match self.routes().resolve(path)? {
            Target::Local { tree, lfn } => {
                blocking(&lfn, {
                    let lfn = lfn.clone();
                    move || tree.list(&lfn, detail)
                })
                .await
            }
            Target::Origin(target) => Ok(target.origin.list(&target.path, detail).await?),
        }
    }

    /// A file's checksum: the origin's, or computed for an exported file.
    ///
    /// # Errors
    /// As for [`Engine::open`]; also when the algorithm is not known.
    pub async fn checksum(&self, path: &RequestPath, algorithm: Option<&str>) -> Result<Checksum, Error> {
        match self.routes().resolve(path)? {
            Target::Local { tree, lfn } => {
                let algorithm = algorithm.map(str::to_owned);
                blocking(&lfn, {
                    let lfn = lfn.clone();
                    move || tree.checksum(&lfn, algorithm.as_deref())
                })
                .await
            }
            Target::Origin(target) => Ok(target.origin.checksum(&target.path, algorithm).await?),
        }
    }

    /// What happens to an open for writing, or to a change of the name space, at this path.
    ///
    /// # Errors
    /// When no export covers the path.
    pub fn write_policy(&self, path: &RequestPath) -> Result<WritePolicy, Error> {
        Ok(match self.routes().resolve(path)? {
            Target::Origin(OriginTarget { writes: Writes::Redirect, server, .. }) => WritePolicy::Redirect(server),
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
        blocking(&root.clone(), move || {
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

    fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.inner.routes.read().unwrap_or_else(PoisonError::into_inner))
    }

    async fn open_cached(&self, target: OriginTarget) -> Result<Arc<CachedFile>, Error> {
        let shared = &self.inner.shared;
        match target.key.clone() {
            Some(key) => {
                let shared = Arc::clone(shared);
                let load = move || load(Arc::clone(&shared), target.clone());
                self.inner.shared.table.attach(&key, load).await
            }
            None => {
                shared.metrics.add_not_kept(NotKept::Decision, 1);
                let origin_file = target.origin.open(&target.path).await?;
                let file = Arc::new(unkept(shared, target, origin_file)?);
                file.attach();
                Ok(file)
            }
        }
    }

    async fn cached_stat(&self, target: &OriginTarget) -> Option<FileStat> {
        let shared = &self.inner.shared;
        let key = target.key.clone()?;
        if let Some(file) = shared.table.find(&key) {
            return Some(file.stat());
        }
        let entry = open_entry(shared, key, false).await?;
        Some(file_stat(target, entry.cinfo.geometry.file_size(), mtime_of(&entry), entry.cinfo.is_complete()))
    }
}

impl Inner {
    fn take_syncer(&self) -> Option<JoinHandle<()>> {
        self.syncer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(syncer) = self.take_syncer() {
            syncer.abort();
        }
        self.shared.table.clear();
    }
}

/// Loads a file into the table: from the disk when it holds a part of it, else from the origin.
async fn load(shared: Arc<Shared>, target: OriginTarget) -> Result<Arc<CachedFile>, Error> {
    let Some(key) = target.key.clone() else { return Err(Error::Internal { what: "a file without a key was loaded" }) };
    if let Some(entry) = open_entry(&shared, key.clone(), true).await {
        let (geometry, mtime) = (entry.cinfo.geometry, mtime_of(&entry));
        let kept = Some(Kept::new(entry));
        return Ok(Arc::new(CachedFile::new(shared, target, geometry, mtime, kept, None)));
    }
    let origin_file = target.origin.open(&target.path).await?;
    let identity = origin_file.identity();
    let Some(kept) = create_entry(&shared, key, &identity).await else {
        return Ok(Arc::new(unkept(&shared, target, origin_file)?));
    };
    let geometry = kept.map.geometry();
    let file = CachedFile::new(shared, target, geometry, identity.mtime, Some(kept), Some(origin_file));
    Ok(Arc::new(file))
}

/// A file that is passed through without keeping it.
fn unkept(shared: &Arc<Shared>, target: OriginTarget, origin_file: Arc<dyn OriginFile>) -> Result<CachedFile, Error> {
    let identity = origin_file.identity();
    let too_large = |error: forebay_cache::GeometryError| {
        Error::Origin(OriginError::Protocol { endpoint: identity.endpoint.clone(), what: error.to_string() })
    };
    let geometry = Geometry::of_new_file(BlockSize::MAX, identity.size).map_err(too_large)?;
    Ok(CachedFile::new(Arc::clone(shared), target, geometry, identity.mtime, None, Some(origin_file)))
}

/// What the disk holds under `key`, if anything; a disk that fails holds nothing.
async fn open_entry(shared: &Arc<Shared>, key: CacheKey, is_access: bool) -> Option<Entry> {
    let disk = Arc::clone(shared.disk.as_ref()?);
    let opening = Arc::clone(shared);
    let opened = tokio::task::spawn_blocking(move || {
        let entry = disk.open_entry(&key)?;
        if entry.is_some()
            && is_access
            && let Err(error) = disk.touch(&key, forebay_net::clock::now_unix())
        {
            opening.note_store_failure(DiskOperation::Open, &error);
        }
        Ok::<_, StoreError>(entry)
    });
    match opened.await {
        Ok(Ok(entry)) => entry,
        Ok(Err(error)) => {
            shared.note_store_failure(DiskOperation::Open, &error);
            None
        }
        Err(_) => None,
    }
}

/// When the file of an entry last changed: at its origin, or, for entries of XCache that do not tell, on our disk.
fn mtime_of(entry: &Entry) -> i64 {
    let changed_here = || entry.data.file().metadata().map_or(0, |metadata| metadata.mtime());
    entry.origin.as_ref().map_or_else(changed_here, |mark| mark.mtime)
}

/// Makes a new entry on disk; `None`, and counted, when the disk does not take it.
async fn create_entry(shared: &Arc<Shared>, key: CacheKey, identity: &FileIdentity) -> Option<Kept> {
    let disk = Arc::clone(shared.disk.as_ref()?);
    if shared.pause.is_on() {
        shared.metrics.add_not_kept(NotKept::DiskError, 1);
        return None;
    }
    let geometry = Geometry::of_new_file(shared.options.block_size, identity.size).ok()?;
    let cinfo = Cinfo::new(geometry, forebay_net::clock::now_unix(), ChecksumState::Net);
    let mark = OriginMark { endpoint: identity.endpoint.clone(), mtime: identity.mtime };
    let created = tokio::task::spawn_blocking(move || disk.create_entry(&key, cinfo, Some(mark)).map(Kept::new));
    match created.await {
        Ok(Ok(kept)) => Some(kept),
        Ok(Err(error)) => {
            let reason = if error.is_out_of_space() { NotKept::DiskFull } else { NotKept::DiskError };
            shared.metrics.add_not_kept(reason, 1);
            shared.note_store_failure(DiskOperation::Open, &error);
            None
        }
        Err(_) => None,
    }
}

/// Runs blocking work on tokio's pool; a panic in it costs this request.
async fn blocking<T: Send + 'static>(
    lfn: &Lfn,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!(lfn = lfn.as_str(), %error, "blocking work broke off");
        Err(Error::Internal { what: "blocking work broke off" })
    })
}

fn store_error(error: &StoreError, lfn: &Lfn) -> Error {
    Error::Disk { lfn: lfn.clone(), doing: "measuring the space of", reason: with_cause(error) }
}
