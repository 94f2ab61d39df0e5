//! The simulated disk: the real store in a temporary directory, with faults, and a memory of the changes that a crash would
//! lose.

use crate::{crash::Unsynced, dice::Dice, world::World};
use bytes::Bytes;
use forebay_cache::CacheKey;
use forebay_store::{DataFile, Disk, LocalDisk, NewRecord, Space, StoreError};
use forebay_testkit::{DiskOperation, Faults, FaultyDisk};
use parking_lot::{Mutex, MutexGuard};
use std::{io, path::Path, sync::Arc};

pub(crate) type SimDisk = FaultyDisk<SimFaults>;

/// An empty disk with more room than any scenario writes: the free room of the machine must decide nothing.
const ROOM: Space = Space { total_bytes: 1 << 40, free_bytes: 1 << 40, total_inodes: 1 << 30, free_inodes: 1 << 30 };

/// The faults of the simulated disk, and the changes that a crash would lose.
pub(crate) struct SimFaults {
    world: World,
    dice: Mutex<Dice>,
    unsynced: Mutex<Unsynced>,
}

/// Number of the error that a broken disk gives.
const EIO: i32 = 5;

impl SimFaults {
    pub(crate) fn new(root: &Path, world: World, dice: Dice) -> Arc<Self> {
        Arc::new(Self { world, dice: Mutex::new(dice), unsynced: Mutex::new(Unsynced::new(root)) })
    }

    /// The disk at `root` with these faults. There are few files: each sync is one of all.
    pub(crate) fn open_disk(self: &Arc<Self>, root: &Path) -> Result<SimDisk, StoreError> {
        FaultyDisk::with_faults(root, Arc::clone(self), 1)
    }

    pub(crate) fn unsynced(&self) -> MutexGuard<'_, Unsynced> {
        self.unsynced.lock()
    }

    fn fail_at_times(&self) -> io::Result<()> {
        let one_in = self.world.state().disk_fails_one_in;
        let fails = one_in > 0 && self.dice.lock().one_in(one_in);
        if fails { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(()) }
    }

    fn is_full(&self) -> bool {
        self.world.state().disk_full
    }

    /// Writes a record. At times it is in its place by then, and could not be made durable.
    fn write_record(&self, disk: &LocalDisk, record: &NewRecord<'_>) -> Result<(), StoreError> {
        let operation = DiskOperation::WriteRecord;
        let path = disk.local_path(record.key);
        let failed = |source| operation.error(path.clone(), source);
        self.check(operation).map_err(failed)?;
        let image = record.is_first.then(|| Unsynced::image_of_record(&path)).flatten();
        disk.write_cinfos(std::slice::from_ref(record)).into_iter().collect::<Result<(), _>>()?;
        let synced = if record.is_first { self.fail_at_times().map_err(failed) } else { Ok(()) };
        match (&synced, image) {
            (Err(_), Some(image)) => self.unsynced().note_record_not_synced(&path, image),
            _ => self.unsynced().note_recorded(record.key, &path),
        }
        synced
    }
}

impl Faults for SimFaults {
    // Each of them fails at times.
    const REMOVES_ONE_BY_ONE: bool = true;

    fn check(&self, operation: DiskOperation) -> io::Result<()> {
        match operation {
            DiskOperation::Open | DiskOperation::Remove | DiskOperation::Read => self.fail_at_times(),
            DiskOperation::Create | DiskOperation::WriteRecord => {
                self.fail_at_times()?;
                if self.is_full() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
            }
            DiskOperation::CloseToOthers | DiskOperation::Touch | DiskOperation::Measure | DiskOperation::Probe => {
                Ok(())
            }
        }
    }

    fn note_created(&self, key: &CacheKey, path: &Path) {
        self.unsynced().note_created(key, path);
    }

    fn note_removal(&self, key: &CacheKey, path: &Path) {
        self.unsynced().note_removal(key, path);
    }

    fn write_records(&self, disk: &LocalDisk, records: &[NewRecord<'_>]) -> Vec<Result<(), StoreError>> {
        records.iter().map(|record| self.write_record(disk, record)).collect()
    }

    fn write(&self, data: &Arc<dyn DataFile>, offset: u64, chunks: &[Bytes]) -> io::Result<()> {
        let len: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        self.unsynced().note_write(data, offset, len)?;
        if self.is_full() || self.fail_at_times().is_err() {
            // A failed write leaves the first chunks.
            let written = chunks.get(..chunks.len() / 2).unwrap_or_default();
            data.write_vectored_at(offset, written)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        data.write_vectored_at(offset, chunks)
    }

    fn sync(&self, data: &Arc<dyn DataFile>) -> io::Result<()> {
        // After a failed sync the written pages may be lost, and a later success does not report them. An earlier loss is
        // reported once.
        let was_lost = self.unsynced().take_loss(data.identity());
        let lost = if was_lost { Err(io::Error::from_raw_os_error(EIO)) } else { self.fail_at_times() };
        if let Err(error) = lost {
            self.unsynced().note_sync_failed(data.identity());
            return Err(error);
        }
        data.sync_data()?;
        self.unsynced().note_synced(data.identity());
        Ok(())
    }

    /// Syncs everything. If that fails, some of the written pages of any file are lost, and reported once.
    fn sync_all(&self) -> io::Result<()> {
        let synced = self.fail_at_times();
        let mut dice = self.dice.lock();
        self.unsynced().note_all_synced(|| synced.is_err() && dice.one_in(2));
        synced
    }

    fn gains_from_batch_sync(&self) -> bool {
        false
    }

    fn space(&self) -> Option<Space> {
        Some(ROOM)
    }
}

impl std::fmt::Debug for SimFaults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimFaults").finish_non_exhaustive()
    }
}
