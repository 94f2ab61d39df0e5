//! The disks of a set: before they are opened, and watched.

use crate::{
    DataFile, Disk, LocalDisk, NewRecord, Permissions, Space, StoreError, VolumeId, VolumeInfo, error::fault_of,
    is_mount_point, parts::PartLease,
};
use forebay_cache::{CacheKey, DiskHealth, Fault, Health, HealthLimits, placement_hash};
use parking_lot::{Mutex, RwLock};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// One disk of a set: every operation on it updates its health.
pub(crate) struct Volume {
    pub(crate) id: VolumeId,
    pub(crate) spec: VolumeSpec,
    /// Seed of the disk for placement: from its path, so that its position does not matter.
    pub(crate) seed: u64,
    /// Of a part of a store: whether this process holds it.
    lease: Option<Arc<PartLease>>,
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
    /// When each operation that is under way counts as hung; without those that have been counted.
    under_way: BTreeMap<u64, Instant>,
    /// Operations that were counted as hung and have not ended.
    hung: BTreeSet<u64>,
    /// How many operations were counted as hung.
    hangs: u64,
    next_operation: u64,
    errors: u64,
    logged: Health,
}

/// Operations that hang at the same time, each of which keeps a thread: with more of them a disk stays offline although a probe ends. The
/// probe looks at the root, and the files may lie elsewhere.
const HUNG_MAX: usize = 16;

