//! The index.

use crate::{
    Applied, BlockSums, Change, IndexError, Record,
    apply::Writer,
    tables::{
        ENTRIES, KEYS, META_COMMITTED, META_IN_USE, META_MISSED_SINCE, META_SCRUB_FINISHED, META_SCRUB_LAST,
        META_SCRUB_READY, META_WALKED, SUMS,
    },
};
use forebay_cache::{CacheKey, EntryId};
use redb::{Database, ReadTransaction, ReadableDatabase as _, ReadableTableMetadata as _};
use std::{
    fmt,
    ops::Bound,
    os::unix::ffi::OsStrExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

/// The records of all entries. All methods block; a change is durable when its method returns.
///
/// After an error the index must be opened again before it is used further, or replaced if the error reports damage.
pub struct Index {
    pub(crate) database: Database,
    /// The number of the next entry, after the writes that have ended.
    pub(crate) next_id: AtomicU64,
}

/// How far a scrub has come, of all that is on disk in the order of the keys.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ScrubProgress {
    /// The last entry it has read, while it is under way.
    pub last: Option<EntryId>,
    /// When the last one came to its end, in seconds of the Unix epoch.
    pub finished: Option<i64>,
    /// When the cache was first ready for one, in seconds of the Unix epoch: the first one is due as long after it as later ones
    /// are after each other.
    pub ready_since: Option<i64>,
}

impl Index {
    /// # Errors
    /// When the index cannot be read.
    pub fn get(&self, key: &CacheKey) -> Result<Option<Record>, IndexError> {
        self.read(|transaction| {
            let found = transaction.open_table(ENTRIES)?.get(key.as_str().as_bytes())?;
            found.map(|bytes| Record::decode(bytes.value())).transpose()
        })
    }

