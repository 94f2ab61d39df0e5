//! Making an open file: from what the disk holds of it, else from its origin.

use crate::{
    CheckPolicy, Error,
    base::options::BYPASS_LEN_MAX,
    entries::{
        cached_file::{CachedFile, file_stat},
        closed_files::ClosedFile,
        file_context::FileContext,
        from_origin::{FromOrigin, LastCheck, OriginGrant},
        lazy_data_file::LazyDataFile,
        stored_entry::StoredEntry,
    },
    link::memory_budget::HeldMemory,
    namespace::routes::OriginTarget,
};
use forebay_cache::{CacheKey, ChecksumState, Cinfo, Geometry, Remembered, Trust};
use forebay_origin::{Checksum, OriginError};
use forebay_store::{Entry, MayWait, OriginMark, StoreError};
use forebay_telemetry::{DiskOperation, NotKept};
use forebay_types::{BlockSize, ByteRange, FileStat, Validator};
use std::{io, os::unix::fs::MetadataExt, sync::Arc, time::Duration};

/// How long an open waits for the disk: one that hangs is offline by then, and its files are misses.
const DISK_WAIT_MAX: Duration = Duration::from_secs(30);

/// Loads a file into the table: from the disk when it holds a part of it, else from the origin.
///
/// `checksum` asks the origin for the checksum of the file, where copies are compared by it.
///
/// Where the disk is not known to hold anything the origin is asked first, and the disk only when that fails or an entry is made.
pub(crate) async fn load(
    context: Arc<FileContext>,
    target: OriginTarget,
    grant: Option<OriginGrant>,
    checksum: impl Future<Output = Option<Checksum>> + Send,
) -> Result<Arc<CachedFile>, Error> {
    // A file without a key is never in the table.
    let Some(key) = target.key.clone() else { return Err(Error::Internal { what: "a file without a key was loaded" }) };
    if let Some(file) = reopen_waiting(&context, &target, &key).await? {
        return Ok(file);
    }
    let is_disk_first = context.catalog.as_ref().is_none_or(|catalog| catalog.may_have(&key));
    if is_disk_first && let Some(entry) = open_entry(&context, key.clone(), true).await {
        return Ok(Arc::new(found(&context, target, entry).await?));
    }
    // Before the file is opened: if it changes in between, the next check finds another checksum and no harm is done.
    let checksum = if target.validity.compares_checksum { checksum.await } else { None };
    let block_size = target.caching.block_size.unwrap_or(context.options.block_size);
    let first = to_end_of_block(target.first_read, block_size, context.options.fill_len_max);
    let opened = match open_at_origin(&context, &target, grant, first).await {
        Ok(opened) => opened,
        // The disk was asked before the origin: it holds nothing to fall back to.
        Err(error) if is_disk_first => return Err(error.into()),
        Err(error) => {
            let entry = open_entry(&context, key, true).await.ok_or(error)?;
            return Ok(Arc::new(found(&context, target, entry).await?));
        }
    };
    let identity = opened.file.identity();
    let known = identity.validator.checksum().cloned();
    let validator = identity.validator.with_checksum(checksum.or(known));
    let mark = OriginMark::new(identity.origin, validator);
    // A size that no geometry can hold is passed through without keeping it.
    let geometry = Geometry::of_new_file(block_size, identity.size).ok();
    let mtime = mark.validator.mtime();
    let made = match create_entry(&context, key.clone(), geometry, mark, is_disk_first).await {
        Creation::Taken => match open_entry(&context, key, true).await {
            Some(entry) => found(&context, target, entry).await?,
            None => unkept(&context, target, opened)?.for_now(),
        },
        Creation::Refused { for_now: true } => unkept(&context, target, opened)?.for_now(),
        Creation::Refused { for_now: false } => unkept(&context, target, opened)?,
        Creation::Made(stored) => {
            let geometry = stored.map.geometry();
            let mtime = mtime.unwrap_or(stored.record.lock().cinfo.created);
            CachedFile::new(context, target, geometry, mtime, Some(*stored), Some(opened))
        }
    };
    Ok(Arc::new(made))
}

/// A file of which the disk holds a part.
async fn found(context: &Arc<FileContext>, target: OriginTarget, entry: Entry) -> Result<CachedFile, Error> {
    let geometry = entry.cinfo.geometry;
    let memory = memory_of_maps(context, &entry).await?;
    let mtime = mtime_of(&entry);
    let stored = stored_on_disk(context, entry).with_map_memory(memory);
    Ok(CachedFile::new(Arc::clone(context), target, geometry, mtime, Some(stored), None))
}

