//! The files of an entry that come into being with the first write to it.
//!
//! An open of a file that is not cached does not wait for the disk: creating its files and writing its first blocks is one
//! piece of work. A file of which nothing is written leaves nothing on the disk.

use crate::entries::file_context::FileContext;
use bytes::Bytes;
use forebay_cache::{CacheKey, Cinfo};
use forebay_store::{DataFile, Disk, Entry, FileIdentity, OriginMark, StoreError, VolumeId};
use parking_lot::Mutex;
use std::{
    fmt,
    fs::File,
    io,
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// A data file that is created, together with its record, when it is written first.
pub(crate) struct LazyDataFile {
    context: Arc<FileContext>,
    key: CacheKey,
    cinfo: Cinfo,
    mark: OriginMark,
    /// The disk that it is going to be on.
    volume: VolumeId,
    data: OnceLock<Arc<dyn DataFile>>,
    /// Held while the files are created.
    turn: Mutex<()>,
    is_sealed: AtomicBool,
}

/// Why the files of an entry were not created; counted and logged where it happened.
#[derive(Debug, thiserror::Error)]
#[error("the entry could not be created: {0}")]
pub(crate) struct NotCreated(#[source] pub(crate) StoreError);

/// Stands for a file that does not exist yet: reads return nothing.
static NOTHING: LazyLock<Arc<File>> =
    LazyLock::new(|| Arc::new(File::open("/dev/null").expect("there is always a null device")));

impl LazyDataFile {
    pub(crate) fn new(
        context: Arc<FileContext>,
        key: CacheKey,
        cinfo: Cinfo,
        mark: OriginMark,
        volume: VolumeId,
    ) -> Self {
        let data = OnceLock::new();
        let turn = Mutex::new(());
        let is_sealed = AtomicBool::new(false);
        Self { context, key, cinfo, mark, volume, data, turn, is_sealed }
    }

    pub(crate) fn is_created(&self) -> bool {
        self.data.get().is_some()
    }

    /// The file is not to be created any more. One that is being created may be there a moment later.
    pub(crate) fn seal(&self) {
        self.is_sealed.store(true, Ordering::Release);
    }

    /// Waits for a creation under way. Blocking.
    pub(crate) fn wait(&self) {
        drop(self.turn.lock());
    }

    /// The file, created if need be. Blocking.
    fn created(&self) -> io::Result<&Arc<dyn DataFile>> {
        if let Some(data) = self.data.get() {
            return Ok(data);
        }
        let _turn = self.turn.lock();
        // A second look under the lock: another writer may have created the file in the meantime.
        if let Some(data) = self.data.get() {
            return Ok(data);
        }
        // Sealed files stay away: their entry was removed, and a late write would bring it back.
        if self.is_sealed.load(Ordering::Acquire) {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the entry was dropped before it was created"));
        }
        let disk = self.context.disk.as_ref().ok_or_else(|| io::Error::other(StoreError::NoVolume))?;
        let entry = self.create(disk.as_ref()).map_err(|error| io::Error::other(NotCreated(error)))?;
        // Noted before the file is visible: its first growth is accounted after its creation.
        self.context.note_created(&self.key, &entry);
        Ok(self.data.get_or_init(|| entry.data))
    }

    /// Replaces an entry that is there although none was known.
    fn create(&self, disk: &dyn Disk) -> Result<Entry, StoreError> {
        let cinfo = self.cinfo.clone();
        let mark = Some(self.mark.clone());
        disk.create_entry(&self.key, cinfo, mark)
    }
}

impl DataFile for LazyDataFile {
    fn file(&self) -> &Arc<File> {
        self.data.get().map_or(&NOTHING, |data| data.file())
    }

    fn identity(&self) -> FileIdentity {
        self.data.get().map_or(FileIdentity { device: 0, inode: 0 }, |data| data.identity())
    }

    fn volume(&self) -> VolumeId {
        self.data.get().map_or(self.volume, |data| data.volume())
    }

    fn is_writable(&self) -> bool {
        self.data.get().is_none_or(|data| data.is_writable())
    }

    fn write_vectored_at(&self, offset: u64, chunks: &[Bytes]) -> io::Result<()> {
        self.created()?.write_vectored_at(offset, chunks)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self.data.get() {
            Some(data) => data.read_exact_at(buffer, offset),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.data.get().map_or(Ok(()), |data| data.sync_data())
    }
}

impl fmt::Debug for LazyDataFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyDataFile").field("key", &self.key).field("data", &self.data).finish_non_exhaustive()
    }
}
