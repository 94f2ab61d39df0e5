//! What the engine reports of an entry.

use forebay_cache::{CacheKey, EntryId};
use forebay_index::Record;
use forebay_store::VolumeId;
use forebay_types::{Checksum, Endpoint};

/// What is known of an entry. Times are in seconds of the Unix epoch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EntryInfo {
    /// Its key.
    pub key: CacheKey,
    /// Its number in the index.
    pub id: EntryId,
    /// The disk it is on.
    pub volume: VolumeId,
    /// Size of the file in bytes.
    pub size: u64,
    /// Bytes of it that are on disk.
    pub present_bytes: u64,
    /// Size of its blocks in bytes.
    pub block_size: u64,
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
    /// Whether all of the file is on disk.
    pub is_complete: bool,
    /// Whether a client has it open.
    pub is_open: bool,
    /// The server it was fetched from.
    pub origin: Option<Endpoint>,
    /// When the file was last changed there.
    pub origin_mtime: Option<i64>,
    /// The checksum that the origin told.
    pub origin_checksum: Option<String>,
    /// Checksums of the whole file.
    pub checksums: Vec<Checksum>,
}

impl EntryInfo {
    pub(crate) fn new(key: CacheKey, record: Record, is_open: bool) -> Self {
        let Record { id, disk, origin, validated, pinned_until, owner, checksums } = record;
        Self {
            key,
            id,
            volume: VolumeId(disk.volume),
            size: disk.file_size,
            present_bytes: disk.present_bytes,
            block_size: disk.block_size,
            created: disk.generation.created,
            last_use: disk.last_use,
            uses: disk.uses,
            validated,
            pinned_until,
            owner,
            is_complete: disk.is_complete(),
            is_open,
            origin: origin.as_ref().map(|origin| origin.endpoint.clone()),
            origin_mtime: origin.as_ref().and_then(|origin| origin.validator.mtime()),
            origin_checksum: origin
                .as_ref()
                .and_then(|origin| origin.validator.checksum())
                .map(|checksum| format!("{}:{}", checksum.algorithm, checksum.value)),
            checksums,
        }
    }
}