/// Memory for the maps of an entry that was found.
async fn memory_of_maps(context: &FileContext, entry: &Entry) -> Result<HeldMemory, Error> {
    let limit = context.options.open_wait_max;
    let memory = tokio::time::timeout(limit, context.budget.reserve_maps(entry.cinfo.geometry)).await;
    memory.map_err(|_| Error::OutOfMemory { seconds: limit.as_secs() })
}

/// A file that was closed before, unless it is not known any more, or is to be loaded: because its data file is another one now, or
/// a look at it would have to wait.
pub(crate) fn reopen(context: &Arc<FileContext>, target: &OriginTarget, key: &CacheKey) -> Option<Arc<CachedFile>> {
    let disk = context.disk.as_ref()?;
    let closed = context.closed.take(key)?;
    let opened = closed.open(disk.as_ref(), key, MayWait::No);
    let made = opened.and_then(|entry| {
        let memory = context.budget.try_reserve_maps(entry.cinfo.geometry)?;
        Some(reopened(context, target, &closed, entry, memory))
    });
    if made.is_none() {
        // It may be the same all the same: the load looks again, and may wait for the disk.
        context.closed.insert(key, closed);
    }
    made
}

/// As [`reopen`], except that it waits: for the disk, and for memory. The record in memory is forgotten if the file is another one.
async fn reopen_waiting(
    context: &Arc<FileContext>,
    target: &OriginTarget,
    key: &CacheKey,
) -> Result<Option<Arc<CachedFile>>, Error> {
    let Some(disk) = context.disk.clone() else { return Ok(None) };
    let Some(closed) = context.closed.take(key) else { return Ok(None) };
    let opening = (closed.clone(), key.clone());
    let opened = context.options.workers.run(move || opening.0.open(disk.as_ref(), &opening.1, MayWait::Yes));
    // A disk that hangs is noticed by the load that follows.
    let Ok(Ok(Some(entry))) = tokio::time::timeout(DISK_WAIT_MAX, opened).await else { return Ok(None) };
    match memory_of_maps(context, &entry).await {
        Ok(memory) => Ok(Some(reopened(context, target, &closed, entry, memory))),
        Err(error) => {
            // It is as it was: a later open finds it here.
            context.closed.insert(key, closed);
            Err(error)
        }
    }
}

fn reopened(
    context: &Arc<FileContext>,
    target: &OriginTarget,
    closed: &ClosedFile,
    entry: Entry,
    memory: HeldMemory,
) -> Arc<CachedFile> {
    let geometry = entry.cinfo.geometry;
    let mtime = mtime_of(&entry);
    let trust = trust_on_disk(context);
    let stored = recalled(context, StoredEntry::reopened(entry, trust, closed)).with_map_memory(memory);
    let file = CachedFile::new(Arc::clone(context), target.clone(), geometry, mtime, Some(stored), None);
    file.note_owner(closed.owner.as_deref());
    Arc::new(file)
}

/// An entry that was found on disk. Blocks that this process has written or checked before are trusted.
fn stored_on_disk(context: &FileContext, entry: Entry) -> StoredEntry {
    recalled(context, StoredEntry::new(entry, trust_on_disk(context)))
}

const fn trust_on_disk(context: &FileContext) -> Trust {
    match context.options.integrity.check {
        CheckPolicy::FirstRead => Trust::Checked,
        CheckPolicy::Never => Trust::Given,
    }
}

fn recalled(context: &FileContext, stored: StoredEntry) -> StoredEntry {
    // Only blocks that are not trusted yet can profit from what is remembered.
    if stored.map.has_untrusted() {
        let file = stored.data_file_id();
        context.trust.of(&file).lock().recall(file, &stored.map);
    }
    stored
}

/// The first range that a fill for a read of `range` requests, if the disk holds nothing of the file. It ends with a block, at most
/// `len_max` bytes after the beginning of the first block.
fn to_end_of_block(range: ByteRange, block_size: BlockSize, len_max: u64) -> ByteRange {
    let size = block_size.bytes();
    let begin = range.start() - range.start() % size;
    let end = range.end().checked_next_multiple_of(size).unwrap_or(u64::MAX);
    if range.is_empty() { range } else { ByteRange::between(range.start(), end.min(begin.saturating_add(len_max))) }
}

