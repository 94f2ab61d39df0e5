//! A real disk with faults.

use bytes::Bytes;
use forebay_cache::{CacheKey, Cinfo};
use forebay_store::{
    DataFile, Disk, Entry, FileIdentity, FileState, LocalDisk, MayWait, NewRecord, OriginMark, Scan, Space, StoreError,
    VolumeId, VolumeInfo,
};
use std::{
    fmt,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Decides which operations of a [`FaultyDisk`] fail, and sees those that do not.
pub trait Faults: fmt::Debug + Send + Sync + 'static {
    /// Whether [`Disk::remove_entries`] is one removal after the other, each of which may fail.
    const REMOVES_ONE_BY_ONE: bool;

    /// Called before each operation on the entry at `path`; an error is that of the operation.
    fn check(&self, operation: DiskOperation) -> io::Result<()>;

    /// The files of an entry were created, the data at `path`.
    fn note_created(&self, key: &CacheKey, path: &Path) {
        let _ = (key, path);
    }

    /// The entry whose data is at `path` is about to be removed.
    fn note_removal(&self, key: &CacheKey, path: &Path) {
        let _ = (key, path);
    }

    /// Writes records to `disk`, with faults of its own.
    fn write_records(&self, disk: &LocalDisk, records: &[NewRecord<'_>]) -> Vec<Result<(), StoreError>>;

    /// Writes to a data file, or fails after a part.
    fn write(&self, data: &Arc<dyn DataFile>, offset: u64, chunks: &[Bytes]) -> io::Result<()>;

    /// Syncs a data file, or fails.
    fn sync(&self, data: &Arc<dyn DataFile>) -> io::Result<()>;

    /// Stands in for a sync of the whole file system.
    fn sync_all(&self) -> io::Result<()>;

    /// Whether to report a gain as [`Disk::gains_from_batch_sync`] does.
    fn gains_from_batch_sync(&self) -> bool;

    /// Whether nothing can be read through [`DataFile::file`].
    fn is_unreadable(&self) -> bool {
        false
    }

    /// The room to report; `None` for that of the real disk.
    fn space(&self) -> Option<Space> {
        None
    }
}

/// An operation that may fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DiskOperation {
    Open,
    Create,
    WriteRecord,
    Remove,
    CloseToOthers,
    Touch,
    Measure,
    Probe,
    /// Of data, through [`DataFile::read_exact_at`].
    Read,
}

/// A real disk with faults.
#[derive(Debug)]
pub struct FaultyDisk<F> {
    disk: LocalDisk,
    faults: Arc<F>,
}

#[derive(Debug)]
struct FaultyFile<F> {
    data: Arc<dyn DataFile>,
    faults: Arc<F>,
    unreadable: Arc<File>,
}

impl DiskOperation {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "opening",
            Self::Create => "creating",
            Self::WriteRecord => "writing the record of",
            Self::Remove => "removing",
            Self::CloseToOthers => "closing to others",
            Self::Touch => "touching",
            Self::Measure => "measuring",
            Self::Probe => "probing",
            Self::Read => "reading",
        }
    }

    /// The error of this operation on the entry whose data is at `path`.
    pub fn error(self, path: PathBuf, source: io::Error) -> StoreError {
        StoreError::Io { operation: self.as_str(), path, source }
    }
}

impl<F: Faults> FaultyDisk<F> {
    /// The disk at `root`, which is synced as a whole for `batch_min` files or more.
    pub fn with_faults(root: &Path, faults: Arc<F>, batch_min: usize) -> Result<Self, StoreError> {
        let syncing = Arc::clone(&faults);
        let disk = LocalDisk::open(root)?.with_sync_call(batch_min, Box::new(move || syncing.sync_all()));
        Ok(Self { disk, faults })
    }

    fn checked(&self, operation: DiskOperation, key: &CacheKey) -> Result<&LocalDisk, StoreError> {
        self.faults.check(operation).map_err(|source| operation.error(self.local_path(key), source))?;
        Ok(&self.disk)
    }

    fn checked_whole(&self, operation: DiskOperation) -> Result<&LocalDisk, StoreError> {
        self.faults.check(operation).map_err(|source| operation.error("faulty disk".into(), source))?;
        Ok(&self.disk)
    }

    fn faulty(&self, entry: Entry) -> Entry {
        Entry { data: self.faulty_file(entry.data), ..entry }
    }

    fn faulty_file(&self, data: Arc<dyn DataFile>) -> Arc<dyn DataFile> {
        let unreadable = File::options().write(true).open("/dev/null").expect("there is always a null device");
        Arc::new(FaultyFile { data, faults: Arc::clone(&self.faults), unreadable: Arc::new(unreadable) })
    }
}

