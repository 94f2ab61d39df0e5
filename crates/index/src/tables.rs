//! The tables of the index.

use redb::TableDefinition;

/// Version of the tables: an index with another one is rebuilt.
pub(crate) const FORMAT: u64 = 1;

/// Numbers about the index itself, by the names below.
pub(crate) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

pub(crate) const ENTRIES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("entries");

pub(crate) const KEYS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("keys");

/// Chunks of block checksums by number of the entry and of the chunk.
pub(crate) const SUMS: TableDefinition<'_, (u64, u32), &[u8]> = TableDefinition::new("sums");

/// Learned sets of columns by the text of their key: the last use in seconds of the Unix epoch, and the set. Absent before the first.
pub(crate) const COLUMN_SETS: TableDefinition<'_, &str, (i64, &[u8])> = TableDefinition::new("column sets");

pub(crate) const META_FORMAT: &str = "format";

pub(crate) const META_NEXT_ID: &str = "next_id";

/// When the last commit of changes was, in seconds of the Unix epoch.
pub(crate) const META_COMMITTED: &str = "committed";

/// 1 while a process uses the index, and after one that was killed.
pub(crate) const META_IN_USE: &str = "in use";

/// Since when entries may have come that are not in the index, in seconds of the Unix epoch; none without it.
pub(crate) const META_MISSED_SINCE: &str = "missed since";

/// Followed by the number of a disk: a CRC32C of its root's path, once every entry on it has a record.
pub(crate) const META_WALKED: &str = "walked ";

/// The number of the last entry that a scrub under way has read; 0 for none.
pub(crate) const META_SCRUB_LAST: &str = "scrub_last";

/// When the last scrub came to its end, in seconds of the Unix epoch.
pub(crate) const META_SCRUB_FINISHED: &str = "scrub_finished";

/// When the cache was first ready for a scrub, in seconds of the Unix epoch.
pub(crate) const META_SCRUB_READY: &str = "scrub_ready";
