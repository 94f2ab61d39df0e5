//! A disk that fails as it is told, around a real one.

use bytes::Bytes;
use forebay_cache::{CacheKey, Cinfo};
use forebay_store::{
    DataFile, Disk, Entry, FileIdentity, LocalDisk, OriginMark, Space, StoreError, VolumeId, VolumeInfo,
};
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

/// Faults of a [`FaultyDisk`], to be switched while it is in use.
#[derive(Debug, Default)]
pub struct DiskFaults {
    /// Writes of data fail: no space is left.
    pub full: AtomicBool,
    /// Data cannot be synced.
    pub sync_fails: AtomicBool,
    /// Syncs of data do not end as long as this is set.
    pub sync_hangs: AtomicBool,
    /// Records cannot be written: no space is left.
    pub cinfo_fails: AtomicBool,
    /// Entries cannot be created.
    pub create_fails: AtomicBool,
    /// Syncs of data that were begun.
    pub syncs: AtomicU64,
    /// Writes of data that were tried.
    pub writes: AtomicU64,
}

/// A real disk with faults.
#[derive(Debug)]
pub struct FaultyDisk {
    disk: LocalDisk,
    faults: Arc<DiskFaults>,
}

#[derive(Debug)]
struct FaultyFile {
    data: Arc<dyn DataFile>,
    faults: Arc<DiskFaults>,
}

impl FaultyDisk {
    /// A disk at `root` without faults at first.
    ///
    /// # Errors
    /// When the real disk cannot be opened.
    pub fn open(root: &Path) -> Result<(Arc<Self>, Arc<DiskFaults>), StoreError> {
        let faults = Arc::new(DiskFaults::default());
        Ok((Arc::new(Self { disk: LocalDisk::open(root)?, faults: Arc::clone(&faults) }), faults))
    }

    fn fail_if(&self, fails: &AtomicBool, operation: &'static str, key: &CacheKey) -> Result<(), StoreError> {
        if !fails.load(SeqCst) {
            return Ok(());
        }
        Err(StoreError::Io { operation, path: self.local_path(key), source: io::ErrorKind::StorageFull.into() })
    }

    fn faulty(&self, entry: Entry) -> Entry {
        let data = Arc::new(FaultyFile { data: entry.data, faults: Arc::clone(&self.faults) });
        Entry { data, ..entry }
    }
}

impl Disk for FaultyDisk {
    fn open_entry(&self, key: &CacheKey) -> Result<Option<Entry>, StoreError> {
        Ok(self.disk.open_entry(key)?.map(|entry| self.faulty(entry)))
    }

    fn create_entry(&self, key: &CacheKey, cinfo: Cinfo, origin: Option<OriginMark>) -> Result<Entry, StoreError> {
        self.fail_if(&self.faults.create_fails, "creating", key)?;
        Ok(self.faulty(self.disk.create_entry(key, cinfo, origin)?))
    }

    fn write_cinfo(
        &self,
        key: &CacheKey,
        data: &dyn DataFile,
        cinfo: &Cinfo,
        origin: Option<&OriginMark>,
    ) -> Result<(), StoreError> {
        self.fail_if(&self.faults.cinfo_fails, "writing", key)?;
        self.disk.write_cinfo(key, data, cinfo, origin)
    }

    fn remove_entry(&self, key: &CacheKey) -> Result<(), StoreError> {
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

    fn probe(&self, volume: VolumeId) -> Result<(), StoreError> {
        self.disk.probe(volume)
    }
}

impl DataFile for FaultyFile {
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
        self.faults.writes.fetch_add(1, SeqCst);
        if self.faults.full.load(SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.data.write_vectored_at(offset, chunks)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.data.read_exact_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.syncs.fetch_add(1, SeqCst);
        while self.faults.sync_hangs.load(SeqCst) {
            std::thread::yield_now();
        }
        if self.faults.sync_fails.load(SeqCst) {
            return Err(io::Error::other("told to fail"));
        }
        self.data.sync_data()
    }
}
