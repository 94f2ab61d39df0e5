//! The parts of the engine that open files use.

use crate::{
    Checksum,
    accounting::purge_ledger::PurgeLedger,
    base::{
        disk_places::DiskPlaces,
        disk_reads::DiskReads,
        error::with_cause,
        latch::Latch,
        options::Options,
        pause::Pauses,
        shards::{SHARDS, Shards},
    },
    catalog::{
        Catalog, IndexObserver,
        entry_info::{disk_facts, learnt},
    },
    entries::{
        claims::{CHECKS_MAX, CHECKS_PER_DISK_MAX},
        closed_files::{ClosedFile, ClosedFiles},
        file_structure::Structures,
    },
    link::{admission::Admission, memory_budget::MemoryBudget},
};
use forebay_cache::{CacheKey, Cinfo, DataFileId, Fault, VerifiedBlocks};
use forebay_index::{Change, DiskFacts, Generation};
use forebay_net::NowaitReads;
use forebay_store::{DataFile, Disk, Entry, OriginMark, StoreError, VolumeId, VolumeInfo};
use forebay_telemetry::{DiskOperation, Metrics, NotKept};
use forebay_types::Outcome;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    fs::File,
    io,
    sync::{Arc, OnceLock},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinHandle,
};

/// Writes of one disk at the same time, and of all: each holds a thread, of which the runtime has 512.
const WRITES_PER_DISK_MAX: usize = 64;
const WRITES_MAX: usize = 256;

/// The parts of the engine that open files use, shared by all of them.
pub(crate) struct FileContext {
    pub(crate) options: Options,
    pub(crate) budget: MemoryBudget,
    pub(crate) admission: Arc<Admission>,
    pub(crate) disk_reads: Arc<DiskReads>,
    /// `None` when nothing is cached: only directories are exported.
    pub(crate) disk: Option<Arc<dyn Disk>>,
    /// The index and its notes; `None` without a disk.
    pub(crate) catalog: Option<Arc<Catalog>>,
    /// The space that entries take, and their order of removal.
    pub(crate) purge_ledger: Arc<PurgeLedger>,
    pub(crate) metrics: Metrics,
    pub(crate) pauses: Pauses,
    /// Of each disk, once a file of it was read.
    nowait_reads: BTreeMap<VolumeId, OnceLock<NowaitReads>>,
    /// State of the disks at the last measurement.
    pub(crate) volumes: Mutex<Vec<VolumeInfo>>,
    /// A permit for each fill under way, also of files that are not in the table any more.
    pub(crate) fills_running: Arc<Semaphore>,
    /// Set when a shutdown waits no longer for fills.
    pub(crate) fills_stopped: Latch,
    /// Checks of blocks on disk that may begin.
    check_places: DiskPlaces,
    write_places: DiskPlaces,
    /// Which blocks of files that are not open are known to be intact.
    pub(crate) trust: Shards<Mutex<VerifiedBlocks>>,
    /// Records of files that were closed.
    pub(crate) closed: Arc<ClosedFiles>,
    /// What the structures of ROOT files may take.
    pub(crate) structures: Structures,
    /// Files that have become complete, to get their checksums.
    pub(crate) completed: mpsc::Sender<CompletedFile>,
}

pub(crate) struct CompletedFile {
    pub(crate) key: CacheKey,
    /// Which copy of it: another one may have taken its place before its origin is asked.
    pub(crate) generation: Generation,
    /// Its checksums, if they were made while it was written.
    pub(crate) checksums: Option<Vec<Checksum>>,
}

/// Complete files that wait for their checksums, at most. The others get them with the next scrub, or when a client requests one.
pub(crate) const COMPLETED_MAX: usize = 4096;

/// More fills than the memory budget admits.
const FILLS_MAX: u32 = u32::MAX / 2;

/// Bytes in which it is remembered what was checked of files that are not open: about 400 000 files.
const VERIFIED_BLOCKS_BYTES: usize = 32 << 20;

