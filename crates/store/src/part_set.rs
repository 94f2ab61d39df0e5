//! The parts of a store that this process holds, as one disk.

mod turn;

pub use turn::PartChange;

use crate::{
    DataFile, Disk, Entry, FileState, FillerRecord, Holder, MayWait, NewRecord, Observer, OriginMark, Part,
    Permissions, Registry, Scan, Space, StoreError, VolumeId, VolumeInfo,
    disk_set::{
        Clock,
        volume::Volume,
        watched_file::{WatchedFile, WatchedScan},
    },
    parts::{PartLease, Tenure, directory_of, part_of},
    prepare::prepare_root,
};
use forebay_cache::{CacheKey, Cinfo, Health, HealthLimits};
use forebay_types::Endpoint;
use parking_lot::{Mutex, RwLock};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Set-up of the parts of a store.
#[derive(Clone, Copy, Debug)]
pub struct PartOptions {
    pub count: u16,
    /// Time after which another filler may take the parts of one whose record does not change.
    pub lease: Duration,
    pub permissions: Permissions,
}

/// The parts of a store on a shared file system, of which this process holds some. Entries of other parts are not here.
///
/// Which parts it holds is decided by [`Self::turn`], which is called again and again.
#[derive(Debug)]
pub struct PartSet {
    root: PathBuf,
    options: PartOptions,
    clock: Clock,
    parts: Vec<OnePart>,
    tenure: Arc<Tenure>,
    /// Locked for the time of a turn.
    office: Mutex<Office>,
    /// The fillers of the parts that others hold.
    holders: RwLock<Vec<Option<Endpoint>>>,
}

#[derive(Debug)]
struct OnePart {
    lease: Arc<PartLease>,
    volume: Arc<Volume>,
}

/// The records of all fillers, as a turn needs them.
#[derive(Debug)]
struct Office {
    registry: Registry,
    observer: Observer,
    /// `None` before the first turn, and after the last one.
    record: Option<FillerRecord>,
}

impl PartSet {
    /// Prepares the store below `root`, which is created if need be. No part is held yet.
    ///
    /// # Errors
    /// When the disk fails, or the store has another number of parts.
    pub fn open(root: &Path, options: PartOptions, limits: HealthLimits, clock: Clock) -> Result<Self, StoreError> {
        prepare_root(root, options.permissions)?;
        let registry = Registry::create(root, options.count)?;
        let root = root.canonicalize().map_err(StoreError::io("resolving", root))?;
        let tenure = Arc::new(Tenure::new(options.lease));
        let part = |number: Part| {
            let lease = Arc::new(PartLease::new(Arc::clone(&tenure)));
            let place = (VolumeId(number), directory_of(&root, number));
            let volume = Volume::of_part(place, &lease, options.permissions, (limits, clock));
            OnePart { lease, volume: Arc::new(volume) }
        };
        let observer = Observer::new(options.lease);
        Ok(Self {
            parts: (0..options.count).map(part).collect(),
            office: Mutex::new(Office { registry, observer, record: None }),
            holders: RwLock::new(vec![None; usize::from(options.count)]),
            root,
            options,
            clock,
            tenure,
        })
    }

    /// The directory that is divided into parts.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Time between two turns.
    pub fn interval(&self) -> Duration {
        (self.options.lease / TURNS_PER_LEASE).min(INTERVAL_MAX)
    }

    fn volume_of(&self, key: &CacheKey) -> Result<&Arc<Volume>, StoreError> {
        self.volume(VolumeId(part_of(key, self.options.count)))
    }

    fn volume(&self, id: VolumeId) -> Result<&Arc<Volume>, StoreError> {
        self.parts.get(usize::from(id.0)).map(|part| &part.volume).ok_or(StoreError::NoVolume)
    }

    /// The volume of `key`, if this process holds it.
    fn held(&self, key: &CacheKey) -> Option<&Arc<Volume>> {
        self.volume_of(key).ok().filter(|volume| volume.health().is_online())
    }

