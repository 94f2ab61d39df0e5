//! Faults of a disk that a test switches on and off.

use crate::faulty_disk::{DiskOperation, Faults, FaultyDisk};
use bytes::Bytes;
use forebay_cache::CacheKey;
use forebay_store::{DataFile, Disk, LocalDisk, NewRecord, StoreError};
use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

/// Faults of a [`FaultyDisk`], to be switched while it is in use, and counts of its operations.
#[derive(Debug, Default)]
pub struct DiskFaults {
    /// Writes of data fail: no space is left, until entries are removed.
    pub full: AtomicBool,
    pub read_fails: AtomicBool,
    pub sync_fails: AtomicBool,
    /// Syncs of data find a quota exceeded.
    pub sync_finds_no_room: AtomicBool,
    /// Syncs of data do not end while this is set.
    pub sync_hangs: AtomicBool,
    /// Writes of data do not end while this is set.
    pub writes_hang: AtomicBool,
    /// Opens of entries, and reads through [`DataFile::read_exact_at`], do not end while this is set.
    pub reads_hang: AtomicBool,
    /// Records cannot be written: no space is left.
    pub cinfo_fails: AtomicBool,
    pub create_fails: AtomicBool,
    /// All operations fail, as those of a broken device; data files read nothing.
    pub broken: AtomicBool,
    /// The disk refuses every change, as a file system that was remounted read-only.
    pub read_only: AtomicBool,
    pub syncs: AtomicU64,
    /// Syncs of the whole file system that were begun.
    pub whole_syncs: AtomicU64,
    /// Files gain nothing when they are synced in a batch.
    pub syncs_apart: AtomicBool,
    /// Batches of records are in place, but the call does not return while this is set.
    pub records_held: AtomicBool,
    pub records_written: AtomicU64,
    pub writes: AtomicU64,
}

/// Files from which on the file system is synced as a whole.
const BATCH_MIN: usize = 8;

// Numbers of errors on Linux.
const EIO: i32 = 5;
const EROFS: i32 = 30;

impl FaultyDisk<DiskFaults> {
    /// A disk at `root`, without faults at first.
    pub fn open(root: &Path) -> Result<(Arc<Self>, Arc<DiskFaults>), StoreError> {
        let faults = Arc::new(DiskFaults::default());
        Ok((Arc::new(Self::with_faults(root, Arc::clone(&faults), BATCH_MIN)?), faults))
    }
}

impl DiskFaults {
    fn check_change(&self) -> io::Result<()> {
        fail_if(&self.broken, || io::Error::from_raw_os_error(EIO))?;
        fail_if(&self.read_only, || io::Error::from_raw_os_error(EROFS))
    }

    fn check_sync(&self) -> io::Result<()> {
        wait_while(&self.sync_hangs);
        fail_if(&self.sync_fails, || io::Error::other("simulated failure"))?;
        fail_if(&self.sync_finds_no_room, || io::ErrorKind::QuotaExceeded.into())?;
        self.check_change()
    }
}

fn fail_if(fails: &AtomicBool, error: impl FnOnce() -> io::Error) -> io::Result<()> {
    if fails.load(SeqCst) { Err(error()) } else { Ok(()) }
}

fn wait_while(held: &AtomicBool) {
    while held.load(SeqCst) {
        std::thread::yield_now();
    }
}

fn no_space() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

impl Faults for DiskFaults {
    const REMOVES_ONE_BY_ONE: bool = false;

    fn check(&self, operation: DiskOperation) -> io::Result<()> {
        match operation {
            DiskOperation::Open | DiskOperation::Measure => {
                return fail_if(&self.broken, || io::Error::from_raw_os_error(EIO));
            }
            DiskOperation::Read => {
                wait_while(&self.reads_hang);
                fail_if(&self.broken, || io::Error::from_raw_os_error(EIO))?;
                return fail_if(&self.read_fails, || io::Error::other("simulated failure"));
            }
            DiskOperation::Create => fail_if(&self.create_fails, no_space)?,
            DiskOperation::WriteRecord => fail_if(&self.cinfo_fails, no_space)?,
            DiskOperation::Remove | DiskOperation::CloseToOthers | DiskOperation::Touch | DiskOperation::Probe => {}
        }
        self.check_change()
    }

    fn note_removal(&self, _key: &CacheKey, _path: &Path) {
        self.full.store(false, SeqCst);
    }

    fn write_records(&self, disk: &LocalDisk, records: &[NewRecord<'_>]) -> Vec<Result<(), StoreError>> {
        if self.check(DiskOperation::WriteRecord).is_err() {
            let failed = |record: &NewRecord<'_>| {
                let operation = DiskOperation::WriteRecord;
                self.check(operation).map_err(|source| operation.error(disk.local_path(record.key), source))
            };
            return records.iter().map(failed).collect();
        }
        let written = disk.write_cinfos(records);
        if records.len() > 1 {
            self.records_written.fetch_add(1, SeqCst);
            wait_while(&self.records_held);
        }
        written
    }

    fn write(&self, data: &Arc<dyn DataFile>, offset: u64, chunks: &[Bytes]) -> io::Result<()> {
        self.writes.fetch_add(1, SeqCst);
        wait_while(&self.writes_hang);
        fail_if(&self.full, no_space)?;
        self.check_change()?;
        data.write_vectored_at(offset, chunks)
    }

    fn sync(&self, data: &Arc<dyn DataFile>) -> io::Result<()> {
        self.syncs.fetch_add(1, SeqCst);
        self.check_sync()?;
        data.sync_data()
    }

    /// Nothing is synced: tests end without a crash.
    fn sync_all(&self) -> io::Result<()> {
        self.whole_syncs.fetch_add(1, SeqCst);
        self.check_sync()
    }

    fn gains_from_batch_sync(&self) -> bool {
        !self.syncs_apart.load(SeqCst)
    }

    fn is_unreadable(&self) -> bool {
        self.broken.load(SeqCst)
    }
}
