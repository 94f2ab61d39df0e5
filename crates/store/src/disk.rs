//! The interface of disks.

use crate::{
    OriginMark, Scan, StoreError,
    volume::{FileIdentity, FileState, MayWait, Space, VolumeId, VolumeInfo},
};
use bytes::Bytes;
use forebay_cache::{CacheKey, Cinfo};
use forebay_types::Endpoint;
use std::{fmt, fs::File, io, path::PathBuf, sync::Arc};

/// A disk that keeps entries. All methods block.
///
/// At most one caller at a time works on one key's entry as a whole (opens, creates or removes it); reads, writes and
/// record updates through an entry's [`DataFile`] may continue meanwhile.
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// Opens the entry of `key`, or returns `None` when there is none that can be used. A record that cannot be read, or
    /// whose data is missing or too short, is removed together with its data; the reason is logged.
    ///
    /// # Errors
    /// When the disk fails. The entry is left as it was: nothing is known of it.
    fn open_entry(&self, key: &CacheKey) -> Result<Option<Entry>, StoreError>;

    /// Opens the data file of `key` on `volume` again if it is still the file that was closed in `state`; what its record says is known
    /// to the caller. `None` when it is not, or that is not known because it may not wait and would have to: then
    /// [`Self::open_entry`] finds what there is.
    fn reopen(
        &self,
        key: &CacheKey,
        volume: VolumeId,
        state: &FileState,
        may_wait: MayWait,
    ) -> Option<Arc<dyn DataFile>> {
        let _ = (key, volume, state, may_wait);
        None
    }

    /// Creates the entry of `key` with an empty data file and the record `cinfo`, which should hold no block. An entry that is
    /// there is replaced. Nothing is synced.
    ///
    /// # Errors
    /// When the disk fails or is full; then no entry is left.
    fn create_entry(&self, key: &CacheKey, cinfo: Cinfo, origin: Option<OriginMark>) -> Result<Entry, StoreError>;

    /// As [`Self::create_entry`], unless there is an entry, or what may be one: then that is left alone, and `None` is returned.
    ///
    /// # Errors
    /// As for [`Self::create_entry`], and [`Self::open_entry`].
    fn create_entry_if_free(
        &self,
        key: &CacheKey,
        cinfo: Cinfo,
        origin: Option<OriginMark>,
    ) -> Result<Option<Entry>, StoreError> {
        match self.open_entry(key)? {
            Some(_) => Ok(None),
            None => self.create_entry(key, cinfo, origin).map(Some),
        }
    }

    /// The disk that a new entry goes to, when that is known without asking how much room there is. Never blocks.
    fn volume_for_new(&self) -> Option<VolumeId> {
        None
    }

    /// Replaces the record of `key`'s entry by `cinfo`, which is synced before it takes the place of the old record: a crash leaves one
    /// of both. `data` is the entry's data file, synced before.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] when `key` no longer names `data`; else when the disk fails or is full. The old record
    /// is left as it was.
    fn write_cinfo(
        &self,
        key: &CacheKey,
        data: &dyn DataFile,
        cinfo: &Cinfo,
        origin: Option<&OriginMark>,
    ) -> Result<(), StoreError> {
        self.write_cinfos(&[NewRecord { key, data, cinfo, origin, is_first: false }]).into_iter().collect()
    }

    /// Makes durable what was written to `files` before this call, as [`DataFile::sync_data`] does; what became of each, in
    /// their order. Many files cost less together.
    fn sync_data_of(&self, files: &[&dyn DataFile]) -> Vec<io::Result<()>> {
        files.iter().map(|file| file.sync_data()).collect()
    }

    /// Whether `data` becomes durable at less cost among many files than alone. Never blocks.
    fn gains_from_batch_sync(&self, data: &dyn DataFile) -> bool {
        let _ = data;
        false
    }

    /// Replaces records as [`Self::write_cinfo`] does, each of another entry; what became of each, in their order. Many records
    /// cost less together.
    fn write_cinfos(&self, records: &[NewRecord<'_>]) -> Vec<Result<(), StoreError>>;

    /// Removes the entry of `key`, the record first. A missing entry is not an error.
    ///
    /// # Errors
    /// When the disk fails.
    fn remove_entry(&self, key: &CacheKey) -> Result<(), StoreError>;

    /// Removes the entries of `keys`, each record first, and directories that this leaves empty; what became of each, in the
    /// order of `keys`. Nothing is synced: a crash may bring back an entry, as a whole or without its record, but never an
    /// old record next to new data. Entries on a disk that is offline stay there, and come back with it; that is not an error.
    fn remove_entries(&self, keys: &[CacheKey]) -> Vec<Result<(), StoreError>> {
        keys.iter().map(|key| self.remove_entry(key)).collect()
    }

    /// Makes the removals of [`Self::remove_entries`] durable, so that creating one of these entries again need not.
    ///
    /// # Errors
    /// When the disk fails.
    fn settle_removals(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// As [`Self::settle_removals`], with each piece of the work run by `run`, which returns what the piece returns; an error ends it.
    ///
    /// # Errors
    /// As for [`Self::settle_removals`].
    fn settle_removals_in_pieces(&self, run: &PieceRunner<'_>) -> Result<(), StoreError> {
        run(&|| self.settle_removals())
    }

    /// Number of removals that [`Self::settle_removals`] would make durable. Never blocks.
    fn unsettled_removals(&self) -> usize {
        0
    }

    /// Closes the data file of `key` to others than this server, unless one of them has read it since `since` (seconds of the Unix
    /// epoch), or was sent there: then it stays as it is, and this is false. True if no other process could read it anyway.
    ///
    /// A process that sends others there sets the time of access first and checks the permissions then: so one of both notices the other.
    ///
    /// # Errors
    /// When the disk fails.
    fn close_to_others(&self, key: &CacheKey, since: i64) -> Result<bool, StoreError> {
        let _ = (key, since);
        Ok(true)
    }

    /// Notes that the entry of `key` was used at `now` (seconds of the Unix epoch), for the choice of what to purge.
    ///
    /// # Errors
    /// When there is no such entry, or the disk fails.
    fn touch(&self, key: &CacheKey, now: i64) -> Result<(), StoreError>;

    /// The room of the file system, as of now.
    ///
    /// # Errors
    /// When the disk does not report it.
    fn space(&self) -> Result<Space, StoreError>;

    /// Which process keeps the entry of `key`. Never blocks.
    fn holder(&self, key: &CacheKey) -> Holder {
        let _ = key;
        Holder::This
    }

    /// Where the data file of `key` is, for clients that see the same file system.
    fn local_path(&self, key: &CacheKey) -> PathBuf;

    /// The disks that entries are kept on, one at least, in the order of their numbers.
    fn volumes(&self) -> Vec<VolumeInfo>;

    /// Whether `volume` is used at all. Never blocks.
    fn is_online(&self, volume: VolumeId) -> bool {
        let _ = volume;
        true
    }

    /// Whether entries on `volume` may be written for now. Never blocks.
    fn is_writable(&self, volume: VolumeId) -> bool {
        let _ = volume;
        true
    }

    /// Whether `volume` is not written because it has no room. Never blocks.
    fn is_full(&self, volume: VolumeId) -> bool {
        let _ = volume;
        false
    }

    /// Notes that data of an entry on `volume` could not be read through [`DataFile::file`]. Never blocks.
    fn note_read_failure(&self, volume: VolumeId, error: &io::Error) {
        let _ = (volume, error);
    }

    /// Checks for operations that hang, and returns the disks that are to be probed now: each of them must be, by
    /// [`Self::probe`]. Never blocks.
    fn due_probes(&self) -> Vec<VolumeId> {
        Vec::new()
    }

    /// Begins a walk over the entries of `volume`: all of them, or those in directories in which something was created or
    /// removed since a time in seconds of the Unix epoch.
    ///
    /// # Errors
    /// When the disk fails.
    fn scan(&self, volume: VolumeId, changed_since: Option<i64>) -> Result<Box<dyn Scan>, StoreError>;

    /// Writes, syncs and reads back a small file on `volume`; a disk of several is back in use when that succeeds.
    ///
    /// # Errors
    /// When the disk fails.
    fn probe(&self, volume: VolumeId) -> Result<(), StoreError>;
}

/// Runs a piece of the work of an operation that takes long.
pub type PieceRunner<'a> = dyn Fn(&dyn Fn() -> Result<(), StoreError>) -> Result<(), StoreError> + 'a;

/// The process that keeps an entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Holder {
    This,
    /// Another filler of the same store, and where it is, if it is known to answer.
    Other(Option<Endpoint>),
}

/// The data file of an entry: block *i* lies at *i* times the block size, blocks not written yet are holes.
pub trait DataFile: fmt::Debug + Send + Sync + 'static {
    /// The open file, for reading blocks that are present.
    fn file(&self) -> &Arc<File>;

    /// Which file this is, whatever name it has by now.
    fn identity(&self) -> FileIdentity;

    /// The number of the disk that holds it.
    fn volume(&self) -> VolumeId;

    /// The state in which it was opened; `None` when it was created since.
    fn state_when_opened(&self) -> Option<FileState> {
        None
    }

    /// Whether it may be written; `false` when it was opened while its file system could only be read.
    fn is_writable(&self) -> bool {
        true
    }

    /// Writes `chunks` one after the other from `offset` (bytes) on.
    ///
    /// # Errors
    /// When the disk fails or is full; some of the bytes may have been written.
    fn write_vectored_at(&self, offset: u64, chunks: &[Bytes]) -> io::Result<()>;

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// When the disk fails, or the file ends before.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Makes everything written before this call durable.
    ///
    /// # Errors
    /// When the disk fails. Then nothing is known of what was written since the last success: those blocks must not be
    /// recorded, not even after a later success.
    fn sync_data(&self) -> io::Result<()>;
}

/// A record that is to replace the one of an entry.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    pub key: &'a CacheKey,
    pub data: &'a dyn DataFile,
    pub cinfo: &'a Cinfo,
    pub origin: Option<&'a OriginMark>,
    /// Whether the record to be replaced is the one that the entry was created with: it names no block, so that it need not
    /// outlive a crash.
    pub is_first: bool,
}

/// An open entry: data, record, and the identity of its origin's file.
#[derive(Clone, Debug)]
pub struct Entry {
    pub data: Arc<dyn DataFile>,
    pub cinfo: Cinfo,
    /// The origin's file when the entry was created; `None` for entries of XCache, and on file systems
    /// without extended attributes.
    pub origin: Option<OriginMark>,
}

impl Entry {
    /// The disk that the entry is on.
    pub fn volume(&self) -> VolumeId {
        self.data.volume()
    }
}
