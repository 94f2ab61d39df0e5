//! Translates between entries on disk, their records in the index, and reports about them.

use forebay_cache::{CacheKey, Cinfo, EntryId};
use forebay_index::{DiskFacts, Facts, Generation, OriginFacts, Record};
use forebay_store::{FileIdentity, OriginMark, VolumeId};
use forebay_types::{Checksum, OriginId};

/// An entry as the index knows it. Times are in seconds of the Unix epoch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EntryInfo {
    pub key: CacheKey,
    /// Changes when the file is fetched again under the same key.
    pub id: EntryId,
    pub volume: VolumeId,
    /// Size of the file in bytes.
    pub size: u64,
    pub present_bytes: u64,
    /// In bytes, except for the last block of the file.
    pub block_size: u64,
    pub created: i64,
    pub last_use: i64,
    pub uses: u64,
    /// When the copy was last found to be the origin's file.
    pub validated: Option<i64>,
    /// End of the time in which it is not purged.
    pub pinned_until: Option<i64>,
    /// The organization of the first client that belongs to one.
    pub owner: Option<String>,
    pub is_complete: bool,
    pub is_open: bool,
    pub origin: Option<OriginId>,
    /// Time of the last change at the origin.
    pub origin_mtime: Option<i64>,
    /// Written as `algorithm:value`, in the words of the origin.
    pub origin_checksum: Option<String>,
    /// Of the whole file, computed here.
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
            origin: origin.as_ref().map(|origin| origin.origin.clone()),
            origin_mtime: origin.as_ref().and_then(|origin| origin.validator.mtime()),
            origin_checksum: origin
                .as_ref()
                .and_then(|origin| origin.validator.checksum())
                .map(|checksum| format!("{}:{}", checksum.algorithm, checksum.value)),
            checksums,
        }
    }
}

/// An entry as it is on disk: its data file is `identity`, its record `cinfo`. It was last used at `last_use`, in seconds of
/// the Unix epoch.
pub(crate) fn disk_facts(volume: VolumeId, identity: FileIdentity, cinfo: &Cinfo, last_use: i64) -> DiskFacts {
    DiskFacts {
        volume: volume.0,
        generation: Generation { inode: identity.inode, created: cinfo.created },
        file_size: cinfo.geometry.file_size(),
        block_size: cinfo.geometry.block_size(),
        present_bytes: cinfo.present_bytes(),
        last_use,
        uses: cinfo.access_count,
    }
}

/// The facts that a mark records about the origin's file.
pub(crate) fn learnt(mark: &OriginMark) -> Facts {
    let origin = OriginFacts { origin: mark.origin.clone(), validator: mark.validator.clone() };
    Facts { origin: Some(origin), validated: mark.checked, ..Facts::default() }
}

/// The facts that checksums of a file add to its record.
pub(crate) fn facts_of(checksums: &[Checksum]) -> Facts {
    Facts { checksums: checksums.to_vec(), ..Facts::default() }
}
