//! Entries on a local file system.

mod creation;

use crate::{
    DataFile, Disk, Entry, FileState, MayWait, NewRecord, OriginMark, Permissions, PieceRunner, Reserve, Scan, Space,
    StoreError, VolumeId, VolumeInfo,
    batch_sync::{SyncCall, WholeSync},
    cinfo_file::{self, CinfoWriter, Contents, Draft},
    data_file::LocalFile,
    file_system, parts,
    prepare::{self, Prepared},
    removal::{UnsyncedRemovals, by_directory, remove_empty_directories, remove_unsynced},
    scan::TreeScan,
    tree::{Place, Tree},
};
use forebay_cache::{CacheKey, Cinfo, CinfoError, Fault, Health};
use parking_lot::{Mutex, MutexGuard};
use rustix::{
    fs::{AtFlags, OFlags, Timespec, Timestamps, UTIME_OMIT, utimensat},
    io::Errno,
};
use std::{
    fs::{self, File, Metadata},
    hash::{DefaultHasher, Hash, Hasher},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Locks that keys share: enough that an open rarely waits for another entry's sync.
const KEY_LOCKS: usize = 1024;

/// A directory of a local file system in which entries are kept, in XCache's layout.
#[derive(Debug)]
pub struct LocalDisk {
    volume: VolumeId,
    tree: Tree,
    staging: Arc<OwnedFd>,
    cinfo_writer: CinfoWriter,
    keeps_xattrs: bool,
    is_local: bool,
    /// Held while an entry's files are looked up and changed together.
    key_locks: [Mutex<()>; KEY_LOCKS],
    unsynced_removals: UnsyncedRemovals,
    whole_sync: WholeSync,
    reserve: Reserve,
    /// Whether other fillers may take it over: then each file gets its name by a move from the staging directory, which the next
    /// owner removes first.
    is_part: bool,
    _lock: Option<OwnedFd>,
}

/// Permissions with which other users than the server's can read a file.
const READ_BY_OTHERS: u32 = 0o044;

#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("bad cinfo: {0}")]
    Cinfo(#[from] CinfoError),
    #[error("no data file")]
    NoData,
    #[error("data file of {len} bytes, at least {expected_len} are recorded")]
    ShortData { len: u64, expected_len: u64 },
}

impl LocalDisk {
    /// Opens the store below `root`, which is created if need be, and takes it for this process. It is disk 0.
    ///
    /// # Errors
    /// When `root` is not a directory, cannot be written to, or is in use by another process.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        Self::open_volume(root, VolumeId(0), Permissions::default())
    }

    /// As [`Self::open`], for disk `volume` of several, on which new files get `permissions`.
    ///
    /// # Errors
    /// As for [`Self::open`], and when files cannot be given these permissions.
    pub fn open_volume(root: &Path, volume: VolumeId, permissions: Permissions) -> Result<Self, StoreError> {
        let prepared = prepare::prepare(root, permissions)?;
        // Locked before the staging directory is cleared: the files in it may belong to a process that still runs.
        let lock = prepare::lock(&prepared.tree)?;
        prepare::clear_staging(&prepared)?;
        Self::of_prepared(prepared, volume, Some(lock))
    }

    /// Opens the part of a store below `root` that this process has taken in `epoch`. Leases keep others away, not a lock.
    ///
    /// # Errors
    /// As for [`Self::open_volume`]; also when another process has taken the part since.
    pub(crate) fn open_part(
        root: &Path,
        volume: VolumeId,
        permissions: Permissions,
        epoch: u64,
    ) -> Result<Self, StoreError> {
        let prepared = prepare::prepare_part(root, permissions, &parts::staging_of(epoch))?;
        Self::of_prepared(prepared, volume, None)
    }

    fn of_prepared(prepared: Prepared, volume: VolumeId, lock: Option<OwnedFd>) -> Result<Self, StoreError> {
        let keeps_xattrs = prepared.report.keeps_xattrs;
        if !keeps_xattrs {
            tracing::warn!(
                store = %prepared.tree.path.display(),
                "the file system keeps no extended attributes: changed files at the origin are noticed by size only"
            );
        }
        let is_local = file_system::is_local(&*prepared.tree.root);
        Ok(Self {
            volume,
            is_local: is_local.map_err(StoreError::io("examining the file system of", &prepared.tree.path))?,
            whole_sync: WholeSync::of(&prepared.tree)?,
            reserve: Reserve::new(prepared.tree.path.join(prepare::RESERVE_FILE)),
            tree: prepared.tree,
            cinfo_writer: CinfoWriter::new(Arc::clone(&prepared.staging), prepared.creation, keeps_xattrs),
            staging: prepared.staging,
            keeps_xattrs,
            key_locks: std::array::from_fn(|_| Mutex::new(())),
            unsynced_removals: UnsyncedRemovals::default(),
            is_part: lock.is_none(),
            _lock: lock,
        })
    }

    /// The same disk, whose file system is synced as a whole for the sake of `count_min` files or more by `call`, whatever kind it
    /// is of. For simulations with faults.
    pub fn with_sync_call(self, count_min: usize, call: SyncCall) -> Self {
        Self { whole_sync: self.whole_sync.with_call(count_min, call), ..self }
    }

    /// Whether the file system keeps extended attributes, and with them each entry's [`OriginMark`].
    pub const fn keeps_xattrs(&self) -> bool {
        self.keeps_xattrs
    }

    fn lock(&self, key: &CacheKey) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        // Locks are shared by hash, so that their memory does not grow with the number of entries.
        let stripe = usize::try_from(hasher.finish() % KEY_LOCKS as u64).unwrap_or(0);
        let lock = self.key_locks.get(stripe).expect("a remainder is below the divisor");
        // The lock guards no memory: what a panic left on disk is judged by what is on disk.
        lock.lock()
    }

    /// The place of the entry of `key`, whose data file must be `data`.
    fn place_of(&self, key: &CacheKey, data: &dyn DataFile) -> Result<Place, StoreError> {
        // The name may lead to a newer entry by now: a record of the old data next to new data would be believed
        // after a crash.
        let superseded = || StoreError::Superseded { path: self.tree.path_of(key) };
        let place = self.tree.place(key)?.ok_or_else(superseded)?;
        if place.data_identity()? == Some(data.identity()) { Ok(place) } else { Err(superseded()) }
    }

    fn draft(&self, record: &NewRecord<'_>) -> Result<Draft, StoreError> {
        let _guard = self.lock(record.key);
        let place = self.place_of(record.key, record.data)?;
        // In place of a record that another owner may have replaced since, nothing is written.
        self.cinfo_writer.draft(&place, contents_of(record), record.is_first && !self.is_part)
    }

    /// Makes a record durable, unless it is, and puts it in place.
    fn settle(&self, record: &NewRecord<'_>, draft: &Draft, is_synced: bool) -> Result<(), StoreError> {
        let path = self.tree.path_of(record.key);
        if !is_synced {
            draft.sync().map_err(StoreError::io("syncing the record of", &path)).inspect_err(|_| draft.discard())?;
        }
        if draft.is_named() {
            // It was written in the record's place, which may have been taken away since.
            let is_there = draft.is_linked().map_err(StoreError::io("examining the record of", &path))?;
            return if is_there { Ok(()) } else { Err(StoreError::Superseded { path }) };
        }
        // The lock was not held during the sync, so the entry may have been replaced meanwhile.
        let _guard = self.lock(record.key);
        let place = self.place_of(record.key, record.data).inspect_err(|_| draft.discard())?;
        let spot = place.cinfo().inspect_err(|_| draft.discard())?;
        match draft.name(&spot) {
            Ok(()) => Ok(()),
            Err(error) => {
                draft.discard();
                // The entry lies on another file system, mounted below the root.
                if Errno::from_io_error(&error) == Some(Errno::XDEV) {
                    return self.cinfo_writer.replace(&place, &spot, contents_of(record));
                }
                Err(StoreError::io("replacing", &spot.path)(error))
            }
        }
    }

    /// Opens the data file of `key` if there is a record of it.
    fn open_recorded(&self, key: &CacheKey) -> Result<Option<(File, Metadata)>, StoreError> {
        let _guard = self.lock(key);
        let Some(place) = self.tree.place(key)? else { return Ok(None) };
        if place.open_cinfo(OFlags::RDONLY)?.is_none() {
            return Ok(None);
        }
        open_data(&place)
    }

    /// Writes records: first all of them, so that one sync of the file system covers them, then each into its place.
    fn write_records(&self, records: &[NewRecord<'_>]) -> Vec<Result<(), StoreError>> {
        let draft = |record| {
            let draft = self.draft(record)?;
            let is_covered = self.whole_sync.covers(draft.file());
            Ok((draft, is_covered))
        };
        let drafts: Vec<Result<_, StoreError>> = records.iter().map(draft).collect();
        let are_synced =
            self.whole_sync.sync_all(drafts.iter().flatten().filter(|(_, is_covered)| *is_covered).count());
        let settle = |(record, draft): (_, Result<(Draft, bool), StoreError>)| {
            let (draft, is_covered) = draft?;
            self.settle(record, &draft, is_covered && are_synced)
        };
        records.iter().zip(drafts).map(settle).collect()
    }

    /// Removes entries of one directory, given with their positions.
    fn remove_in(&self, directory: &str, keys: &[(usize, &CacheKey)]) -> Vec<(usize, Result<(), StoreError>)> {
        // Noted before the first removal: a crash between the two must not leave an unsynced removal that is not known.
        let opened = match self.unsynced_removals.note(&self.tree, directory, keys) {
            Ok(()) => self.tree.directory(directory),
            Err(error) => {
                tracing::warn!(%error, "entries are removed one by one");
                return keys.iter().map(|&(position, key)| (position, self.remove_entry(key))).collect();
            }
        };
        let remove_one = |key: &CacheKey| match &opened {
            Ok(opened) => {
                let _guard = self.lock(key);
                remove_unsynced(&self.tree.place_in(opened, key))
            }
            // No such directory, or one that cannot be opened: the long way distinguishes them.
            Err(_) => self.remove_entry(key),
        };
        keys.iter().map(|&(position, key)| (position, remove_one(key))).collect()
    }
}