/// A part of that memory.
fn no_trust() -> VerifiedBlocks {
    VerifiedBlocks::new(VERIFIED_BLOCKS_BYTES / SHARDS)
}

/// Memory for the records of closed files, besides the budget: about 1,400 files for each MiB of it.
fn closed_bytes_max(budget_bytes: u64) -> usize {
    usize::try_from(budget_bytes / 4).unwrap_or(usize::MAX).min(CLOSED_BYTES_MAX)
}

/// However large the budget is: the records of some million files.
const CLOSED_BYTES_MAX: usize = 1 << 30;

impl FileContext {
    pub(crate) fn new(
        options: Options,
        disk: Option<Arc<dyn Disk>>,
        metrics: Metrics,
        completed: mpsc::Sender<CompletedFile>,
    ) -> Self {
        let budget = MemoryBudget::new(options.budget_bytes);
        let watched = budget.clone();
        metrics.watch_budget(options.budget_bytes, move || watched.used_bytes());
        let volumes = disk.as_ref().map_or_else(Vec::new, |disk| disk.volumes());
        let ids = volumes.iter().map(|volume| volume.id);
        let purge_ledger = Arc::new(PurgeLedger::new(options.purge.clone(), ids));
        let catalog = disk.as_ref().map(|disk| {
            Catalog::new(
                Arc::clone(&options.index),
                Arc::clone(disk),
                options.workers.clone(),
                (metrics.clone(), options.events.clone()),
                Arc::clone(&purge_ledger) as Arc<dyn IndexObserver>,
            )
        });
        let ids: Vec<VolumeId> = volumes.iter().map(|volume| volume.id).collect();
        let structures = Structures::new(options.budget_bytes);
        metrics.watch_structure_tables(structures.used_bytes());
        let admission = Arc::new(Admission::new(&options.read_ahead, options.budget_bytes, metrics.clone()));
        Self {
            budget,
            admission,
            disk_reads: Arc::new(DiskReads::new(options.reads_by_ring)),
            disk,
            catalog,
            purge_ledger,
            metrics,
            pauses: Pauses::new(options.disk_pause, volumes.iter().map(|volume| volume.id)),
            nowait_reads: volumes.iter().map(|volume| (volume.id, OnceLock::new())).collect(),
            check_places: DiskPlaces::new(&ids, CHECKS_MAX, CHECKS_PER_DISK_MAX),
            write_places: DiskPlaces::new(&ids, WRITES_MAX, WRITES_PER_DISK_MAX),
            volumes: Mutex::new(volumes),
            fills_stopped: Latch::default(),
            fills_running: Arc::new(Semaphore::new(FILLS_MAX as usize)),
            trust: Shards::new(SHARDS, || Mutex::new(no_trust())),
            closed: Arc::new(ClosedFiles::new(closed_bytes_max(options.budget_bytes))),
            structures,
            completed,
            options,
        }
    }

    /// Has an entry accounted that was created just now.
    pub(crate) fn note_created(&self, key: &CacheKey, entry: &Entry) {
        self.purge_ledger.note_created(key, entry.volume());
        if let Some(catalog) = &self.catalog {
            // Facts about earlier files of this name do not apply, even if the new file got the same inode.
            catalog.note(key, Change::outdated());
        }
        self.note_entry(key, entry.data.as_ref(), &entry.cinfo, entry.origin.as_ref(), entry.cinfo.created);
    }

    /// Whether reads of `file`, which is on a disk of the cache, can be limited to the page cache. Asks the file system once.
    pub(crate) fn nowait_reads(&self, volume: VolumeId, file: &File) -> NowaitReads {
        let known = self.nowait_reads.get(&volume);
        known.map_or_else(NowaitReads::default, |known| *known.get_or_init(|| NowaitReads::of(file)))
    }

