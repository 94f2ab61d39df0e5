//! A disk with switchable faults, around a real one.

use bytes::Bytes;
use forebay_cache::{CacheKey, Cinfo};
use forebay_store::{
    DataFile, Disk, Entry, FileIdentity, LocalDisk, NewRecord, OriginMark, Scan, Space, StoreError, VolumeId,
    VolumeInfo,
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
    /// Writes of data fail: no space is left, until entries are removed.
    pub full: AtomicBool,
    /// Reads of data through the store fail.
    pub read_fails: AtomicBool,
    /// Data cannot be synced.
    pub sync_fails: AtomicBool,
    /// Syncs of data do not end as long as this is set.
    pub sync_hangs: AtomicBool,
    /// Records cannot be written: no space is left.
    pub cinfo_fails: AtomicBool,
    /// Entries cannot be created.
    pub create_fails: AtomicBool,
    /// Whatever the disk is asked fails, as that of a broken device does; data files read nothing.
    pub broken: AtomicBool,
    /// The disk refuses every change, as a file system that was remounted read-only.
    pub read_only: AtomicBool,
    /// Syncs of data that were begun.
    pub syncs: AtomicU64,
    /// Syncs of the whole file system that were begun.
    pub whole_syncs: AtomicU64,
    /// Files gain nothing when they are synced together.
    pub syncs_apart: AtomicBool,
    /// Records that are written together are in place, but the call does not return while this is set.
    pub records_held: AtomicBool,
    /// How often records were written together.
    pub records_written: AtomicU64,
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
    unreadable: Arc<File>,
}

impl FaultyDisk {
    /// A disk at `root` without faults at first.
    pub fn open(root: &Path) -> Result<(Arc<Self>, Arc<DiskFaults>), StoreError> {
        let faults = Arc::new(DiskFaults::default());
        let whole = Arc::clone(&faults);
        let disk = LocalDisk::open(root)?.with_sync_call(TOGETHER_MIN, Box::new(move || whole.sync_all()));
        Ok((Arc::new(Self { disk, faults: Arc::clone(&faults) }), faults))
    }

    fn fail_if(&self, fails: &AtomicBool, operation: &'static str, key: &CacheKey) -> Result<(), StoreError> {
        if !fails.load(SeqCst) {
            return Ok(());
        }
        Err(StoreError::Io { operation, path: self.local_path(key), source: io::ErrorKind::StorageFull.into() })
    }

    fn faulty(&self, entry: Entry) -> Entry {
        let data =
            Arc::new(FaultyFile { data: entry.data, faults: Arc::clone(&self.faults), unreadable: unreadable() });
        Entry { data, ..entry }
    }

    fn read(&self, operation: &'static str) -> Result<&LocalDisk, StoreError> {
        let failed = |source| StoreError::Io { operation, path: "faulty disk".into(), source };
        self.faults.check_broken().map_err(failed).map(|()| &self.disk)
    }

    fn change(&self, operation: &'static str) -> Result<&LocalDisk, StoreError> {
        let failed = |source| StoreError::Io { operation, path: "faulty disk".into(), source };
        self.read(operation)?;
        self.faults.check_read_only().map_err(failed).map(|()| &self.disk)
    }
}

impl DiskFaults {
    fn check_broken(&self) -> io::Result<()> {
        if self.broken.load(SeqCst) { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(()) }
    }

    fn check_read_only(&self) -> io::Result<()> {
        if self.read_only.load(SeqCst) { Err(io::Error::from_raw_os_error(EROFS)) } else { Ok(()) }
    }

    /// Syncs the whole file system: not done, as tests end without a crash.
    fn sync_all(&self) -> io::Result<()> {
        self.whole_syncs.fetch_add(1, SeqCst);
        self.check_sync()
    }

    fn check_sync(&self) -> io::Result<()> {
        while self.sync_hangs.load(SeqCst) {
            std::thread::yield_now();
        }
        if self.sync_fails.load(SeqCst) {
            return Err(io::Error::other("simulated failure"));
        }
        self.check_change()
    }

    fn check_change(&self) -> io::Result<()> {
        self.check_broken().and_then(|()| self.check_read_only())
    }
}

/// Files from which on the file system is synced as a whole.
const TOGETHER_MIN: usize = 8;