impl Disk for LocalDisk {
    fn open_entry(&self, key: &CacheKey) -> Result<Option<Entry>, StoreError> {
        let _guard = self.lock(key);
        let Some(place) = self.tree.place(key)? else {
            return Ok(None);
        };
        let Some(stored) = cinfo_file::read(&place)? else {
            return Ok(None);
        };
        let data = open_data(&place)?;
        match (judge(stored.cinfo, data.as_ref().map(|(_, metadata)| metadata.len())), data) {
            (Ok(cinfo), Some((file, metadata))) => Ok(Some(Entry {
                data: Arc::new(LocalFile::new(self.volume, file, &metadata)),
                cinfo,
                origin: stored.origin,
            })),
            (judged, _) => {
                let reason = judged.err().unwrap_or(Unusable::NoData);
                tracing::warn!(%key, %reason, "entry removed: it cannot be used");
                // Left in place it would be found, judged and logged again at each open.
                remove(&place)?;
                Ok(None)
            }
        }
    }

    fn reopen(
        &self,
        key: &CacheKey,
        volume: VolumeId,
        state: &FileState,
        may_wait: MayWait,
    ) -> Option<Arc<dyn DataFile>> {
        let is_same =
            |metadata: &Metadata| volume == self.volume && metadata.is_file() && FileState::of(metadata) == *state;
        let data = match may_wait {
            // An open waits for the server of a network file system even if the kernel knows the name.
            MayWait::No => {
                let (file, metadata) = self.is_local.then(|| self.tree.open_cached(key))?.ok()?;
                is_same(&metadata).then(|| LocalFile::writable(volume, file, &metadata))?
            }
            MayWait::Yes => {
                let (file, metadata) = self.open_recorded(key).ok()??;
                is_same(&metadata).then(|| LocalFile::new(volume, file, &metadata))?
            }
        };
        Some(Arc::new(data))
    }

