//! One disk of a set, watched.

use crate::{
    DataFile, Disk, NewRecord, Space, StoreError, VolumeId, VolumeInfo, VolumeSpec, disk_set::spec::Clock,
    error::fault_of,
};
use forebay_cache::{CacheKey, DiskHealth, Fault, Health, HealthLimits, placement_hash};
use parking_lot::{Mutex, RwLock};
use std::{
    collections::BTreeMap,
    fmt, io,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// One disk of a set: every operation on it updates its health.
pub(crate) struct Volume {
    id: VolumeId,
    spec: VolumeSpec,
    seed: u64,
    limits: HealthLimits,
    clock: Clock,
    /// `None` until it could be opened.
    disk: RwLock<Option<Arc<dyn Disk>>>,
    watch: Mutex<Watch>,
}

/// State derived from the operations.
#[derive(Debug)]
struct Watch {
    health: DiskHealth,
    /// When each operation that is under way counts as hung.
    under_way: BTreeMap<u64, Instant>,
    next_operation: u64,
    errors: u64,
    logged: Health,
}

/// One operation under way, until it is dropped.
struct Operation<'a> {
    volume: &'a Volume,
    number: u64,
    began: Instant,
}

impl Volume {
    pub(crate) fn new(id: VolumeId, spec: VolumeSpec, limits: HealthLimits, clock: Clock) -> Self {
        let watch = Watch {
            health: DiskHealth::new(limits),
            under_way: BTreeMap::new(),
            next_operation: 0,
            errors: 0,
            logged: Health::Healthy,
        };
        let seed = placement_hash(spec.path.as_os_str().as_bytes());
        Self { id, spec, seed, limits, clock, disk: RwLock::new(None), watch: Mutex::new(watch) }
    }

    pub(crate) const fn id(&self) -> VolumeId {
        self.id
    }

    pub(crate) fn path(&self) -> &Path {
        &self.spec.path
    }

    pub(crate) const fn weight(&self) -> u32 {
        self.spec.weight
    }

    /// Seed of the disk for placement: from its path, so that its position does not matter.
    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn health(&self) -> Health {
        self.watch.lock().health.health((self.clock)())
    }

    pub(crate) fn disk(&self) -> Option<Arc<dyn Disk>> {
        self.disk.read().clone()
    }

    fn online_disk(&self) -> Option<Arc<dyn Disk>> {
        if self.health().is_online() { self.disk() } else { None }
    }

    /// Opens or reopens the disk; offline if that fails.
    pub(crate) fn open(&self) -> Result<(), StoreError> {
        match (self.spec.open)(self.id) {
            Ok(disk) => {
                *self.disk.write() = Some(disk);
                Ok(())
            }
            Err(error) => {
                self.note(|health, now| health.failed(now, Fault::Absent), Some(&error));
                Err(error)
            }
        }
    }

    /// Runs an operation on the disk and takes note of how it went.
    pub(crate) fn run<T>(&self, operation: impl FnOnce(&dyn Disk) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let disk = self.online_disk().ok_or_else(|| StoreError::Offline { path: self.spec.path.clone() })?;
        self.observed(self.limits.hung_after, || operation(&*disk), |error| error.fault())
    }

    /// Runs an operation on an open file of the disk and takes note of how it went.
    pub(crate) fn run_on_file<T>(&self, operation: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.check_online()?;
        self.observed(self.limits.hung_after, operation, fault_of)
    }

    /// As [`Self::run_on_file`], with the patience that syncs need.
    pub(crate) fn run_sync<T>(&self, operation: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.check_online()?;
        self.observed(self.limits.sync_hung_after, operation, fault_of)
    }

    /// Removes entries from the disk. A disk that fails has failed once, however many of the entries that concerns.
    pub(crate) fn remove_entries(&self, keys: &[CacheKey]) -> Vec<Result<(), StoreError>> {
        let Ok(results) = self.run(|disk| Ok(disk.remove_entries(keys))) else {
            return keys.iter().map(|_| Err(StoreError::Offline { path: self.spec.path.clone() })).collect();
        };
        let fault = |result: &Result<(), StoreError>| result.as_ref().err().and_then(StoreError::fault);
        if let Some((fault, Err(error))) = results.iter().find_map(|result| Some((fault(result)?, result))) {
            self.note(|health, now| health.failed(now, fault), Some(error));
        }
        results
    }

    /// Makes files of the disk durable. Files that are synced one by one update the health themselves.
    pub(crate) fn sync_data_of(&self, files: &[&dyn DataFile]) -> Vec<io::Result<()>> {
        let synced = self.patiently(files.len(), |disk| disk.sync_data_of(files));
        let offline = || {
            let error = || StoreError::Offline { path: self.spec.path.clone() };
            files.iter().map(|_| Err(io::Error::new(io::ErrorKind::NotConnected, error()))).collect()
        };
        synced.unwrap_or_else(offline)
    }