/// Numbers of errors on Linux.
const EIO: i32 = 5;
const EROFS: i32 = 30;

/// An open file that nothing can be read from.
fn unreadable() -> Arc<File> {
    Arc::new(File::options().write(true).open("/dev/null").expect("there is always a null device"))
}

impl Disk for FaultyDisk {
    fn open_entry(&self, key: &CacheKey) -> Result<Option<Entry>, StoreError> {
        Ok(self.read("opening")?.open_entry(key)?.map(|entry| self.faulty(entry)))
    }

    fn create_entry(&self, key: &CacheKey, cinfo: Cinfo, origin: Option<OriginMark>) -> Result<Entry, StoreError> {
        self.fail_if(&self.faults.create_fails, "creating", key)?;
        Ok(self.faulty(self.change("creating")?.create_entry(key, cinfo, origin)?))
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
        self.fail_if(&self.faults.cinfo_fails, "writing", key)?;
        self.change("writing")?.write_cinfo(key, data, cinfo, origin)
    }

    fn sync_data_of(&self, files: &[&dyn DataFile]) -> Vec<io::Result<()>> {
        self.disk.sync_data_of(files)
    }

    fn gains_from_batch_sync(&self, data: &dyn DataFile) -> bool {
        !self.faults.syncs_apart.load(SeqCst) && self.disk.gains_from_batch_sync(data)
    }

    fn write_cinfos(&self, records: &[NewRecord<'_>]) -> Vec<Result<(), StoreError>> {
        let check = |record: &NewRecord<'_>| {
            self.fail_if(&self.faults.cinfo_fails, "writing", record.key)?;
            self.change("writing").map(|_| ())
        };
        let checked: Vec<_> = records.iter().map(check).collect();
        if checked.iter().any(Result::is_err) {
            return checked;
        }
        let written = self.disk.write_cinfos(records);
        if records.len() > 1 {
            self.faults.records_written.fetch_add(1, SeqCst);
            while self.faults.records_held.load(SeqCst) {
                std::thread::yield_now();
            }
        }
        written
    }

    fn remove_entries(&self, keys: &[CacheKey]) -> Vec<Result<(), StoreError>> {
        match self.change("removing") {
            Ok(disk) => {
                let removed = disk.remove_entries(keys);
                if removed.iter().any(Result::is_ok) {
                    self.faults.full.store(false, SeqCst);
                }
                removed
            }
            Err(_) => keys.iter().map(|key| self.remove_entry(key)).collect(),
        }
    }

    fn settle_removals(&self) -> Result<(), StoreError> {
        self.disk.settle_removals()
    }

    fn remove_entry(&self, key: &CacheKey) -> Result<(), StoreError> {
        self.change("removing")?.remove_entry(key)
    }

    fn close_to_others(&self, key: &CacheKey, since: i64) -> Result<bool, StoreError> {
        self.change("closing to others")?.close_to_others(key, since)
    }

    fn touch(&self, key: &CacheKey, now: i64) -> Result<(), StoreError> {
        self.change("touching")?.touch(key, now)
    }

    fn space(&self) -> Result<Space, StoreError> {
        self.read("measuring")?.space()
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
        self.change("probing")?.probe(volume)
    }
}

impl DataFile for FaultyFile {
    fn file(&self) -> &Arc<File> {
        if self.faults.broken.load(SeqCst) { &self.unreadable } else { self.data.file() }
    }

    fn identity(&self) -> FileIdentity {
        self.data.identity()
    }

    fn volume(&self) -> VolumeId {
        self.data.volume()
    }

    fn is_writable(&self) -> bool {
        self.data.is_writable()
    }

    fn write_vectored_at(&self, offset: u64, chunks: &[Bytes]) -> io::Result<()> {
        self.faults.writes.fetch_add(1, SeqCst);
        if self.faults.full.load(SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.faults.check_change()?;
        self.data.write_vectored_at(offset, chunks)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.faults.check_broken()?;
        if self.faults.read_fails.load(SeqCst) {
            return Err(io::Error::other("simulated failure"));
        }
        self.data.read_exact_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.syncs.fetch_add(1, SeqCst);
        self.faults.check_sync()?;
        self.data.sync_data()
    }
}