    fn create_entry(&self, key: &CacheKey, cinfo: Cinfo, origin: Option<OriginMark>) -> Result<Entry, StoreError> {
        let contents = Contents { cinfo: &cinfo, origin: origin.as_ref() };
        let data = self.create_in_place(key, |place| self.create_files(key, place, contents))?;
        Ok(Entry { data: Arc::new(data), cinfo, origin })
    }

    fn create_entry_if_free(
        &self,
        key: &CacheKey,
        cinfo: Cinfo,
        origin: Option<OriginMark>,
    ) -> Result<Option<Entry>, StoreError> {
        let contents = Contents { cinfo: &cinfo, origin: origin.as_ref() };
        let data = self.create_in_place(key, |place| self.create_files_if_free(key, place, contents))?;
        Ok(data.map(|data| Entry { data: Arc::new(data), cinfo, origin }))
    }

    fn volume_for_new(&self) -> Option<VolumeId> {
        Some(self.volume)
    }

    fn sync_data_of(&self, files: &[&dyn DataFile]) -> Vec<io::Result<()>> {
        self.whole_sync.sync_data(files)
    }

    fn gains_from_batch_sync(&self, data: &dyn DataFile) -> bool {
        self.whole_sync.is_for(data)
    }

    fn write_cinfos(&self, records: &[NewRecord<'_>]) -> Vec<Result<(), StoreError>> {
        let mut results = self.write_records(records);
        let is_full = |result: &Result<(), StoreError>| result.as_ref().is_err_and(StoreError::is_out_of_space);
        if results.iter().any(is_full) && self.reserve.release() {
            let failed = results.iter_mut().zip(records).filter(|(result, _)| is_full(result));
            failed.for_each(|(result, record)| *result = self.write_records(&[*record]).into_iter().collect());
        }
        results
    }

    fn remove_entry(&self, key: &CacheKey) -> Result<(), StoreError> {
        let _guard = self.lock(key);
        self.tree.place(key)?.map_or(Ok(()), |place| remove(&place))
    }

    fn remove_entries(&self, keys: &[CacheKey]) -> Vec<Result<(), StoreError>> {
        let mut results: Vec<(usize, Result<(), StoreError>)> = Vec::with_capacity(keys.len());
        for (directory, keys) in by_directory(keys) {
            results.extend(self.remove_in(directory, &keys));
            remove_empty_directories(&self.tree, directory);
        }
        // Directories were visited one after the other; the caller expects the order of its keys.
        results.sort_by_key(|(position, _)| *position);
        results.into_iter().map(|(_, result)| result).collect()
    }

    fn settle_removals(&self) -> Result<(), StoreError> {
        self.settle_removals_in_pieces(&|piece| piece())
    }

    fn settle_removals_in_pieces(&self, run: &PieceRunner<'_>) -> Result<(), StoreError> {
        run(&|| {
            self.reserve.restore();
            Ok(())
        })?;
        self.unsynced_removals.settle(&self.tree, run)
    }

    fn unsettled_removals(&self) -> usize {
        self.unsynced_removals.len()
    }

    fn close_to_others(&self, key: &CacheKey, since: i64) -> Result<bool, StoreError> {
        let Some(place) = self.tree.place(key)? else { return Ok(true) };
        let Some((data, metadata)) = place.open_data(OFlags::RDONLY)? else { return Ok(true) };
        let mode = metadata.permissions().mode();
        if mode & READ_BY_OTHERS == 0 {
            return Ok(true);
        }
        // The time of access is the lease: a reader since then may still have the file open.
        if metadata.atime() >= since {
            return Ok(false);
        }
        let path = self.tree.path_of(key);
        let failed = |error: io::Error| StoreError::io("closing to others", &path)(error);
        data.set_permissions(fs::Permissions::from_mode(mode & !READ_BY_OTHERS)).map_err(failed)?;
        // Looked at again, because a process that sends clients here sets the time first and checks the permissions
        // afterwards.
        if data.metadata().map_err(failed)?.atime() < since {
            return Ok(true);
        }
        // A client was sent there just now.
        data.set_permissions(fs::Permissions::from_mode(mode)).map_err(failed)?;
        Ok(false)
    }

    fn touch(&self, key: &CacheKey, now: i64) -> Result<(), StoreError> {
        let missing = || StoreError::io("touching", &self.tree.path_of(key))(Errno::NOENT);
        let spot = self.tree.place(key)?.ok_or_else(missing)?.cinfo()?;
        // The time of change of the record is the time of last use, as in XCache.
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: now, tv_nsec: 0 },
        };
        utimensat(&*spot.directory, &spot.name, &times, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(StoreError::io("touching", &spot.path))
    }