    /// The key and the record of entry number `id`.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn get_id(&self, id: EntryId) -> Result<Option<(CacheKey, Record)>, IndexError> {
        self.read(|transaction| {
            let keys = transaction.open_table(KEYS)?;
            let Some(name) = keys.get(id.0)? else { return Ok(None) };
            let entries = transaction.open_table(ENTRIES)?;
            let Some(bytes) = entries.get(name.value())? else { return Ok(None) };
            Ok(Some((key_of(name.value())?, Record::decode(bytes.value())?)))
        })
    }

    /// The keys of entries; `None` for a number that no entry has any more.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn keys(&self, ids: &[EntryId]) -> Result<Vec<Option<CacheKey>>, IndexError> {
        self.read(|transaction| {
            let keys = transaction.open_table(KEYS)?;
            let key = |id: &EntryId| match keys.get(id.0)? {
                Some(name) => key_of(name.value()).map(Some),
                None => Ok(None),
            };
            ids.iter().map(key).collect()
        })
    }

    /// The checksums of chunk `chunk` of the blocks of entry number `id`; none are known when there is no such chunk.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn block_sums(&self, id: EntryId, chunk: u32) -> Result<BlockSums, IndexError> {
        self.read(|transaction| {
            let found = transaction.open_table(SUMS)?.get((id.0, chunk))?;
            found.map_or_else(|| Ok(BlockSums::default()), |bytes| BlockSums::decode(bytes.value()))
        })
    }

    /// Up to `limit` entries after `after` in the order of their keys, from the first one without it.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn page(&self, after: Option<&CacheKey>, limit: usize) -> Result<Vec<(CacheKey, Record)>, IndexError> {
        self.read(|transaction| {
            let table = transaction.open_table(ENTRIES)?;
            let from = after.map_or(Bound::Unbounded, |key| Bound::Excluded(key.as_str().as_bytes()));
            let mut page = Vec::new();
            for entry in table.range::<&[u8]>((from, Bound::Unbounded))?.take(limit) {
                let (name, bytes) = entry?;
                page.push((key_of(name.value())?, Record::decode(bytes.value())?));
            }
            Ok(page)
        })
    }

    /// # Errors
    /// When the index cannot be read.
    pub fn count(&self) -> Result<u64, IndexError> {
        self.read(|transaction| Ok(transaction.open_table(ENTRIES)?.len()?))
    }

    pub fn next_id(&self) -> EntryId {
        EntryId(self.next_id.load(Ordering::Acquire))
    }

    /// Applies changes at `now` (seconds of the Unix epoch), all or none, and returns those that changed a record.
    ///
    /// # Errors
    /// When the index cannot be read or written; then none of the changes is applied, or all of them are and the index does
    /// not know.
    pub fn apply<'a>(
        &self,
        now: i64,
        changes: impl IntoIterator<Item = (&'a CacheKey, &'a Change)>,
    ) -> Result<Vec<Applied>, IndexError> {
        let mut applied = Vec::new();
        self.write(|writer| {
            for (key, change) in changes {
                applied.extend(writer.apply(key, change)?);
            }
            writer.set_meta(META_COMMITTED, now.cast_unsigned())
        })?;
        Ok(applied)
    }

    /// Whether every entry on disk number `volume`, with its root at `root`, has a record: false until
    /// [`Self::set_walked`].
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn is_walked(&self, volume: u16, root: &Path) -> Result<bool, IndexError> {
        self.guarded(|| Ok(self.meta(&walked_name(volume))? == Some(mark_of(root))))
    }

    /// Notes that a walk over a disk has ended.
    ///
    /// # Errors
    /// When the index cannot be written.
    pub fn set_walked(&self, volume: u16, root: &Path) -> Result<(), IndexError> {
        self.write(|writer| writer.set_meta(&walked_name(volume), mark_of(root)))
    }

    /// Notes that entries may be missing: every disk is to be walked again.
    ///
    /// # Errors
    /// When the index cannot be written.
    pub fn forget_walks(&self) -> Result<(), IndexError> {
        self.write(|writer| writer.clear_meta(META_WALKED))
    }

    /// Notes that entries of one disk may be missing: it is to be walked again.
    ///
    /// # Errors
    /// When the index cannot be written.
    pub fn forget_walk(&self, volume: u16) -> Result<(), IndexError> {
        self.write(|writer| writer.set_meta(&walked_name(volume), NOT_WALKED))
    }

    /// How far the last scrub has come.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn scrub_progress(&self) -> Result<ScrubProgress, IndexError> {
        self.guarded(|| {
            let last = self.meta(META_SCRUB_LAST)?.filter(|&id| id != 0).map(EntryId);
            let time = |meta| Ok::<_, IndexError>(self.meta(meta)?.and_then(|time| i64::try_from(time).ok()));
            Ok(ScrubProgress { last, finished: time(META_SCRUB_FINISHED)?, ready_since: time(META_SCRUB_READY)? })
        })
    }

    /// Notes how far a scrub has come.
    ///
    /// # Errors
    /// When the index cannot be written.
    pub fn set_scrub_progress(&self, progress: ScrubProgress) -> Result<(), IndexError> {
        self.write(|writer| {
            writer.set_meta(META_SCRUB_LAST, progress.last.map_or(0, |id| id.0))?;
            for (meta, time) in [(META_SCRUB_FINISHED, progress.finished), (META_SCRUB_READY, progress.ready_since)] {
                if let Some(time) = time.and_then(|time| u64::try_from(time).ok()) {
                    writer.set_meta(meta, time)?;
                }
            }
            Ok(())
        })
    }

    /// Takes the index into use. When it was not let go before, what was noted last has not been committed: then entries may
    /// have come since [`Self::missed_since`].
    ///
    /// # Errors
    /// When the index cannot be read or written.
    pub fn begin_use(&self) -> Result<(), IndexError> {
        self.guarded(|| {
            let was_in_use = self.meta(META_IN_USE)? == Some(1);
            let missed_since = self.meta(META_MISSED_SINCE)?.or(self.meta(META_COMMITTED)?);
            self.write(|writer| {
                if was_in_use && let Some(since) = missed_since {
                    writer.set_meta(META_MISSED_SINCE, since)?;
                }
                writer.set_meta(META_IN_USE, 1)
            })
        })
    }

    /// Ends the use of the index: everything that was noted is committed.
    ///
    /// # Errors
    /// When the index cannot be written.
    pub fn end_use(&self) -> Result<(), IndexError> {
        self.write(|writer| writer.set_meta(META_IN_USE, 0))
    }

    /// Since when entries may have come that are not in the index, in seconds of the Unix epoch.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn missed_since(&self) -> Result<Option<i64>, IndexError> {
        self.guarded(|| Ok(self.meta(META_MISSED_SINCE)?.map(u64::cast_signed)))
    }

    /// Notes that what was missed has been found.
    ///
    /// # Errors
    /// When the index cannot be written.
    pub fn forget_missed(&self) -> Result<(), IndexError> {
        self.write(|writer| writer.clear_meta(META_MISSED_SINCE))
    }

    fn read<T>(&self, read: impl FnOnce(&ReadTransaction) -> Result<T, IndexError>) -> Result<T, IndexError> {
        self.guarded(|| read(&self.database.begin_read()?))
    }

    pub(crate) fn write(
        &self,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        self.guarded(|| {
            let mut transaction = self.database.begin_write()?;
            // Free pages are recorded with each commit, so that an open after a crash need not read the whole file.
            transaction.set_quick_repair(true);
            let next_id = {
                let mut writer = Writer::begin(&transaction)?;
                write(&mut writer)?;
                writer.finish()?
            };
            transaction.commit()?;
            self.next_id.fetch_max(next_id, Ordering::AcqRel);
            Ok(())
        })
    }

    /// The store below panics on some damages instead of reporting them.
    pub(crate) fn guarded<T>(&self, work: impl FnOnce() -> Result<T, IndexError>) -> Result<T, IndexError> {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(IndexError::Damaged { what: "its structure" }))
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("next_id", &self.next_id()).finish_non_exhaustive()
    }
}

/// No mark of a directory: those have 32 bits.
const NOT_WALKED: u64 = u64::MAX;

fn walked_name(volume: u16) -> String {
    format!("{META_WALKED}{volume}")
}

fn mark_of(root: &Path) -> u64 {
    u64::from(crc32c::crc32c(root.as_os_str().as_bytes()))
}

fn key_of(name: &[u8]) -> Result<CacheKey, IndexError> {
    let text = std::str::from_utf8(name).map_err(|_| IndexError::Damaged { what: "a key" })?;
    CacheKey::from_text(text).ok_or(IndexError::Damaged { what: "a key" })
}