    fn online(&self) -> impl Iterator<Item = &Arc<Volume>> {
        self.parts.iter().map(|part| &part.volume).filter(|volume| volume.health().is_online())
    }

    /// The room of the file system, which all parts are on.
    fn measure(&self) -> Option<Space> {
        self.online().next()?.measure()
    }
}

/// Turns in the time of a lease: several may fail before it ends.
const TURNS_PER_LEASE: u32 = 10;

/// However long the lease is, managers are to learn soon of a filler that comes.
const INTERVAL_MAX: Duration = Duration::from_secs(2);

impl Disk for PartSet {
    fn open_entry(&self, key: &CacheKey) -> Result<Option<Entry>, StoreError> {
        let Some(volume) = self.held(key) else { return Ok(None) };
        Ok(volume.run(|disk| disk.open_entry(key))?.map(|entry| watched(volume, entry)))
    }

    fn reopen(
        &self,
        key: &CacheKey,
        volume: VolumeId,
        state: &FileState,
        may_wait: MayWait,
    ) -> Option<Arc<dyn DataFile>> {
        let volume = self.volume(volume).ok()?;
        let data = match may_wait {
            MayWait::Yes => volume.run(|disk| Ok(disk.reopen(key, volume.id, state, may_wait))).ok()??,
            // A call that does not wait cannot hang: there is nothing to watch.
            MayWait::No => volume.online_disk()?.reopen(key, volume.id, state, may_wait)?,
        };
        Some(Arc::new(WatchedFile { volume: Arc::clone(volume), data }))
    }

    fn create_entry(&self, key: &CacheKey, cinfo: Cinfo, origin: Option<OriginMark>) -> Result<Entry, StoreError> {
        let volume = self.volume_of(key)?;
        Ok(watched(volume, volume.run_syncing(|disk| disk.create_entry(key, cinfo, origin))?))
    }

    fn create_entry_if_free(
        &self,
        key: &CacheKey,
        cinfo: Cinfo,
        origin: Option<OriginMark>,
    ) -> Result<Option<Entry>, StoreError> {
        let volume = self.volume_of(key)?;
        let entry = volume.run_syncing(|disk| disk.create_entry_if_free(key, cinfo, origin))?;
        Ok(entry.map(|entry| watched(volume, entry)))
    }

    fn sync_data_of(&self, files: &[&dyn DataFile]) -> Vec<io::Result<()>> {
        let of_one_part = |files: &[&dyn DataFile]| {
            let volume = files.first().and_then(|file| self.volume(file.volume()).ok());
            let missing = || files.iter().map(|_| Err(io::Error::other(StoreError::NoVolume))).collect();
            volume.map_or_else(missing, |volume| volume.sync_data_of(files))
        };
        files.chunk_by(|one, next| one.volume() == next.volume()).flat_map(of_one_part).collect()
    }

    fn gains_from_batch_sync(&self, data: &dyn DataFile) -> bool {
        let disk = self.volume(data.volume()).ok().and_then(|volume| volume.disk());
        disk.is_some_and(|disk| disk.gains_from_batch_sync(data))
    }

