//! The simulated disk: the real store in a temporary directory, with faults, and a memory of what a crash would lose.

use crate::{crash::Unsynced, dice::Dice, world::World};
use bytes::Bytes;
use forebay_cache::{CacheKey, Cinfo};
use forebay_store::{
    DataFile, Disk, Entry, FileIdentity, LocalDisk, NewRecord, OriginMark, Scan, Space, StoreError, VolumeId,
    VolumeInfo,
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

#[derive(Debug)]
pub(crate) struct SimDisk {
    disk: LocalDisk,
    shared: Arc<Shared>,
}

/// An empty disk, and more than any scenario writes: how full the machine's own is must decide nothing.
const ROOM: Space = Space { total_bytes: 1 << 40, free_bytes: 1 << 40, total_inodes: 1 << 30, free_inodes: 1 << 30 };

/// State shared by a disk and its files.
pub(crate) struct Shared {
    world: World,
    dice: Mutex<Dice>,
    unsynced: Mutex<Unsynced>,
}

#[derive(Debug)]
struct SimData {
    data: Arc<dyn DataFile>,
    shared: Arc<Shared>,
}

impl SimDisk {
    pub(crate) fn open(root: &Path, world: World, dice: Dice) -> Result<Self, StoreError> {
        let shared = Shared { world, dice: Mutex::new(dice), unsynced: Mutex::new(Unsynced::new(root)) };
        let shared = Arc::new(shared);
        let syncing = Arc::clone(&shared);
        // There are few files: each sync is one of all.
        let disk = LocalDisk::open(root)?.with_sync_call(1, Box::new(move || syncing.sync_all()));
        Ok(Self { disk, shared })
    }

    /// The changes that a crash would lose.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    fn simulated(&self, entry: Entry) -> Entry {
        let data = Arc::new(SimData { data: entry.data, shared: Arc::clone(&self.shared) });
        Entry { data, ..entry }
    }

    fn fail_at_times(&self, operation: &'static str, key: &CacheKey) -> Result<(), StoreError> {
        let failed = |source| StoreError::Io { operation, path: self.local_path(key), source };
        self.shared.fail_at_times().map_err(failed)
    }

    /// Writes a record. At times it is in its place by then, and could not be made durable.
    fn write_new(&self, record: &NewRecord<'_>) -> Result<(), StoreError> {
        const OPERATION: &str = "writing the record of";
        self.fail_at_times(OPERATION, record.key)?;
        if self.shared.is_full() {
            let source = io::ErrorKind::StorageFull.into();
            return Err(StoreError::Io { operation: OPERATION, path: self.local_path(record.key), source });
        }
        let path = self.local_path(record.key);
        let image = record.is_first.then(|| Unsynced::image_of_record(&path)).flatten();
        self.disk.write_cinfos(std::slice::from_ref(record)).into_iter().collect::<Result<(), _>>()?;
        let synced = if record.is_first { self.fail_at_times(OPERATION, record.key) } else { Ok(()) };
        match (&synced, image) {
            (Err(_), Some(image)) => self.shared.unsynced().note_record_not_synced(&path, image),
            _ => self.shared.unsynced().note_recorded(record.key, &path),
        }
        synced
    }
}

impl Shared {
    pub(crate) fn unsynced(&self) -> MutexGuard<'_, Unsynced> {
        self.unsynced.lock()
    }

    /// Syncs everything. If that fails, some of the written pages of any file are lost, and reported once.
    fn sync_all(&self) -> io::Result<()> {
        let synced = self.fail_at_times();
        let mut dice = self.dice.lock();
        self.unsynced().note_all_synced(|| synced.is_err() && dice.one_in(2));
        synced
    }

    fn fail_at_times(&self) -> io::Result<()> {
        let one_in = self.world.state().disk_fails_one_in;
        let fails = one_in > 0 && self.dice.lock().one_in(one_in);
        if fails { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(()) }
    }

    fn is_full(&self) -> bool {
        self.world.state().disk_full
    }
}

/// Number of the error that a broken disk gives.
const EIO: i32 = 5;

impl Disk for SimDisk {
    fn open_entry(&self, key: &CacheKey) -> Result<Option<Entry>, StoreError> {
        self.fail_at_times("opening", key)?;
        Ok(self.disk.open_entry(key)?.map(|entry| self.simulated(entry)))
    }