    /// Waits for a place for a check of blocks on a disk.
    pub(crate) async fn check_place(&self, volume: Option<VolumeId>) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.check_places.of(volume?)?.acquire_owned().await.ok()
    }

    /// Forgets the work that hangs on a disk since before it came back.
    pub(crate) fn renew_places(&self, volume: VolumeId) {
        self.check_places.renew(volume);
        self.write_places.renew(volume);
    }

    /// Starts a write on a disk, now or when one of those before it has ended.
    pub(crate) fn start_write<T: Send + 'static>(
        &self,
        volume: Option<VolumeId>,
        write: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> JoinHandle<io::Result<T>> {
        let workers = self.options.workers.clone();
        let Some(places) = volume.and_then(|volume| self.write_places.of(volume)) else {
            return workers.start(write);
        };
        // Held by the thread: the fill may have given up.
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            return workers.start(move || {
                let _place = place;
                write()
            });
        }
        tokio::spawn(async move {
            let place = places.acquire_owned().await;
            let written = workers.run(move || {
                let _place = place;
                write()
            });
            written.await.map_err(io::Error::other).flatten()
        })
    }

    /// Bytes that clients got since the start and no origin had to send for them.
    pub(crate) fn saved_bytes(&self) -> u64 {
        self.metrics.client_bytes(Outcome::Hit) + self.metrics.client_bytes(Outcome::Coalesced)
    }

    pub(crate) async fn fills_ended(&self) {
        // It is never closed: the permits of all fills come back.
        let _ = self.fills_running.acquire_many(FILLS_MAX).await;
    }

    /// Forgets which blocks of closed files are intact: a disk has come back, perhaps with other contents.
    pub(crate) fn forget_trust(&self) {
        self.trust.iter().for_each(|trust| *trust.lock() = no_trust());
    }

    /// Has all blocks of a file checked when it is opened again.
    pub(crate) fn forget_trust_of(&self, file: DataFileId) {
        self.trust.of(&file).lock().forget(file);
    }

    /// Notes uses of closed files for the index that it may not have, `limit` of them at most; true when these were all.
    pub(crate) fn note_uses(&self, limit: usize) -> bool {
        self.closed.note_some(limit, |key, file| self.note_closed(key, file))
    }

    /// As [`Self::note_uses`], of one file.
    pub(crate) fn note_uses_of(&self, key: &CacheKey) {
        self.closed.note_of(key, |key, file| self.note_closed(key, file));
    }

    /// Notes a file for the index that was closed.
    pub(crate) fn note_closed(&self, key: &CacheKey, file: &ClosedFile) {
        file.tell(|identity, cinfo, mark| {
            self.note_facts(key, disk_facts(file.volume, identity, cinfo, cinfo.last_access()), mark);
        });
        if let (Some(catalog), Some(owner)) = (&self.catalog, &file.owner) {
            catalog.note(key, Change::owned(owner.to_string()));
        }
    }

    /// Notes an entry for the index as it is on disk by now, last used at `last_use` (seconds of the Unix epoch).
    pub(crate) fn note_entry(
        &self,
        key: &CacheKey,
        data: &dyn DataFile,
        cinfo: &Cinfo,
        mark: Option<&OriginMark>,
        last_use: i64,
    ) {
        self.note_facts(key, disk_facts(data.volume(), data.identity(), cinfo, last_use), mark);
    }

    fn note_facts(&self, key: &CacheKey, disk: DiskFacts, mark: Option<&OriginMark>) {
        let Some(catalog) = &self.catalog else { return };
        // Before the entry is noted as seen: both are merged into one note.
        if let Some(mark) = mark {
            catalog.note_learnt(key, disk.generation, learnt(mark));
        }
        catalog.note_seen(key, disk);
    }

    /// Whether nothing is to be written to a disk for now: it failed a moment ago, or is known to take nothing.
    pub(crate) fn is_paused(&self, volume: VolumeId) -> bool {
        self.pauses.is_on(volume) || !self.disk.as_ref().is_some_and(|disk| disk.is_writable(volume))
    }

    /// Why blocks are not written to `volume`, or to any disk for none, while it is paused.
    pub(crate) fn reason_of_pause(&self, volume: Option<VolumeId>) -> NotKept {
        let waits_for_room = |disk: &Arc<dyn Disk>, volume| {
            disk.is_full(volume) || (disk.is_writable(volume) && self.pauses.is_for_room(volume))
        };
        let are_full = self.disk.as_ref().is_some_and(|disk| match volume {
            Some(volume) => waits_for_room(disk, volume),
            None => self.volumes.lock().iter().all(|info| waits_for_room(disk, info.id)),
        });
        if are_full { NotKept::DiskFull } else { NotKept::DiskError }
    }

    /// Why something is not kept that the store could not take at `volume`, or at any disk for none.
    pub(crate) fn reason_of_failure(&self, volume: Option<VolumeId>, error: &StoreError) -> NotKept {
        match error {
            StoreError::NoVolume => self.reason_of_pause(volume),
            error if error.is_out_of_space() => NotKept::DiskFull,
            _ => NotKept::DiskError,
        }
    }

    /// Notes a failure of the store at `volume`, or at whichever disk was tried; when the disk takes nothing, and not one entry
    /// or directory fails, stops writing there for a while.
    pub(crate) fn note_store_failure(&self, operation: DiskOperation, volume: Option<VolumeId>, error: &StoreError) {
        // A directory may be damaged, and only its entries with it: the disk is judged by a probe.
        if error.concerns_one_entry() || error.fault() == Some(Fault::Broken) {
            self.metrics.add_disk_error(operation);
            // Logged once a minute: a damaged directory fails all its entries.
            if self.pauses.is_entry_failure_due(volume) {
                tracing::warn!(operation = operation.as_str(), reason = with_cause(error), "entries cannot be used");
            }
        } else if self.reason_of_failure(volume, error) == NotKept::DiskFull {
            self.note_disk_full(operation, volume, error);
        } else {
            self.note_disk_failure(operation, volume, error);
        }
    }

    /// Notes that a disk is full, or has failed; returns which. A quota may be noticed at a sync.
    pub(crate) fn note_io_failure(
        &self,
        operation: DiskOperation,
        volume: Option<VolumeId>,
        error: &io::Error,
    ) -> NotKept {
        if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            self.note_disk_full(operation, volume, error);
            NotKept::DiskFull
        } else {
            self.note_disk_failure(operation, volume, error);
            NotKept::DiskError
        }
    }

    /// Counts `blocks` that were not kept because their entry could not be created.
    pub(crate) fn note_not_created(&self, volume: Option<VolumeId>, error: &StoreError, blocks: u64) {
        self.metrics.add_not_kept(self.reason_of_failure(volume, error), blocks);
        self.note_store_failure(DiskOperation::Open, volume, error);
    }

    /// Notes that a disk is full, has room made, and stops writing there until there is some.
    pub(crate) fn note_disk_full(
        &self,
        operation: DiskOperation,
        volume: Option<VolumeId>,
        error: &dyn std::error::Error,
    ) {
        // Logged once a minute: a full disk fails thousands of writes.
        if self.pauses.start_for_room(volume) {
            tracing::warn!(
                operation = operation.as_str(),
                disk = name_of(volume),
                reason = with_cause(error),
                "the cache disk is full: reading without keeping until entries are removed"
            );
        }
        // After the pause has begun: a purge that ends at once ends it too.
        self.purge_ledger.note_disk_full(volume);
    }

    /// Counts a failure of a disk and stops writing there for a while; of all disks, when it is not known which one failed.
    pub(crate) fn note_disk_failure(
        &self,
        operation: DiskOperation,
        volume: Option<VolumeId>,
        error: &dyn std::error::Error,
    ) {
        self.metrics.add_disk_error(operation);
        // Logged at the begin of a pause only: a dead disk fails thousands of writes.
        if self.pauses.start(volume) {
            tracing::error!(
                operation = operation.as_str(),
                disk = name_of(volume),
                reason = with_cause(error),
                seconds = self.options.disk_pause.as_secs(),
                "cache disk failed: reading without keeping"
            );
        }
    }
}

fn name_of(volume: Option<VolumeId>) -> String {
    volume.map_or_else(|| "each".to_owned(), |volume| volume.to_string())
}