/// Opens a file at its origin, unless that was just done for the client. A missing name is remembered, also for later callers.
async fn open_at_origin(
    context: &FileContext,
    target: &OriginTarget,
    grant: Option<OriginGrant>,
    first: ByteRange,
) -> Result<FromOrigin, OriginError> {
    if target.is_as_client()
        && let Some(OriginGrant::Open(opened)) = grant
    {
        return Ok(opened);
    }
    if let Some(missing) = target.key.as_ref().and_then(|key| target.decisions.missing(key)) {
        context.metrics.add_negative_hit();
        return Err(missing);
    }
    let asked = LastCheck::begun_now();
    let opened = target.origin.open_to_read(&target.path, first).await;
    // A refusal to one client says nothing about the others: it is not remembered.
    if let (Err(error), Some(key)) = (&opened, &target.key)
        && !target.is_as_client()
    {
        target.decisions.note_answer(key, error);
    }
    opened.map(|file| FromOrigin { file, asked })
}

/// A file that is not to be kept, opened at its origin.
pub(crate) async fn load_unkept(
    context: &Arc<FileContext>,
    target: OriginTarget,
    grant: Option<OriginGrant>,
    reason: NotKept,
) -> Result<Arc<CachedFile>, Error> {
    // One file, whatever its size: its blocks are never counted.
    context.metrics.add_not_kept(reason, 1);
    let first = target.first_read.clipped_to(target.first_read.start().saturating_add(BYPASS_LEN_MAX));
    let opened = open_at_origin(context, &target, grant, first).await?;
    Ok(Arc::new(unkept(context, target, opened)?))
}

/// The entry of a file that is not open, if there is one; it does not count as used.
pub(crate) async fn closed_entry(context: &Arc<FileContext>, key: &CacheKey) -> Option<Entry> {
    let disk = context.disk.as_ref()?;
    let known = context.closed.get(key).and_then(|closed| closed.open(disk.as_ref(), key, MayWait::No));
    match known {
        Some(entry) => Some(entry),
        None => open_entry(context, key.clone(), false).await,
    }
}

pub(crate) struct ClosedCopy {
    pub(crate) stat: FileStat,
    /// When it was last found to be its origin's, in seconds of the Unix epoch.
    pub(crate) last_check: i64,
    /// The properties that distinguish it from another file under its name.
    pub(crate) remembered: Remembered,
}

pub(crate) async fn closed_copy(context: &Arc<FileContext>, target: &OriginTarget) -> Option<ClosedCopy> {
    let entry = closed_entry(context, target.key.as_ref()?).await?;
    let cinfo = &entry.cinfo;
    let mark = entry.origin.as_ref();
    let size = cinfo.geometry.file_size();
    let is_cached = target.decisions.options.cached.are_met(cinfo.present_bytes(), size);
    let validator = mark.map_or_else(Validator::default, |mark| mark.validator.clone());
    Some(ClosedCopy {
        stat: file_stat(target, size, mtime_of(&entry), is_cached, &validator),
        last_check: forebay_store::last_check(cinfo, mark),
        remembered: Remembered { size, validator, created: cinfo.created },
    })
}

/// A file that is passed through without keeping it.
fn unkept(context: &Arc<FileContext>, target: OriginTarget, opened: FromOrigin) -> Result<CachedFile, Error> {
    let identity = opened.file.identity();
    let too_large = |error: forebay_cache::GeometryError| {
        Error::Origin(OriginError::Protocol { endpoint: identity.origin.endpoint.clone(), what: error.to_string() })
    };
    // Nothing is stored: the largest blocks admit the largest files.
    let geometry = Geometry::of_new_file(BlockSize::MAX, identity.size).map_err(too_large)?;
    let mtime = identity.validator.mtime().unwrap_or_else(forebay_net::clock::now_unix);
    Ok(CachedFile::new(Arc::clone(context), target, geometry, mtime, None, Some(opened)))
}

/// The entry on disk under `key`, if any; a disk that fails holds nothing.
async fn open_entry(context: &Arc<FileContext>, key: CacheKey, is_access: bool) -> Option<Entry> {
    let disk = Arc::clone(context.disk.as_ref()?);
    let opening = Arc::clone(context);
    let opened = context.options.workers.run(move || {
        let entry = disk.open_entry(&key)?;
        if is_access && let Some(entry) = &entry {
            let now = forebay_net::clock::now_unix();
            if let Err(error) = disk.touch(&key, now) {
                opening.note_store_failure(DiskOperation::Open, Some(entry.volume()), &error);
            }
            opening.note_entry(&key, entry.data.as_ref(), &entry.cinfo, entry.origin.as_ref(), now);
        }
        Ok::<_, StoreError>(entry)
    });
    let Ok(opened) = tokio::time::timeout(DISK_WAIT_MAX, opened).await else {
        // Its contents are not known: until it answers again nothing is put in the place of a file that may be there.
        context.note_disk_failure(DiskOperation::Open, None, &io::Error::from(io::ErrorKind::TimedOut));
        return None;
    };
    match opened {
        Ok(Ok(entry)) => entry,
        Ok(Err(error)) => {
            context.note_store_failure(DiskOperation::Open, None, &error);
            None
        }
        Err(_) => None,
    }
}

