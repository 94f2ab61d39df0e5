//! Files of the cache.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most files of one page.
pub const FILES_PER_PAGE_MAX: usize = 1000;

/// Most runs of blocks listed per file.
pub const BLOCK_RUNS_MAX: usize = 1000;

/// Longest time of a pin in seconds: ten years.
pub const PIN_SECONDS_MAX: u32 = 315_360_000;

/// A page of files, in the order of their names.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct FileList {
    /// The files.
    pub files: Vec<CachedFile>,
    /// Value of `after` for the next page, which may be empty; `null` after the last page.
    pub next: Option<String>,
}

/// A file of the cache, complete or partial.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct CachedFile {
    /// Name: the path clients request, `/root:/HOST:PORT/path` if they name the origin.
    pub name: String,
    /// Size of the complete file in bytes.
    pub size: u64,
    /// Bytes on disk.
    pub present_bytes: u64,
    /// Block size in bytes.
    pub block_size: u64,
    /// Whether the complete file is on disk.
    pub is_complete: bool,
    /// Whether a client has it open.
    pub is_open: bool,
    /// When the entry was created.
    pub created: i64,
    /// Last use.
    pub last_use: i64,
    /// Number of uses.
    pub uses: u64,
    /// When the copy was last found unchanged at the origin.
    pub validated: Option<i64>,
    /// End of its pin.
    pub pinned_until: Option<i64>,
    /// Organization it was fetched for.
    pub owner: Option<String>,
    /// Number of its disk.
    pub volume: u16,
    /// Server it was fetched from.
    pub origin: Option<String>,
    /// Modification time at the origin.
    pub origin_mtime: Option<i64>,
    /// Checksum reported by the origin.
    pub origin_checksum: Option<String>,
    /// Checksums of the complete file.
    pub checksums: Vec<FileChecksum>,
}

/// A file that was removed from the cache.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct EvictedFile {
    /// Its name.
    pub name: String,
    /// Bytes that were cached.
    pub bytes: u64,
}

/// Duration of a pin.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PinRequest {
    /// Seconds from now; at most ten years.
    #[schemars(range(min = 1, max = 315_360_000))]
    pub seconds: u32,
}

/// A file protected from purges.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Pin {
    /// Its name.
    pub name: String,
    /// End of the pin.
    pub until: i64,
}

/// A checksum of a complete file.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct FileChecksum {
    /// Name of the algorithm, such as `adler32`.
    pub algorithm: String,
    /// Value in hexadecimal digits.
    pub value: String,
}

/// A file of the cache with its record.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct FileDetail {
    /// The file.
    pub file: CachedFile,
    /// Its record; `null` if the disk cannot be read.
    pub record: Option<FileRecord>,
}

/// The record of a file.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct FileRecord {
    /// Number of blocks.
    pub blocks_total: u64,
    /// Number of present blocks.
    pub blocks_present: u64,
    /// Present blocks as runs; the first thousand.
    pub present: Vec<BlockRun>,
    /// Whether the list of runs is truncated.
    pub is_cut: bool,
    /// Checksums that cover all blocks: `none`, `cache`, `net` or `both`.
    pub checksum: String,
    /// Number of opens.
    pub access_count: u64,
    /// Periods of use, oldest first; older ones are merged.
    pub accesses: Vec<FileAccess>,
}

/// A run of consecutive blocks.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct BlockRun {
    /// Number of the first block.
    pub first: u64,
    /// Number of blocks.
    pub count: u64,
}

/// A period in which a file was used.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct FileAccess {
    /// The first open.
    pub attached: i64,
    /// The last close; `null` while in use, or after a crash.
    pub detached: Option<i64>,
    /// Opens.
    pub opens: i32,
    /// Bytes from the cache.
    pub hit_bytes: u64,
    /// Bytes fetched and cached.
    pub missed_bytes: u64,
    /// Bytes fetched and not cached.
    pub bypassed_bytes: u64,
}