    fn create_entry(&self, key: &CacheKey, cinfo: Cinfo, origin: Option<OriginMark>) -> Result<Entry, StoreError> {
        self.fail_at_times("creating", key)?;
        if self.shared.is_full() {
            let source = io::ErrorKind::StorageFull.into();
            return Err(StoreError::Io { operation: "creating", path: self.local_path(key), source });
        }
        let entry = self.simulated(self.disk.create_entry(key, cinfo, origin)?);
        self.shared.unsynced().note_created(key, &self.local_path(key));
        Ok(entry)
    }

    fn volume_for_new(&self) -> Option<VolumeId> {
        self.disk.volume_for_new()
    }

    fn write_cinfo(
        &self,
        key: &CacheKey,
        data: &dyn DataFile,
        cinfo: &Cinfo,
        origin: Option<&OriginMark>,
    ) -> Result<(), StoreError> {
        self.fail_at_times("writing the record of", key)?;
        if self.shared.is_full() {
            let source = io::ErrorKind::StorageFull.into();
            return Err(StoreError::Io { operation: "writing the record of", path: self.local_path(key), source });
        }
        self.disk.write_cinfo(key, data, cinfo, origin)?;
        self.shared.unsynced().note_recorded(key, &self.local_path(key));
        Ok(())
    }

    fn sync_data_of(&self, files: &[&dyn DataFile]) -> Vec<io::Result<()>> {
        self.disk.sync_data_of(files)
    }

    fn write_cinfos(&self, records: &[NewRecord<'_>]) -> Vec<Result<(), StoreError>> {
        records.iter().map(|record| self.write_new(record)).collect()
    }

    fn remove_entry(&self, key: &CacheKey) -> Result<(), StoreError> {
        self.fail_at_times("removing", key)?;
        self.shared.unsynced().note_removal(key, &self.local_path(key));
        self.disk.remove_entry(key)
    }

    fn close_to_others(&self, key: &CacheKey, since: i64) -> Result<bool, StoreError> {
        self.disk.close_to_others(key, since)
    }

    fn touch(&self, key: &CacheKey, now: i64) -> Result<(), StoreError> {
        self.disk.touch(key, now)
    }

    fn space(&self) -> Result<Space, StoreError> {
        Ok(ROOM)
    }

    fn local_path(&self, key: &CacheKey) -> PathBuf {
        self.disk.local_path(key)
    }

    fn volumes(&self) -> Vec<VolumeInfo> {
        let simulated = |volume: VolumeInfo| VolumeInfo { space: volume.space.map(|_| ROOM), ..volume };
        self.disk.volumes().into_iter().map(simulated).collect()
    }

    fn scan(&self, volume: VolumeId, changed_since: Option<i64>) -> Result<Box<dyn Scan>, StoreError> {
        self.disk.scan(volume, changed_since)
    }

    fn probe(&self, volume: VolumeId) -> Result<(), StoreError> {
        self.disk.probe(volume)
    }
}

impl DataFile for SimData {
    fn file(&self) -> &Arc<File> {
        self.data.file()
    }

    fn identity(&self) -> FileIdentity {
        self.data.identity()
    }

    fn volume(&self) -> VolumeId {
        self.data.volume()
    }

    fn write_vectored_at(&self, offset: u64, chunks: &[Bytes]) -> io::Result<()> {
        let len: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        self.shared.unsynced().note_write(&self.data, offset, len)?;
        if self.shared.is_full() || self.shared.fail_at_times().is_err() {
            // A failed write leaves the first chunks.
            let written = chunks.get(..chunks.len() / 2).unwrap_or_default();
            self.data.write_vectored_at(offset, written)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.data.write_vectored_at(offset, chunks)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.shared.fail_at_times()?;
        self.data.read_exact_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        // After a failed sync the written pages may be lost, and a later success does not report them. An earlier loss is
        // reported once.
        let was_lost = self.shared.unsynced().take_loss(self.data.identity());
        let lost = if was_lost { Err(io::Error::from_raw_os_error(EIO)) } else { self.shared.fail_at_times() };
        if let Err(error) = lost {
            self.shared.unsynced().note_sync_failed(self.data.identity());
            return Err(error);
        }
        self.data.sync_data()?;
        self.shared.unsynced().note_synced(self.data.identity());
        Ok(())
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
