//! Translates between entries on disk, their records in the index, and reports about them.

use forebay_cache::{CacheKey, Cinfo};
use forebay_index::{DiskFacts, Facts, Generation, OriginFacts, Record};
use forebay_store::{FileIdentity, OriginMark, VolumeId};
use forebay_types::Checksum;

/// An entry as the index knows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EntryInfo {
    pub key: CacheKey,
    pub record: Record,
    pub is_open: bool,
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
