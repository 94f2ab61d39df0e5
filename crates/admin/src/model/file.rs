//! Files of the cache.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most files of one page.
pub const FILES_PER_PAGE_MAX: usize = 1000;

/// Runs of blocks that are told of one file at most.
pub const BLOCK_RUNS_MAX: usize = 1000;

/// Longest time of a pin in seconds: ten years.
pub const PIN_SECONDS_MAX: u32 = 315_360_000;

/// A page of files, in the order of their names.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct FileList {
    /// The files.
    pub files: Vec<CachedFile>,
    /// What to send as `after` for the next page, which may be one without a file; `null` after the last one.
    pub next: Option<String>,
}

/// A file of the cache, complete or in part.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct CachedFile {
    /// Its name: the path clients ask for, `/root:/HOST:PORT/path` when they name the origin.
    pub name: String,
    /// Size of the whole file in bytes.
    pub size: u64,
    /// Bytes of it that are on disk.
    pub present_bytes: u64,
    /// Size of its blocks in bytes.
    pub block_size: u64,
    /// Whether all of it is on disk.
    pub is_complete: bool,
    /// Whether a client has it open.
    pub is_open: bool,
    /// When it was created.
    pub created: i64,
    /// When it was last used.
    pub last_use: i64,
    /// How often it was used.
    pub uses: u64,
    /// When the copy was last found to be the origin's file.
    pub validated: Option<i64>,
    /// Until when it is not purged.
    pub pinned_until: Option<i64>,
    /// The organisation it was fetched for.
    pub owner: Option<String>,
    /// Number of the disk it is on.
    pub volume: u16,
    /// The server it was fetched from.
    pub origin: Option<String>,
    /// When the file was last changed there.
    pub origin_mtime: Option<i64>,
    /// The checksum that the origin told.
    pub origin_checksum: Option<String>,
    /// Checksums of the whole file.
    pub checksums: Vec<FileChecksum>,
}

/// A file that was removed from the cache.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct EvictedFile {
    /// Its name.
    pub name: String,
    /// Bytes of it that were there.
    pub bytes: u64,
}

/// For how long a file is to be kept.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PinRequest {
    /// Seconds from now; at most ten years.
    #[schemars(range(min = 1, max = 315_360_000))]
    pub seconds: u32,
}

/// A file that is kept from being purged.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Pin {
    /// Its name.
    pub name: String,
    /// Until when.
    pub until: i64,
}

/// A checksum of a whole file.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct FileChecksum {
    /// Name of the algorithm, such as `adler32`.
    pub algorithm: String,
    /// The value in hexadecimal digits.
    pub value: String,
}

/// A file of the cache with its record.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct FileDetail {
    /// The file.
    pub file: CachedFile,
    /// Its record; `null` when the disk does not tell.
    pub record: Option<FileRecord>,
}

/// What the record of a file tells.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct FileRecord {
    /// Number of its blocks.
    pub blocks_total: u64,
    /// Number of blocks that are present.
    pub blocks_present: u64,
    /// Blocks that are present, as runs; the first thousand.
    pub present: Vec<BlockRun>,
    /// Whether there are more runs.
    pub is_cut: bool,
    /// Which checksums hold for all blocks: `none`, `cache`, `net` or `both`.
    pub checksum: String,
    /// How often it was opened.
    pub access_count: u64,
    /// Periods in which it was used, the oldest first; merged as they get older.
    pub accesses: Vec<FileAccess>,
}

/// Blocks without a gap.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct BlockRun {
    /// Number of the first one.
    pub first: u64,
    /// How many there are.
    pub count: u64,
}

/// A period in which a file was used.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct FileAccess {
    /// The first open.
    pub attached: i64,
    /// The last close; `null` while it lasts, or when a crash ended it.
    pub detached: Option<i64>,
    /// Opens.
    pub opens: i32,
    /// Bytes from the cache.
    pub hit_bytes: u64,
    /// Bytes fetched and kept.
    pub missed_bytes: u64,
    /// Bytes fetched and not kept.
    pub bypassed_bytes: u64,
}
