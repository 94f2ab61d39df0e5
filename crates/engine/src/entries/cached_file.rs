//! A file of an origin that is open, and what the cache holds of it.

use crate::{
    Error, Segment,
    base::latch::Latch,
    entries::{
        block_sums::WrittenSums,
        claims::Claims,
        closed_files::ClosedFile,
        file_account::FileAccount,
        file_context::FileContext,
        file_read_ahead::FileReadAhead,
        file_structure::FileStructure,
        from_origin::{FromOrigin, LastCheck},
        lazy_data_file::NotCreated,
        stored_entry::StoredEntry,
    },
    namespace::routes::OriginTarget,
};
use forebay_cache::{CacheKey, Cinfo, Geometry};
use forebay_index::Facts;
use forebay_net::NowaitReads;
use forebay_origin::{OriginError, OriginFile, SharedValue};
use forebay_store::VolumeId;
use forebay_telemetry::{DiskOperation, DropReason, NotKept};
use forebay_types::{BlockIndex, ByteRange, FileKind, FileStat, Lfn, OriginId, Validator};
use parking_lot::Mutex;
use std::{
    fs::File,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

mod clients;
mod departure;
mod other_origins;

/// A file of an origin, shared by all clients that have it open.
pub(crate) struct CachedFile {
    pub(crate) context: Arc<FileContext>,
    pub(crate) target: OriginTarget,
    pub(crate) geometry: Geometry,
    /// For stats, in seconds of the Unix epoch.
    mtime: i64,
    /// As of its open at the origin; empty if it was found on disk.
    pub(crate) validator: Validator,
    pub(crate) stored: Option<StoredEntry>,
    origin_file: Mutex<Arc<SharedValue<Arc<dyn OriginFile>, Error>>>,
    other_origins: Mutex<Vec<other_origins::OtherOrigin>>,
    pub(crate) claims: Claims,
    pub(crate) account: FileAccount,
    pub(crate) last_check: Mutex<LastCheck>,
    pub(crate) read_ahead: FileReadAhead,
    pub(crate) structure: FileStructure,
    /// Known from the first hit on.
    nowait_reads: OnceLock<NowaitReads>,
    /// Clients that have the file open. Changes under the record's lock, so that access periods follow each other.
    users: AtomicU64,
    /// Number of its last mention among the files that were left. Belongs to the table of open files, and changes under its lock.
    pub(crate) left_mention: AtomicU64,
    /// The organization of the first client that belongs to one.
    owner: OnceLock<String>,
    retired: Latch,
    /// Whether it has become another file at its origin, or none: it is not opened there any more.
    is_outdated: AtomicBool,
    discarded: Latch,
    /// Set when its disk is offline: what waits for that disk gives up.
    lost: Latch,
    /// Why the entry of a discarded file is still on disk.
    not_removed: OnceLock<Error>,
    /// It is not kept because the disks took nothing when it was opened.
    is_unkept_for_now: bool,
}

impl CachedFile {
    pub(crate) fn new(
        context: Arc<FileContext>,
        target: OriginTarget,
        geometry: Geometry,
        mtime: i64,
        stored: Option<StoredEntry>,
        from_origin: Option<FromOrigin>,
    ) -> Self {
        let opened = from_origin.as_ref();
        let validator = opened.map_or_else(Validator::default, |opened| opened.file.identity().validator);
        let (origin_file, last_check) = match from_origin {
            Some(FromOrigin { file, asked }) => (SharedValue::ready(file), asked),
            None => (SharedValue::default(), LastCheck::of(stored.as_ref())),
        };
        let link = context.admission.link(&target.server);
        // An earlier process may have published it: it must be made private before a block is taken back.
        if let Some(found) = stored.as_ref().filter(|stored| target.service.direct && stored.is_on_disk()) {
            found.note_maybe_published();
        }
        let read_ahead = target.read_ahead(context.options.read_ahead.settings);
        Self {
            read_ahead: FileReadAhead::new(read_ahead, link, geometry, context.metrics.clone()),
            structure: FileStructure::default(),
            nowait_reads: OnceLock::new(),
            context,
            target,
            geometry,
            mtime,
            validator,
            stored,
            origin_file: Mutex::new(Arc::new(origin_file)),
            other_origins: Mutex::default(),
            claims: Claims::default(),
            account: FileAccount::default(),
            last_check: Mutex::new(last_check),
            users: AtomicU64::new(0),
            left_mention: AtomicU64::new(0),
            owner: OnceLock::new(),
            retired: Latch::default(),
            is_outdated: AtomicBool::new(false),
            discarded: Latch::default(),
            lost: Latch::default(),
            not_removed: OnceLock::new(),
            is_unkept_for_now: false,
        }
    }

    pub(crate) const fn key(&self) -> Option<&CacheKey> {
        self.target.key.as_ref()
    }

    pub(crate) const fn lfn(&self) -> &Lfn {
        &self.target.path.lfn
    }

    pub(crate) const fn server(&self) -> &OriginId {
        &self.target.server
    }

    pub(crate) const fn size(&self) -> u64 {
        self.geometry.file_size()
    }

    pub(crate) fn volume(&self) -> Option<VolumeId> {
        self.stored.as_ref().map(|stored| stored.data.volume())
    }

    /// Whether nothing is to be written of it for now, if it is kept at all.
    pub(crate) fn is_disk_paused(&self) -> bool {
        let is_paused =
            |stored: &StoredEntry| !stored.data.is_writable() || self.context.is_paused(stored.data.volume());
        self.stored.as_ref().is_none_or(is_paused)
    }

    /// Whether no more of it may be kept, because its disk is full or it has its share of it.
    pub(crate) fn has_no_room(&self) -> bool {
        self.stored.as_ref().is_some_and(|stored| {
            let volume = stored.data.volume();
            let ledger = &self.context.purge_ledger;
            ledger.is_full(Some(volume)) || ledger.has_its_share(volume, self.size(), stored.map.written_bytes())
        })
    }

    /// Whether nothing that is fetched of it could be kept for now.
    pub(crate) fn keeps_nothing(&self) -> bool {
        self.is_disk_paused() || self.has_no_room()
    }

    pub(crate) fn stat(&self) -> FileStat {
        let record = self.stored.as_ref().map(|stored| stored.record.lock());
        let mark = record.as_ref().and_then(|record| record.mark.as_ref());
        let validator = mark.map_or(&self.validator, |mark| &mark.validator);
        file_stat(&self.target, self.size(), self.mtime, self.counts_as_cached(), validator)
    }

    /// Whether the file counts as cached by the settings of its first open.
    pub(crate) fn counts_as_cached(&self) -> bool {
        let criteria = &self.target.decisions.options.cached;
        self.stored.as_ref().is_some_and(|stored| criteria.are_met(stored.map.written_bytes(), self.size()))
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.stored.as_ref().is_some_and(|stored| stored.map.is_complete())
    }

    /// The data file, when it holds all of `range`.
    pub(crate) fn hit(&self, range: ByteRange) -> Option<&Arc<File>> {
        self.stored.as_ref().filter(|stored| stored.map.holds(range)).map(|stored| stored.data.file())
    }

    /// Whether reads of the data file can be limited to the page cache.
    pub(crate) fn nowait_reads(&self) -> NowaitReads {
        *self.nowait_reads.get_or_init(|| {
            let data = self.stored.as_ref().map(|stored| &stored.data);
            data.map_or_else(NowaitReads::default, |data| self.context.nowait_reads(data.volume(), data.file()))
        })
    }

    /// The part of `range` that is on disk in one run from its start.
    pub(crate) fn present_part(&self, range: ByteRange) -> ByteRange {
        let end = self.stored.as_ref().map_or_else(|| range.start(), |stored| stored.map.present_run(range.start()));
        ByteRange::between(range.start(), end.min(range.end()))
    }

    pub(crate) fn segment(&self, range: ByteRange) -> Result<Segment, Error> {
        match &self.stored {
            Some(stored) if !range.is_empty() => Ok(Segment::File { file: Arc::clone(stored.data.file()), range }),
            _ => Err(Error::Internal { what: "bytes on disk are not there" }),
        }
    }

    /// The file at its origin, opened when first needed, to read `first`; it must be the same file as the one that is cached.
    pub(crate) async fn origin_file(self: &Arc<Self>, first: ByteRange) -> Result<Arc<dyn OriginFile>, Error> {
        let changed = || Error::Changed { lfn: self.lfn().clone() };
        if self.is_outdated() {
            return Err(changed());
        }
        let file = Arc::clone(self);
        let open = || async move {
            // Requested without the lock of `origin_file`: readers of other ranges join the same open.
            let opened = file.origins().open_to_read(&file.target.path, first).await?;
            let is_same = file.matches(&opened.identity());
            if !is_same {
                file.retire(DropReason::Changed);
            }
            // It may have been found changed by another way while it was being opened.
            if is_same && !file.is_outdated() { Ok(opened) } else { Err(Error::Changed { lfn: file.lfn().clone() }) }
        };
        let opening = Arc::clone(&self.origin_file.lock());
        // A failed open is not kept: the next reader tries again.
        let opened = opening.get_or_make(|_| true, open).await;
        opened.unwrap_or(Err(Error::Internal { what: "opening a file at its origin broke off" }))
    }

    fn is_outdated(&self) -> bool {
        self.is_outdated.load(Ordering::Acquire)
    }

    /// Closes the file at its origin. An xrootd answers an open with the file that other clients have open under its name, whatever
    /// has been put in its place: no client gets a new copy as long as the old one is open.
    fn close_at_origin(&self) {
        *self.origin_file.lock() = Arc::default();
    }

    /// Takes note of an error on the way to the client, and turns it into one that helps: a changed file is not cached any
    /// longer, and opening it again leads to its new content.
    pub(crate) fn note_failure(self: &Arc<Self>, error: Error) -> Error {
        // Only the origin's own report that the file changed: all other errors say nothing about the content.
        if !matches!(error, Error::Origin(OriginError::Changed { .. })) {
            return error;
        }
        self.retire(DropReason::Changed);
        Error::Changed { lfn: self.lfn().clone() }
    }

    /// Notes blocks that were written, unless they must not be trusted.
    pub(crate) fn note_written(&self, stored: &StoredEntry, blocks: ByteRange, sums: &WrittenSums, verified: bool) {
        self.context.metrics.add_disk_written(blocks.len());
        self.account.add_written(blocks.len());
        // Asked under the record's lock: a retired file must not gain blocks after it was sealed.
        let grown = stored.note_written(blocks, sums, verified, || !self.is_retired());
        if let (Some((before, present)), Some(key)) = (grown, self.key()) {
            self.context.purge_ledger.note_grown(key, stored.data.volume(), before, present);
        }
    }

    /// Where the data file is, for logs.
    pub(crate) fn path_on_disk(&self) -> PathBuf {
        let disk = self.context.disk.as_ref();
        let key = self.key();
        disk.zip(key).map(|(disk, key)| disk.local_path(key)).unwrap_or_default()
    }

    /// The stored checksums of the blocks in chunk number `chunk`, by position; `None` without an index to ask. Blocking.
    pub(crate) fn stored_sums(&self, stored: &StoredEntry, chunk: u64) -> Option<Vec<(usize, u32)>> {
        let catalog = self.context.catalog.as_ref()?;
        let key = self.key()?;
        catalog.block_sums(key, stored.generation(), chunk)
    }

    /// Has the checksums stored that were noted since the last call.
    pub(crate) fn store_sums(&self, stored: &StoredEntry) {
        let (Some(catalog), Some(key)) = (&self.context.catalog, self.key()) else { return };
        let sums = stored.sums.lock().take_changed();
        // Nothing new: most syncs have no sums to note.
        if !sums.is_empty() {
            let block_sums = sums.into_iter().map(|(index, sum)| (index.0, Some(sum))).collect();
            catalog.note_learnt(key, stored.generation(), Facts { block_sums, ..Facts::default() });
        }
    }

    /// Remembers which blocks are trusted, so that they are not checked again when the file is opened again.
    pub(crate) fn remember_trust(&self) {
        if let Some(stored) = self.stored.as_ref().filter(|stored| stored.is_on_disk() && !self.is_retired()) {
            let is_recorded = stored.record.lock().is_clean();
            let file = stored.data_file_id();
            self.context.trust.of(&file).lock().remember(file, &stored.map, is_recorded);
        }
    }

    /// Notes the last use of the file for the index, unless that is done; false if it is.
    pub(crate) fn note_use(&self) -> bool {
        let Some((key, stored)) = self.key().zip(self.stored.as_ref()) else { return false };
        // As for the note of a record: none follows the note of the end.
        let _noting = stored.noting.lock();
        if self.is_retired() || !stored.is_on_disk() {
            return false;
        }
        let (cinfo, mark) = {
            let mut record = stored.record.lock();
            // Blocks that are not on disk yet are noted with their record, and the use with them.
            let is_recorded = record.is_clean() && stored.map.unsynced_count() == 0;
            if !is_recorded || !std::mem::take(&mut record.is_use_unnoted) {
                return false;
            }
            (Cinfo { blocks: stored.map.snapshot_written(), ..record.cinfo.clone() }, record.mark.clone())
        };
        let last_use = if self.is_open() { forebay_net::clock::now_unix() } else { cinfo.last_access() };
        self.context.note_entry(key, stored.data.as_ref(), &cinfo, mark.as_ref(), last_use);
        true
    }

    /// The version of its record on disk and in memory, if it has one.
    pub(crate) fn record_version(&self) -> Option<u64> {
        self.stored.as_ref().map(|stored| stored.record.version())
    }

    /// The facts to keep of the file once it is closed; `None` when its record on disk is not what it should be.
    pub(crate) fn closed(&self) -> Option<ClosedFile> {
        let stored = self.stored.as_ref().filter(|stored| stored.is_on_disk() && !self.is_retired())?;
        stored.closed(self.owner())
    }

    /// Counts a failure to read blocks that should be on disk.
    pub(crate) fn note_read_failure(&self) {
        self.context.metrics.add_disk_error(DiskOperation::Read);
    }

    /// Notes blocks that were not written because the disk had failed, or become full, a moment before.
    pub(crate) fn note_not_written(&self, blocks: u64) {
        let reason = if self.has_no_room() { NotKept::DiskFull } else { self.context.reason_of_pause(self.volume()) };
        self.context.metrics.add_not_kept(reason, blocks);
    }

    /// Notes that what is missing of `blocks` will not be fetched to make them whole, and why.
    pub(crate) fn note_cut(&self, blocks: ByteRange, reason: NotKept) {
        let is_written = |index| self.stored.as_ref().is_some_and(|stored| stored.map.is_written(BlockIndex(index)));
        let cut = self.geometry.blocks_of(blocks).filter(|index| !is_written(*index)).count();
        self.context.metrics.add_not_kept(reason, cut as u64);
    }

    pub(crate) fn note_write_failure(self: &Arc<Self>, error: &io::Error, blocks: u64) {
        if let Some(NotCreated(error)) = error.get_ref().and_then(|error| error.downcast_ref()) {
            self.context.note_not_created(self.volume(), error, blocks);
            if error.concerns_one_entry() {
                // Something is in its place; nothing of it can be kept.
                self.retire(DropReason::Damaged);
            }
            return;
        }
        let reason = self.context.note_io_failure(DiskOperation::Write, self.volume(), error);
        self.context.metrics.add_not_kept(reason, blocks);
    }
}

/// The attributes of a file of an origin, from its size, the time of change that clients are shown, and its validator.
pub(crate) fn file_stat(target: &OriginTarget, size: u64, mtime: i64, cached: bool, validator: &Validator) -> FileStat {
    let mut hasher = DefaultHasher::new();
    (&target.server, &target.path.lfn).hash(&mut hasher);
    let id = hasher.finish() >> 1;
    FileStat {
        id,
        kind: FileKind::File,
        size,
        mtime,
        readable: true,
        executable: false,
        offline: false,
        cached,
        access: None,
        // The common case, on `root://`, needs no copy.
        validator: (*validator != Validator::of_mtime(mtime)).then(|| Arc::new(validator.clone())),
    }
}
