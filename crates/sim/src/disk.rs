//! The simulated disk: the real store in a temporary directory, with faults, and a memory of what a crash would lose.

use crate::{crash::Unsynced, dice::Dice, world::World};
use bytes::Bytes;
use forebay_cache::{CacheKey, Cinfo};
use forebay_store::{
    DataFile, Disk, Entry, FileIdentity, LocalDisk, OriginMark, Scan, Space, StoreError, VolumeId, VolumeInfo,
};
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The simulated disk.
#[derive(Debug)]
pub(crate) struct SimDisk {
    disk: LocalDisk,
    shared: Arc<Shared>,
}

/// What a disk and its files share.
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
        Ok(Self { disk: LocalDisk::open(root)?, shared: Arc::new(shared) })
    }

    /// What a crash would lose.
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
}

impl Shared {
    pub(crate) fn unsynced(&self) -> MutexGuard<'_, Unsynced> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail_at_times(&self) -> io::Result<()> {
        let one_in = self.world.state().disk_fails_one_in;
        let fails = one_in > 0 && self.dice.lock().unwrap_or_else(PoisonError::into_inner).one_in(one_in);
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
        self.shared.unsynced().note_created(key);
        Ok(entry)
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
        self.shared.unsynced().note_recorded(key);
        Ok(())
    }

    fn remove_entry(&self, key: &CacheKey) -> Result<(), StoreError> {
        self.fail_at_times("removing", key)?;
        self.shared.unsynced().note_removal(key, &self.local_path(key));
        self.disk.remove_entry(key)
    }

    fn touch(&self, key: &CacheKey, now: i64) -> Result<(), StoreError> {
        self.disk.touch(key, now)
    }

    fn space(&self) -> Result<Space, StoreError> {
        self.disk.space()
    }

    fn local_path(&self, key: &CacheKey) -> PathBuf {
        self.disk.local_path(key)
    }

    fn volumes(&self) -> Vec<VolumeInfo> {
        self.disk.volumes()
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
            // What a failed write leaves: the first chunks.
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
        // After a failed sync nothing is known of what was written: it may be lost, and a later success does not tell.
        if let Err(error) = self.shared.fail_at_times() {
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