/// When the file of an entry last changed: at its origin; on our disk for entries of XCache, which do not record it; else when
/// it was first opened.
fn mtime_of(entry: &Entry) -> i64 {
    let changed_now = || entry.data.file().metadata().map_or(0, |metadata| metadata.mtime());
    let changed_here = || entry.data.state_when_opened().map_or_else(changed_now, |state| state.modified.0);
    let changed_there = |mark: &OriginMark| mark.validator.mtime().unwrap_or(entry.cinfo.created);
    entry.origin.as_ref().map_or_else(changed_here, changed_there)
}

enum Creation {
    Made(Box<StoredEntry>),
    /// There is one, or what may be one.
    Taken,
    /// The disk does not take it, or not `for_now`; counted.
    Refused {
        for_now: bool,
    },
}

/// Makes a new entry: with its first write if the disk that it goes to is known, else now. Unless the caller `has_looked` for an entry before, an existing one is left alone.
async fn create_entry(
    context: &Arc<FileContext>,
    key: CacheKey,
    geometry: Option<Geometry>,
    mark: OriginMark,
    has_looked: bool,
) -> Creation {
    let (Some(disk), Some(geometry)) = (context.disk.clone(), geometry) else {
        return Creation::Refused { for_now: false };
    };
    // All disks have failed a moment ago: no point in trying one.
    if context.pauses.are_all_on() {
        context.metrics.add_not_kept(context.reason_of_pause(None), 1);
        return Creation::Refused { for_now: true };
    }
    // Its map would be as large as the origin claims the file to be.
    if geometry.file_size() > context.options.file_size_max {
        context.metrics.add_not_kept(NotKept::Decision, 1);
        return Creation::Refused { for_now: false };
    }
    let Some(memory) = context.budget.try_reserve_maps(geometry) else {
        context.metrics.add_not_kept(NotKept::Budget, 1);
        return Creation::Refused { for_now: true };
    };
    // Asked before anything is created: an empty file would take an inode from the purge.
    if context.purge_ledger.is_full(None) {
        context.metrics.add_not_kept(NotKept::DiskFull, 1);
        return Creation::Refused { for_now: true };
    }
    let cinfo = Cinfo::new(geometry, forebay_net::clock::now_unix(), ChecksumState::Net);
    // A file without bytes is never written.
    let volume = if geometry.file_size() > 0 { disk.volume_for_new() } else { None };
    if let Some(volume) = volume {
        let file = LazyDataFile::new(Arc::clone(context), key, cinfo.clone(), mark.clone(), volume);
        return Creation::Made(Box::new(StoredEntry::of_new(Arc::new(file), cinfo, mark).with_map_memory(memory)));
    }
    let creating = Arc::clone(context);
    let created = context.options.workers.run(move || {
        // An entry that came in between would be another file: it is replaced if the caller has looked, left alone if not.
        let entry = if has_looked {
            Some(disk.create_entry(&key, cinfo, Some(mark))?)
        } else {
            disk.create_entry_if_free(&key, cinfo, Some(mark))?
        };
        Ok::<_, StoreError>(entry.map(|entry| {
            creating.note_created(&key, &entry);
            let stored = StoredEntry::new(entry, Trust::Given);
            // The record on disk has no access yet, and an empty file is never written: without this no later record would follow.
            stored.record.lock().note_change();
            stored
        }))
    });
    let Ok(created) = tokio::time::timeout(DISK_WAIT_MAX, created).await else {
        context.metrics.add_not_kept(NotKept::DiskError, 1);
        context.metrics.add_disk_error(DiskOperation::Open);
        return Creation::Refused { for_now: true };
    };
    match created {
        Ok(Ok(Some(stored))) => Creation::Made(Box::new(stored.with_map_memory(memory))),
        Ok(Ok(None)) => Creation::Taken,
        Ok(Err(error)) => {
            context.note_not_created(None, &error, 1);
            Creation::Refused { for_now: true }
        }
        Err(_) => Creation::Refused { for_now: true },
    }
}