/// Removals after which all are settled, in pieces: a disk that has to remember more syncs their directories in one operation.
const UNSETTLED_MAX: usize = 32_768;

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
            hung: BTreeSet::new(),
            hangs: 0,
            next_operation: 0,
            errors: 0,
            logged: Health::Healthy,
        };
        let seed = placement_hash(spec.path.as_os_str().as_bytes());
        Self { id, spec, seed, lease: None, limits, clock, disk: RwLock::new(None), watch: Mutex::new(watch) }
    }

    /// A part of a store in the directory `path`, which is used while `lease` is held.
    pub(crate) fn of_part(
        (id, path): (VolumeId, PathBuf),
        lease: &Arc<PartLease>,
        permissions: Permissions,
        (limits, clock): (HealthLimits, Clock),
    ) -> Self {
        let (root, held) = (path.clone(), Arc::clone(lease));
        let open: Opener = Box::new(move |id| {
            let epoch = held.epoch().ok_or_else(|| StoreError::Offline { path: root.clone() })?;
            Ok(Arc::new(LocalDisk::open_part(&root, id, permissions, epoch)?))
        });
        let spec = VolumeSpec { path, weight: 1, open };
        Self { lease: Some(Arc::clone(lease)), ..Self::new(id, spec, limits, clock) }
    }

    pub(crate) fn health(&self) -> Health {
        let now = (self.clock)();
        if self.is_elsewhere(now) { Health::Offline } else { self.watch.lock().health.health(now) }
    }

    /// Whether it is a part that this process may not use.
    fn is_elsewhere(&self, now: Instant) -> bool {
        self.lease.as_ref().is_some_and(|lease| !lease.holds(now))
    }

    /// Closes the disk; operations that are under way end on their own.
    pub(crate) fn close(&self) {
        *self.disk.write() = None;
    }

    pub(crate) fn disk(&self) -> Option<Arc<dyn Disk>> {
        self.disk.read().clone()
    }

    pub(crate) fn online_disk(&self) -> Option<Arc<dyn Disk>> {
        if self.health().is_online() { self.disk() } else { None }
    }

    /// Opens or reopens the disk.
    pub(crate) fn open(&self) -> Result<(), StoreError> {
        let disk = (self.spec.open)(self.id)?;
        *self.disk.write() = Some(disk);
        Ok(())
    }

    /// The disk could not be opened: it is offline.
    pub(crate) fn note_absent(&self, error: &StoreError) {
        self.note(|health, now| health.failed(now, Fault::Absent), Some(error));
    }

    /// Runs an operation on the disk and takes note of how it went.
    pub(crate) fn run<T>(&self, operation: impl FnOnce(&dyn Disk) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let disk = self.online_disk().ok_or_else(|| self.offline())?;
        self.observed(self.limits.hung_after, || operation(&*disk), |error| error.fault())
    }

    /// As [`Self::run`], for operations that may sync a directory: with the patience that syncs need.
    pub(crate) fn run_syncing<T>(
        &self,
        operation: impl FnOnce(&dyn Disk) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let disk = self.online_disk().ok_or_else(|| self.offline())?;
        self.observed(self.limits.sync_hung_after, || operation(&*disk), |error| error.fault())
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
        let unsettled = self.online_disk().map_or(0, |disk| disk.unsettled_removals());
        if unsettled.saturating_add(keys.len()) > UNSETTLED_MAX
            && let Err(error) = self.settle_removals()
        {
            tracing::debug!(disk = %self.spec.path.display(), %error, "removals are not durable yet");
        }
        let removed = self.run_syncing(|disk| Ok(disk.remove_entries(keys)));
        let results = removed.unwrap_or_else(|_| keys.iter().map(|_| Err(self.offline())).collect());
        self.note_first_fault(&results);
        results
    }

    /// Makes removals durable. Each piece is an operation by itself: together the syncs of thousands of directories take minutes.
    pub(crate) fn settle_removals(&self) -> Result<(), StoreError> {
        let disk = self.online_disk().ok_or_else(|| self.offline())?;
        disk.settle_removals_in_pieces(&|piece| self.run_syncing(|_| piece()))
    }

    /// Makes files of the disk durable. Files that are synced one by one update the health themselves.
    pub(crate) fn sync_data_of(&self, files: &[&dyn DataFile]) -> Vec<io::Result<()>> {
        let synced = self.patiently(files.len(), |disk| disk.sync_data_of(files));
        synced.unwrap_or_else(|| files.iter().map(|_| Err(self.not_connected())).collect())
    }

    /// Writes records on the disk. A disk that fails has failed once, however many records that concerns.
    pub(crate) fn write_cinfos(&self, records: &[NewRecord<'_>]) -> Vec<Result<(), StoreError>> {
        let written = self.patiently(records.len(), |disk| disk.write_cinfos(records));
        let results = written.unwrap_or_else(|| records.iter().map(|_| Err(self.offline())).collect());
        self.note_first_fault(&results);
        results
    }

    fn note_first_fault(&self, results: &[Result<(), StoreError>]) {
        let mut failed = results.iter().filter_map(|result| result.as_ref().err());
        if let Some((fault, error)) = failed.find_map(|error| Some((error.fault()?, error))) {
            self.note(|health, now| health.failed(now, fault), Some(error));
        }
    }

    pub(crate) fn offline(&self) -> StoreError {
        StoreError::Offline { path: self.spec.path.clone() }
    }

    fn not_connected(&self) -> io::Error {
        io::Error::new(io::ErrorKind::NotConnected, self.offline())
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
        self.info_with(self.measure())
    }

    /// As [`Self::info`], with room that is known.
    pub(crate) fn info_with(&self, space: Option<Space>) -> VolumeInfo {
        let health = self.health();
        let is_elsewhere = self.is_elsewhere((self.clock)());
        let watch = self.watch.lock();
        VolumeInfo {
            id: self.id,
            path: self.spec.path.clone(),
            weight: self.spec.weight,
            space,
            health,
            is_elsewhere,
            errors: watch.errors,
            latency: watch.health.latency(),
        }
    }

    /// Looks for operations that hang; `true` when the disk is to be probed now.
    pub(crate) fn begin_probe(&self) -> bool {
        let now = (self.clock)();
        // A thread in a hanging system call cannot report: the probe timer looks at its deadline instead.
        let hangs = {
            let mut watch = self.watch.lock();
            // Each counts once: one that never ends says nothing of a disk that was probed well since.
            let is_due = |(number, due): (&u64, &Instant)| (*due <= now).then_some(*number);
            let hung: Vec<u64> = watch.under_way.iter().filter_map(is_due).collect();
            watch.under_way.retain(|_, due| *due > now);
            watch.hangs += hung.len() as u64;
            watch.hung.extend(&hung);
            !hung.is_empty()
        };
        if hangs {
            self.note(|health, now| health.failed(now, Fault::Hung), None);
        }
        self.watch.lock().health.begin_probe(now)
    }

    /// How many operations were counted as hung since the start.
    pub(crate) fn hangs(&self) -> u64 {
        self.watch.lock().hangs
    }

    /// Tries the disk, and opens it first if need be.
    pub(crate) fn probe(&self) -> Result<(), StoreError> {
        let probed = match self.disk().map(|disk| disk.probe(self.id)) {
            // Another file system is mounted at the path by now, perhaps the disk's replacement: it is opened as a new one.
            None | Some(Err(StoreError::Replaced { .. })) => self.open().inspect(|()| self.forget_operations()),
            Some(probed) => probed,
        };
        let judged = match &probed {
            Ok(()) if self.watch.lock().hung.len() > HUNG_MAX => Err(Fault::Hung),
            probed => probed.as_ref().map(|&()| ()).map_err(|error| error.fault().unwrap_or(Fault::Broken)),
        };
        let error = probed.as_ref().err().map(|error| error as &dyn std::error::Error);
        self.note(|health, now| health.probe_ended(now, judged), error);
        probed
    }

    /// Forgets operations that have not ended: they are on the disk that was here before.
    fn forget_operations(&self) {
        let mut watch = self.watch.lock();
        // One that ends later finds nothing to remove.
        watch.under_way.clear();
        watch.hung.clear();
    }

    /// An operation on an offline disk might not end.
    fn check_online(&self) -> io::Result<()> {
        if self.health().is_online() { Ok(()) } else { Err(self.not_connected()) }
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
        let mut watch = self.volume.watch.lock();
        if watch.under_way.remove(&self.number).is_none() {
            watch.hung.remove(&self.number);
        }
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume").field("id", &self.id).field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// Returns the time, which never runs backwards.
pub type Clock = fn() -> Instant;

/// Opens a disk, at the start and whenever it may have come back.
pub type Opener = Box<dyn Fn(VolumeId) -> Result<Arc<dyn Disk>, StoreError> + Send + Sync>;

/// One disk of a [`DiskSet`](crate::DiskSet).
pub struct VolumeSpec {
    pub path: PathBuf,
    /// Its share of new files, relative to the other disks', for the same room.
    pub weight: u32,
    pub open: Opener,
}

impl VolumeSpec {
    /// A directory of a local file system, created if need be.
    pub fn local(path: PathBuf, weight: u32, permissions: Permissions) -> Self {
        let root = path.clone();
        let open: Opener = Box::new(move |id| Ok(Arc::new(LocalDisk::open_volume(&root, id, permissions)?)));
        Self { path, weight, open }
    }

    /// A directory of a local file system that must exist, and be a mount point if `is_mounted`: nothing is to be written where
    /// the disk should be and is not.
    pub fn existing(path: PathBuf, weight: u32, is_mounted: bool, permissions: Permissions) -> Self {
        let root = path.clone();
        let open: Opener = Box::new(move |id| {
            if !root.is_dir() {
                return Err(StoreError::NotADirectory { path: root.clone() });
            }
            if is_mounted && !is_mount_point(&root) {
                return Err(StoreError::NotMounted { path: root.clone() });
            }
            Ok(Arc::new(LocalDisk::open_volume(&root, id, permissions)?))
        });
        Self { path, weight, open }
    }
}

impl fmt::Debug for VolumeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VolumeSpec").field("path", &self.path).field("weight", &self.weight).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
