//! The part of an open file that is on disk, and the record that goes with it.

use crate::{
    Checksum,
    base::{digest::ChecksumAlgorithm, versioned::Versioned},
    entries::{block_sums::WrittenSums, closed_files::ClosedFile, lazy_data_file::LazyDataFile},
    link::memory_budget::HeldMemory,
};
use forebay_cache::{Access, AdlerPieces, BlockMap, BlockSet, BlockSums, Cinfo, DataFileId, Trust};
use forebay_index::Generation;
use forebay_store::{DataFile, Entry, FileIdentity, FileState, OriginMark};
use forebay_telemetry::FileBytes;
use forebay_types::{BlockIndex, ByteRange};
use parking_lot::Mutex;
use std::{
    fs::Permissions,
    io,
    os::unix::fs::PermissionsExt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Permissions of files that only this server reads.
const OWNER_ONLY: u32 = 0o600;

/// The part of a file that is on disk.
pub(crate) struct StoredEntry {
    pub(crate) data: Arc<dyn DataFile>,
    /// The same, when it was not on disk from the start.
    lazy_data: Option<Arc<LazyDataFile>>,
    pub(crate) map: BlockMap,
    _map_memory: HeldMemory,
    /// The checksums of the blocks. Locked for moments only, never across a look at the disk.
    pub(crate) sums: Mutex<BlockSums>,
    pub(crate) record: Versioned<Record>,
    /// Held by the sync under way, also by one that began when the file was closed.
    pub(crate) sync_turn: Arc<Mutex<()>>,
    /// Held while the entry is noted for the index, if the file is not retired by then. Retiring waits for this once, and
    /// notes the end of the entry after it.
    pub(crate) noting: Mutex<()>,
    /// Held while the file is opened or closed to others, and until the blocks are taken back for which it is closed. Comes
    /// before the record.
    publishing: Mutex<()>,
    /// Whether it is known that every block is on disk.
    is_complete_on_disk: AtomicBool,
    /// Whether the file was opened to others, or may have been.
    is_published: AtomicBool,
    /// Whether this process has opened it to others.
    is_published_here: AtomicBool,
}

/// The contents of the cinfo except the blocks.
pub(crate) struct Record {
    pub(crate) cinfo: Cinfo,
    pub(crate) mark: Option<OriginMark>,
    /// The Adler-32 of what this process has written, as long as nothing of it was taken back.
    pub(crate) adler32: AdlerPieces,
    /// When something changed that is not on disk yet, uses excepted.
    pub(crate) dirty_since: Option<Instant>,
    /// When the first use began that is not on disk yet.
    pub(crate) used_since: Option<Instant>,
    /// Whether the index may not know of the last use.
    pub(crate) is_use_unnoted: bool,
    pub(crate) is_syncing: bool,
    /// Whether the record on disk names any block.
    pub(crate) names_blocks: bool,
    /// Syncs that have failed since the last one that did not.
    pub(crate) failed_syncs: u32,
    /// The account when the access period began.
    pub(crate) period_start: FileBytes,
    /// When that was, in seconds of the Unix epoch.
    pub(crate) period_begin: i64,
    /// The end of the access period before this one, in seconds of the Unix epoch.
    pub(crate) last_use: Option<i64>,
    /// The data file as it was when nothing of it was left to be recorded; `None` before the first record of a new one.
    pub(crate) data_state: Option<FileState>,
    /// The part of the account that the access records have.
    accounted: FileBytes,
}

impl StoredEntry {
    pub(crate) fn new(entry: Entry, trust: Trust) -> Self {
        let Entry { data, cinfo, origin } = entry;
        let map = BlockMap::from_cinfo(&cinfo, trust);
        let record = Record {
            names_blocks: cinfo.blocks.last().is_some(),
            cinfo,
            mark: origin,
            adler32: AdlerPieces::default(),
            dirty_since: None,
            used_since: None,
            is_use_unnoted: false,
            is_syncing: false,
            failed_syncs: 0,
            period_start: FileBytes::default(),
            period_begin: 0,
            last_use: None,
            data_state: data.state_when_opened(),
            accounted: FileBytes::default(),
        };
        let is_complete_on_disk = AtomicBool::new(map.is_complete());
        Self {
            data,
            lazy_data: None,
            map,
            _map_memory: HeldMemory::default(),
            sums: Mutex::default(),
            record: Versioned::new(record),
            sync_turn: Arc::default(),
            noting: Mutex::new(()),
            publishing: Mutex::new(()),
            is_complete_on_disk,
            is_published: AtomicBool::new(false),
            is_published_here: AtomicBool::new(false),
        }
    }

    /// An entry whose files are created with the first write.
    pub(crate) fn of_new(lazy_data: Arc<LazyDataFile>, cinfo: Cinfo, origin: OriginMark) -> Self {
        let data = Arc::clone(&lazy_data) as Arc<dyn DataFile>;
        let entry = Entry { data, cinfo, origin: Some(origin) };
        Self { lazy_data: Some(lazy_data), ..Self::new(entry, Trust::Given) }
    }

    /// An entry that was closed and is open again.
    pub(crate) fn reopened(entry: Entry, trust: Trust, closed: &ClosedFile) -> Self {
        let mut stored = Self { is_published_here: closed.is_published.into(), ..Self::new(entry, trust) };
        if let Some(turn) = &closed.sync_turn {
            // A record is being written since before: the next one comes after it.
            stored.sync_turn = Arc::clone(turn);
        }
        {
            let mut record = stored.record.lock();
            (record.used_since, record.is_use_unnoted) = (closed.used_since, !closed.is_noted);
        }
        stored
    }

    /// The facts to keep of the file once it is closed; `None` unless all but its uses is on disk.
    pub(crate) fn closed(&self, owner: Option<&str>) -> Option<ClosedFile> {
        let record = self.record.lock();
        let is_recorded = record.is_clean() && self.map.unsynced_count() == 0;
        let state = if is_recorded { record.data_state } else { None }?;
        let mut bytes = Vec::new();
        record.cinfo.encode_with(&self.map.snapshot_written(), &mut bytes);
        Some(ClosedFile {
            volume: self.data.volume(),
            state,
            record: bytes.into(),
            mark: record.mark.clone().map(Box::new),
            owner: owner.map(Into::into),
            used_since: record.used_since,
            is_noted: !record.is_use_unnoted,
            is_published: self.is_published_here(),
            sync_turn: None,
        })
    }

    /// Whether this process has opened the file to others.
    pub(crate) fn is_published_here(&self) -> bool {
        self.is_published_here.load(Ordering::Acquire)
    }

    /// The entry, whose maps have this memory.
    pub(crate) fn with_map_memory(self, memory: HeldMemory) -> Self {
        Self { _map_memory: memory, ..self }
    }

    pub(crate) fn is_on_disk(&self) -> bool {
        self.lazy_data.as_ref().is_none_or(|file| file.is_created())
    }

    /// No files are to be created any more.
    pub(crate) fn seal(&self) {
        if let Some(file) = &self.lazy_data {
            file.seal();
        }
    }

    /// As [`Self::seal`]; and none are being created when this returns. Blocking.
    pub(crate) fn seal_and_wait(&self) {
        if let Some(file) = &self.lazy_data {
            file.seal();
            file.wait();
        }
    }

    pub(crate) fn generation(&self) -> Generation {
        Generation { inode: self.data.identity().inode, created: self.record.lock().cinfo.created }
    }

    pub(crate) fn data_file_id(&self) -> DataFileId {
        let FileIdentity { device, inode } = self.data.identity();
        DataFileId { device, inode, created: self.record.lock().cinfo.created }
    }

    /// Notes that `blocks` are on disk; true when these are all, for the first time.
    pub(crate) fn note_synced(&self, blocks: &BlockSet) -> bool {
        self.map.mark_synced(blocks);
        blocks.is_full() && !self.is_complete_on_disk.swap(true, Ordering::AcqRel)
    }

    /// Whether every block is on disk and trusted, by counts that take no lock: [`Self::is_whole`] is to be asked before it is acted upon.
    pub(crate) fn seems_whole(&self) -> bool {
        self.is_complete_on_disk.load(Ordering::Acquire) && self.map.is_complete() && !self.map.has_untrusted()
    }

    /// Whether every block is on disk, and trusted.
    pub(crate) fn is_whole(&self) -> bool {
        self.map.is_complete() && self.map.unsynced_count() == 0 && !self.map.has_untrusted()
    }

    /// Has `open` open the file to others, unless it is not whole any more. Blocking.
    pub(crate) fn publish<T>(&self, open: impl FnOnce() -> io::Result<T>) -> io::Result<Option<T>> {
        // No block is taken back in the meantime. The record is not locked: opens and closes of the file would wait for the disk.
        let _showing = self.publishing.lock();
        if !self.is_whole() {
            return Ok(None);
        }
        // Before the permissions change: if the process fails in between, the file counts as published and is closed.
        self.is_published.store(true, Ordering::Release);
        let opened = open()?;
        self.is_published_here.store(true, Ordering::Release);
        Ok(Some(opened))
    }

    /// Whether the file is whole, and this process has not opened it to others yet.
    pub(crate) fn is_to_be_published(&self) -> bool {
        !self.is_published_here.load(Ordering::Acquire) && self.is_whole()
    }

    /// The file may have been opened to others before this process had it open.
    pub(crate) fn note_maybe_published(&self) {
        self.is_published.store(true, Ordering::Release);
    }

    /// The file was closed to others, and stays.
    pub(crate) fn note_closed_to_others(&self) {
        self.is_published_here.store(false, Ordering::Release);
    }

    /// Closes the file to others before blocks are taken back. Blocking.
    fn unpublish(&self) {
        self.is_published_here.store(false, Ordering::Release);
        // Only a file that may be public costs a change of permissions.
        if self.is_published.swap(false, Ordering::AcqRel)
            && let Err(error) = self.data.file().set_permissions(Permissions::from_mode(OWNER_ONLY))
        {
            tracing::error!(%error, "a file that clients read on their own cannot be closed to them");
        }
    }

    /// Notes blocks that were written, with their checksums in the same order, if `may_be_kept` still says so under the record's lock.
    ///
    /// A sync that sees any of the blocks finds what is noted of them in the record, and one that sees none of them finds
    /// the file dirty again.
    pub(crate) fn note_written(
        &self,
        blocks: ByteRange,
        sums: &WrittenSums,
        verified: bool,
        may_be_kept: impl Fn() -> bool,
    ) -> Option<(u64, u64)> {
        let mut record = self.record.lock();
        // Asked under the lock: the file may have been retired during the write.
        if !may_be_kept() {
            return None;
        }
        let before = self.map.written_bytes();
        // The sums come before the bits: a reader that finds a block finds its sum.
        record.cinfo.note_fill(verified, forebay_net::clock::now_unix());
        let indices = || self.map.geometry().blocks_of(blocks).map(BlockIndex);
        {
            let mut known = self.sums.lock();
            indices().zip(&sums.blocks).for_each(|(index, sum)| known.set(index, *sum));
        }
        if let Some(sum) = sums.adler32 {
            record.adler32.add(blocks, sum);
        }
        for index in indices() {
            self.map.set_written(index);
        }
        record.note_change();
        Some((before, self.map.written_bytes()))
    }

    /// The `algorithms` of a complete file, made of the sums of its blocks; `None` if a sum that one of them needs is unknown.
    pub(crate) fn file_checksums(&self, algorithms: &[ChecksumAlgorithm]) -> Option<Vec<Checksum>> {
        let geometry = self.map.geometry();
        let checksum = |algorithm: &ChecksumAlgorithm| {
            let sum = match algorithm {
                ChecksumAlgorithm::Adler32 => self.record.lock().adler32.sum(geometry.file_size()),
                ChecksumAlgorithm::Crc32c => self.sums.lock().of_file(geometry),
                // It cannot be made of the sums of parts: the file has to be read.
                ChecksumAlgorithm::Md5 => None,
            };
            Some(Checksum { algorithm: algorithm.as_str().to_owned(), value: format!("{:08x}", sum?) })
        };
        algorithms.iter().map(checksum).collect()
    }

    /// Takes back blocks whose bytes on disk cannot be used: they are missing from now on. Waits for a sync under way, which
    /// may have them among those it records. Blocking.
    pub(crate) fn forget(&self, blocks: impl IntoIterator<Item = BlockIndex>) {
        // In this order everywhere: first the sync, then the publication, then the record.
        let _turn = self.sync_turn.lock();
        let _showing = self.publishing.lock();
        // Before the blocks are missing: no other process may read a hole as data.
        self.unpublish();
        let mut record = self.record.lock();
        record.adler32.give_up();
        blocks.into_iter().for_each(|index| self.map.forget(index));
        record.note_change();
    }

    /// Takes back the blocks that are not known to be on disk, after a failed sync. Blocking.
    pub(crate) fn forget_unsynced(&self) {
        let _showing = self.publishing.lock();
        self.unpublish();
        // Not between a check and its blocks.
        let mut record = self.record.lock();
        record.adler32.give_up();
        self.map.forget_unsynced();
    }

    /// Takes back all blocks: their disk is gone. The file is not written any more, so a client that still sees it may read it.
    pub(crate) fn forget_all(&self) {
        let mut record = self.record.lock();
        record.adler32.give_up();
        self.map.forget_all();
    }
}

impl Record {
    pub(crate) fn note_change(&mut self) {
        self.dirty_since.get_or_insert_with(forebay_net::clock::monotonic);
    }

    /// An access period begins at `now`, in seconds of the Unix epoch, when `account` was counted. Periods that begin within
    /// `merged_for` are one access record until it is on disk.
    pub(crate) fn begin_period(&mut self, account: FileBytes, now: i64, merged_for: Duration) {
        let last = self.cinfo.accesses.last_mut();
        self.last_use = last.as_ref().and_then(|access| access.detached);
        let is_waiting = self.used_since.is_some();
        let is_recent =
            |access: &Access| u64::try_from(now - access.attached).is_ok_and(|age| age < merged_for.as_secs());
        match last.filter(|access| is_waiting && is_recent(access)) {
            Some(access) => {
                access.merged = access.merged.saturating_add(1);
                self.cinfo.access_count = self.cinfo.access_count.saturating_add(1);
            }
            None => self.cinfo.begin_access(now),
        }
        (self.period_start, self.accounted, self.period_begin) = (account, account, now);
    }

    /// One more client has the file open, in a period that has begun.
    pub(crate) fn note_attached(&mut self) {
        if let Some(access) = self.cinfo.accesses.last_mut() {
            access.opens = access.opens.saturating_add(1);
            access.detached = None;
        }
        self.note_used();
    }

    /// Brings the newest access record up to `account`.
    pub(crate) fn note_account(&mut self, account: FileBytes) {
        let FileBytes { hit, missed, bypassed, .. } = account.since(&self.accounted);
        if let Some(access) = self.cinfo.accesses.last_mut() {
            access.hit_bytes = access.hit_bytes.saturating_add(hit);
            access.missed_bytes = access.missed_bytes.saturating_add(missed);
            access.bypassed_bytes = access.bypassed_bytes.saturating_add(bypassed);
        }
        self.accounted = account;
    }

    /// Notes a use, which is written with other changes or, with many files' uses, later.
    pub(crate) fn note_used(&mut self) {
        self.used_since.get_or_insert_with(forebay_net::clock::monotonic);
        self.is_use_unnoted = true;
    }

    /// Whether all that must not be lost is on disk: uses may be.
    pub(crate) const fn is_clean(&self) -> bool {
        self.dirty_since.is_none() && !self.is_syncing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_cache::{CacheKey, ChecksumState, Geometry};
    use forebay_store::{Disk as _, LocalDisk};
    use forebay_types::{BlockSize, Lfn};

    #[test]
    fn a_slow_publication_delays_only_the_removal_of_blocks() {
        let root = tempfile::tempdir().unwrap();
        let disk = LocalDisk::open(root.path()).unwrap();
        let key = CacheKey::fixed(&Lfn::parse("/f").unwrap()).unwrap();
        let geometry = Geometry::of_new_file(BlockSize::new(4096).unwrap(), 4096).unwrap();
        let mut entry = disk.create_entry(&key, Cinfo::new(geometry, 1_000, ChecksumState::Net), None).unwrap();
        entry.cinfo.blocks.insert(BlockIndex(0));
        let stored = StoredEntry::new(entry, Trust::Given);
        let mode = || root.path().join("f").metadata().unwrap().permissions().mode() & 0o777;
        let open_to_all = || stored.data.file().set_permissions(Permissions::from_mode(0o644));
        std::thread::scope(|scope| {
            let shown = stored.publish(|| {
                drop(stored.record.lock());
                scope.spawn(|| stored.forget([BlockIndex(0)]));
                open_to_all()
            });
            assert_eq!(shown.unwrap(), Some(()));
        });
        assert_eq!(mode(), OWNER_ONLY, "taking blocks back waits for the publication, and closes the file");
        assert_eq!(stored.publish(open_to_all).unwrap(), None, "it is not whole any more");
    }
}