impl<F: Faults> Disk for FaultyDisk<F> {
    fn open_entry(&self, key: &CacheKey) -> Result<Option<Entry>, StoreError> {
        Ok(self.checked(DiskOperation::Open, key)?.open_entry(key)?.map(|entry| self.faulty(entry)))
    }

    fn reopen(
        &self,
        key: &CacheKey,
        volume: VolumeId,
        state: &FileState,
        may_wait: MayWait,
    ) -> Option<Arc<dyn DataFile>> {
        let data = self.checked(DiskOperation::Open, key).ok()?.reopen(key, volume, state, may_wait)?;
        Some(self.faulty_file(data))
    }

    fn create_entry(&self, key: &CacheKey, cinfo: Cinfo, origin: Option<OriginMark>) -> Result<Entry, StoreError> {
        let entry = self.checked(DiskOperation::Create, key)?.create_entry(key, cinfo, origin)?;
        self.faults.note_created(key, &self.local_path(key));
        Ok(self.faulty(entry))
    }

    fn volume_for_new(&self) -> Option<VolumeId> {
        self.disk.volume_for_new()
    }

    fn sync_data_of(&self, files: &[&dyn DataFile]) -> Vec<io::Result<()>> {
        self.disk.sync_data_of(files)
    }

    fn gains_from_batch_sync(&self, data: &dyn DataFile) -> bool {
        self.faults.gains_from_batch_sync() && self.disk.gains_from_batch_sync(data)
    }

    fn write_cinfos(&self, records: &[NewRecord<'_>]) -> Vec<Result<(), StoreError>> {
        self.faults.write_records(&self.disk, records)
    }

    fn remove_entry(&self, key: &CacheKey) -> Result<(), StoreError> {
        let disk = self.checked(DiskOperation::Remove, key)?;
        self.faults.note_removal(key, &self.local_path(key));
        disk.remove_entry(key)
    }

    fn remove_entries(&self, keys: &[CacheKey]) -> Vec<Result<(), StoreError>> {
        if F::REMOVES_ONE_BY_ONE || self.faults.check(DiskOperation::Remove).is_err() {
            return keys.iter().map(|key| self.remove_entry(key)).collect();
        }
        keys.iter().for_each(|key| self.faults.note_removal(key, &self.local_path(key)));
        self.disk.remove_entries(keys)
    }

    fn settle_removals(&self) -> Result<(), StoreError> {
        self.disk.settle_removals()
    }

    fn close_to_others(&self, key: &CacheKey, since: i64) -> Result<bool, StoreError> {
        self.checked(DiskOperation::CloseToOthers, key)?.close_to_others(key, since)
    }

    fn touch(&self, key: &CacheKey, now: i64) -> Result<(), StoreError> {
        self.checked(DiskOperation::Touch, key)?.touch(key, now)
    }

    fn space(&self) -> Result<Space, StoreError> {
        let disk = self.checked_whole(DiskOperation::Measure)?;
        self.faults.space().map_or_else(|| disk.space(), Ok)
    }

    fn local_path(&self, key: &CacheKey) -> PathBuf {
        self.disk.local_path(key)
    }

    fn volumes(&self) -> Vec<VolumeInfo> {
        let mut volumes = self.disk.volumes();
        for volume in &mut volumes {
            volume.space = self.faults.space().or(volume.space);
        }
        volumes
    }

    fn scan(&self, volume: VolumeId, changed_since: Option<i64>) -> Result<Box<dyn Scan>, StoreError> {
        self.disk.scan(volume, changed_since)
    }

    fn probe(&self, volume: VolumeId) -> Result<(), StoreError> {
        self.checked_whole(DiskOperation::Probe)?.probe(volume)
    }
}

impl<F: Faults> DataFile for FaultyFile<F> {
    fn file(&self) -> &Arc<File> {
        if self.faults.is_unreadable() { &self.unreadable } else { self.data.file() }
    }

    fn identity(&self) -> FileIdentity {
        self.data.identity()
    }

    fn state_when_opened(&self) -> Option<FileState> {
        self.data.state_when_opened()
    }

    fn volume(&self) -> VolumeId {
        self.data.volume()
    }

    fn is_writable(&self) -> bool {
        self.data.is_writable()
    }

    fn write_vectored_at(&self, offset: u64, chunks: &[Bytes]) -> io::Result<()> {
        self.faults.write(&self.data, offset, chunks)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.faults.check(DiskOperation::Read)?;
        self.data.read_exact_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.sync(&self.data)
    }
}