    fn write_cinfos(&self, records: &[NewRecord<'_>]) -> Vec<Result<(), StoreError>> {
        let of_one_part = |records: &[NewRecord<'_>]| {
            let volume = records.first().and_then(|record| self.volume(record.data.volume()).ok());
            let missing = || records.iter().map(|_| Err(StoreError::NoVolume)).collect();
            volume.map_or_else(missing, |volume| volume.write_cinfos(records))
        };
        records.chunk_by(|one, next| one.data.volume() == next.data.volume()).flat_map(of_one_part).collect()
    }

    fn remove_entry(&self, key: &CacheKey) -> Result<(), StoreError> {
        self.held(key).map_or(Ok(()), |volume| volume.run_syncing(|disk| disk.remove_entry(key)))
    }

    /// One by one within each part, so that the removals end with the lease.
    fn remove_entries(&self, keys: &[CacheKey]) -> Vec<Result<(), StoreError>> {
        let remove = |key: &CacheKey| {
            let Some(volume) = self.held(key) else { return Ok(()) };
            volume.remove_entries(std::slice::from_ref(key)).into_iter().collect()
        };
        keys.iter().map(remove).collect()
    }

    fn settle_removals(&self) -> Result<(), StoreError> {
        self.online().map(|volume| volume.settle_removals()).fold(Ok(()), Result::and)
    }

    fn close_to_others(&self, key: &CacheKey, since: i64) -> Result<bool, StoreError> {
        // The entry of another filler is not to be removed here.
        self.held(key).map_or(Ok(false), |volume| volume.run(|disk| disk.close_to_others(key, since)))
    }

    fn touch(&self, key: &CacheKey, now: i64) -> Result<(), StoreError> {
        self.held(key).map_or(Ok(()), |volume| volume.run(|disk| disk.touch(key, now)))
    }

    fn space(&self) -> Result<Space, StoreError> {
        self.measure().ok_or(StoreError::NoVolume)
    }

    fn local_path(&self, key: &CacheKey) -> PathBuf {
        let part = part_of(key, self.options.count);
        directory_of(&self.root, part).join(key.as_str().trim_start_matches('/'))
    }

    fn holder(&self, key: &CacheKey) -> Holder {
        let part = usize::from(part_of(key, self.options.count));
        let now = (self.clock)();
        if self.parts.get(part).is_some_and(|part| part.lease.holds(now)) {
            return Holder::This;
        }
        Holder::Other(self.holders.read().get(part).cloned().flatten())
    }

    /// All parts. The room of each that is held is its share of the file system.
    fn volumes(&self) -> Vec<VolumeInfo> {
        let share = self.measure().map(|space| share_of(space, u64::from(self.options.count)));
        let info = |part: &OnePart| {
            let room = if part.lease.holds((self.clock)()) { share } else { None };
            part.volume.info_with(room)
        };
        self.parts.iter().map(info).collect()
    }

    fn is_online(&self, volume: VolumeId) -> bool {
        self.volume(volume).is_ok_and(|volume| volume.health().is_online())
    }

    fn is_writable(&self, volume: VolumeId) -> bool {
        self.volume(volume).is_ok_and(|volume| volume.health().is_writable())
    }

    fn is_full(&self, volume: VolumeId) -> bool {
        self.volume(volume).is_ok_and(|volume| volume.health() == Health::Full)
    }

    fn note_read_failure(&self, volume: VolumeId, error: &io::Error) {
        if let Ok(volume) = self.volume(volume) {
            volume.note_failure(error);
        }
    }

    fn due_probes(&self) -> Vec<VolumeId> {
        let now = (self.clock)();
        let held = self.parts.iter().filter(|part| part.lease.holds(now));
        held.filter(|part| part.volume.begin_probe()).map(|part| part.volume.id).collect()
    }

    fn scan(&self, volume: VolumeId, changed_since: Option<i64>) -> Result<Box<dyn Scan>, StoreError> {
        let volume = self.volume(volume)?;
        let scan = volume.run(|disk| disk.scan(volume.id, changed_since))?;
        Ok(Box::new(WatchedScan { volume: Arc::clone(volume), scan }))
    }

    fn probe(&self, volume: VolumeId) -> Result<(), StoreError> {
        self.volume(volume)?.probe()
    }
}

fn watched(volume: &Arc<Volume>, entry: Entry) -> Entry {
    Entry { data: Arc::new(WatchedFile { volume: Arc::clone(volume), data: entry.data }), ..entry }
}

fn share_of(space: Space, count: u64) -> Space {
    Space {
        total_bytes: space.total_bytes / count,
        free_bytes: space.free_bytes / count,
        total_inodes: space.total_inodes / count,
        free_inodes: space.free_inodes / count,
    }
}