    fn space(&self) -> Result<Space, StoreError> {
        prepare::space(&self.tree)
    }

    fn local_path(&self, key: &CacheKey) -> PathBuf {
        self.tree.path_of(key)
    }

    fn volumes(&self) -> Vec<VolumeInfo> {
        let id = self.volume;
        let path = self.tree.path.to_owned();
        let space = self.space().ok();
        let latency = Duration::ZERO;
        let health = Health::Healthy;
        vec![VolumeInfo { id, path, weight: 1, space, health, is_elsewhere: false, errors: 0, latency }]
    }

    fn scan(&self, _volume: VolumeId, changed_since: Option<i64>) -> Result<Box<dyn Scan>, StoreError> {
        Ok(Box::new(TreeScan::new(self.tree.clone(), self.volume, changed_since)))
    }

    fn probe(&self, _volume: VolumeId) -> Result<(), StoreError> {
        prepare::probe(&self.tree, &self.staging)
    }
}

const fn contents_of<'a>(record: &NewRecord<'a>) -> Contents<'a> {
    Contents { cinfo: record.cinfo, origin: record.origin }
}

/// Opens a data file, for reading only where nothing else is allowed.
fn open_data(place: &Place) -> Result<Option<(File, Metadata)>, StoreError> {
    match place.open_data(OFlags::RDWR) {
        Err(error) if error.fault() == Some(Fault::ReadOnly) => place.open_data(OFlags::RDONLY),
        opened => opened,
    }
}

/// Whether a record can be used with a data file of `len` bytes.
fn judge(cinfo: Result<Cinfo, CinfoError>, len: Option<u64>) -> Result<Cinfo, Unusable> {
    let cinfo = cinfo?;
    let len = len.ok_or(Unusable::NoData)?;
    let expected_len = cinfo.expected_data_len();
    if len < expected_len {
        return Err(Unusable::ShortData { len, expected_len });
    }
    Ok(cinfo)
}

/// Removes both files of an entry, the record first and durably: data without a record is never trusted, and a record must
/// not come back next to new data.
fn remove(place: &Place) -> Result<(), StoreError> {
    let cinfo = place.cinfo()?;
    if cinfo.remove()? {
        cinfo.sync_directory()?;
    }
    place.data()?.remove()?;
    Ok(())
}