    /// Writes records on the disk. A disk that fails has failed once, however many records that concerns.
    pub(crate) fn write_cinfos(&self, records: &[NewRecord<'_>]) -> Vec<Result<(), StoreError>> {
        let written = self.patiently(records.len(), |disk| disk.write_cinfos(records));
        let offline = || records.iter().map(|_| Err(StoreError::Offline { path: self.spec.path.clone() })).collect();
        let results = written.unwrap_or_else(offline);
        let fault = |result: &Result<(), StoreError>| result.as_ref().err().and_then(StoreError::fault);
        if let Some((fault, Err(error))) = results.iter().find_map(|result| Some((fault(result)?, result))) {
            self.note(|health, now| health.failed(now, fault), Some(error));
        }
        results
    }

    /// Runs an operation on the disk that may take as long as a sync of one file, or of the whole file system if it is for
    /// several; `None` when it is offline.
    fn patiently<T>(&self, files: usize, operation: impl FnOnce(&dyn Disk) -> T) -> Option<T> {
        let disk = self.online_disk()?;
        // A sync of the whole file system also waits for data that others have written.
        let patience = if files > 1 { self.limits.whole_sync_hung_after } else { self.limits.sync_hung_after };
        let _under_way = self.begin(patience);
        Some(operation(&*disk))
    }

    /// Takes note of an operation that failed elsewhere.
    pub(crate) fn note_failure(&self, error: &io::Error) {
        if let Some(fault) = fault_of(error) {
            self.note(|health, now| health.failed(now, fault), Some(error));
        }
    }

    /// The room on the disk, if it is online and can be measured.
    pub(crate) fn measure(&self) -> Option<Space> {
        self.run(|disk| disk.space()).ok()
    }

    pub(crate) fn info(&self) -> VolumeInfo {
        let space = self.measure();
        let watch = self.watch.lock();
        VolumeInfo {
            id: self.id,
            path: self.spec.path.clone(),
            weight: self.spec.weight,
            space,
            health: watch.health.health((self.clock)()),
            errors: watch.errors,
            latency: watch.health.latency(),
        }
    }

    /// Looks for operations that hang; `true` when the disk is to be probed now.
    pub(crate) fn begin_probe(&self) -> bool {
        let now = (self.clock)();
        // A thread in a hanging system call cannot report: the probe timer looks at its deadline instead.
        let hangs = self.watch.lock().under_way.values().any(|&due| due <= now);
        if hangs {
            self.note(|health, now| health.failed(now, Fault::Hung), None);
        }
        self.watch.lock().health.begin_probe(now)
    }

    /// Tries the disk, and opens it first if need be.
    pub(crate) fn probe(&self) -> Result<(), StoreError> {
        let probed = match self.disk() {
            Some(disk) => disk.probe(self.id),
            None => Err(StoreError::Replaced { path: self.spec.path.clone() }),
        };
        // Another file system is mounted at the path by now, perhaps the disk's replacement: it is opened as a new
        // one.
        let probed = match probed {
            Err(StoreError::Replaced { .. }) => self.open(),
            other => other,
        };
        let judged = probed.as_ref().map(|&()| ()).map_err(|error| error.fault().unwrap_or(Fault::Broken));
        let error = probed.as_ref().err().map(|error| error as &dyn std::error::Error);
        self.note(|health, now| health.probe_ended(now, judged), error);
        probed
    }

    /// An operation on an offline disk might not end.
    fn check_online(&self) -> io::Result<()> {
        if self.health().is_online() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::NotConnected, StoreError::Offline { path: self.spec.path.clone() }))
    }

    fn observed<T, E: std::error::Error>(
        &self,
        patience: Duration,
        operation: impl FnOnce() -> Result<T, E>,
        fault_of: impl FnOnce(&E) -> Option<Fault>,
    ) -> Result<T, E> {
        let under_way = self.begin(patience);
        let result = operation();
        let took = (self.clock)().saturating_duration_since(under_way.began);
        drop(under_way);
        match &result {
            Err(error) => {
                if let Some(fault) = fault_of(error) {
                    self.note(|health, now| health.failed(now, fault), Some(error));
                }
            }
            // A long sync says how much was written, not how fast the disk is.
            Ok(_) if patience == self.limits.hung_after => self.note(|health, now| health.succeeded(now, took), None),
            Ok(_) => {}
        }
        result
    }

    fn begin(&self, patience: Duration) -> Operation<'_> {
        let began = (self.clock)();
        let mut watch = self.watch.lock();
        let number = watch.next_operation;
        watch.next_operation += 1;
        // Noted before the call: if it hangs, nothing runs after it.
        watch.under_way.insert(number, began + patience);
        Operation { volume: self, number, began }
    }

    /// Takes note of something, and logs it when it changes the state.
    fn note(&self, change: impl FnOnce(&mut DiskHealth, Instant), error: Option<&dyn std::error::Error>) {
        let now = (self.clock)();
        let (before, after) = {
            let mut watch = self.watch.lock();
            if error.is_some() {
                watch.errors = watch.errors.saturating_add(1);
            }
            change(&mut watch.health, now);
            let after = watch.health.health(now);
            (std::mem::replace(&mut watch.logged, after), after)
        };
        // Only changes are logged: a failing disk would fill the log otherwise.
        if before != after {
            self.log(after, error);
        }
    }

    fn log(&self, health: Health, error: Option<&dyn std::error::Error>) {
        let disk = self.spec.path.display();
        let state = health.as_str();
        let reason = error.map_or_else(String::new, |error| {
            error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
        });
        match health {
            Health::Healthy => tracing::info!(%disk, state, "disk is well"),
            Health::Degraded => tracing::warn!(%disk, state, reason, "disk fails or is slow: new files go elsewhere"),
            Health::Full => tracing::warn!(%disk, state, reason, "disk is full: it is not written for a while"),
            Health::ReadOnly => {
                tracing::error!(%disk, state, reason, "disk cannot be written: it is read until it can");
            }
            Health::Offline | Health::Probing => {
                let reason = if reason.is_empty() { "an operation does not end".to_owned() } else { reason };
                tracing::error!(%disk, state, reason, "disk is offline: its files are misses until it works again");
            }
        }
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.volume.watch.lock().under_way.remove(&self.number);
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume").field("id", &self.id).field("spec", &self.spec).finish_non_exhaustive()
    }
}
