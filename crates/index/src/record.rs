//! The record of an entry.

use forebay_cache::EntryId;
use forebay_types::{Checksum, OriginId, Validator};

/// Longest text in a record, in bytes. A longer one is left out: no origin has such names.
pub const TEXT_LEN_MAX: usize = 1024;

/// Most checksums of one file; further ones are left out.
pub(crate) const CHECKSUMS_MAX: usize = 16;

/// The record of an entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Record {
    pub id: EntryId,
    pub disk: DiskFacts,
    /// The file at its origin, if it was ever seen there.
    pub origin: Option<OriginFacts>,
    /// When the copy was last found to be the origin's file, in seconds of the Unix epoch.
    pub validated: Option<i64>,
    /// Until when it must not be purged, in seconds of the Unix epoch.
    pub pinned_until: Option<i64>,
    pub owner: Option<String>,
    /// Checksums of the whole file, one of an algorithm, in the order of the algorithms' names.
    pub checksums: Vec<Checksum>,
}

/// Which files on disk are meant: an entry that is made again under the same key has another generation.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Generation {
    /// Number of the data file in its file system.
    pub inode: u64,
    /// When the cinfo was created, in seconds of the Unix epoch.
    pub created: i64,
}

/// An entry as it is on disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DiskFacts {
    pub volume: u16,
    pub generation: Generation,
    pub file_size: u64,
    /// Size of its blocks in bytes.
    pub block_size: u64,
    pub present_bytes: u64,
    /// When it was last used, in seconds of the Unix epoch.
    pub last_use: i64,
    pub uses: u64,
}

/// A file at its origin. Its size is that of the entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OriginFacts {
    pub origin: OriginId,
    pub validator: Validator,
}

impl DiskFacts {
    /// Whether all of the file is on disk.
    pub const fn is_complete(&self) -> bool {
        self.present_bytes >= self.file_size
    }
}

impl Record {
    /// The record of an entry of which nothing is known but what is on disk.
    pub const fn new(id: EntryId, disk: DiskFacts) -> Self {
        Self { id, disk, origin: None, validated: None, pinned_until: None, owner: None, checksums: Vec::new() }
    }

    /// The file's checksum by `algorithm` in hexadecimal digits.
    pub fn checksum(&self, algorithm: &str) -> Option<&str> {
        self.checksums.iter().find(|sum| sum.algorithm == algorithm).map(|sum| sum.value.as_str())
    }

    /// Notes a checksum in place of the one by the same algorithm.
    pub(crate) fn set_checksum(&mut self, checksum: Checksum) {
        self.checksums.retain(|known| known.algorithm != checksum.algorithm);
        self.checksums.push(checksum);
        self.checksums.sort();
    }

    /// Leaves out what is beyond the limits of a record on disk.
    pub(crate) fn keep_within_limits(&mut self) {
        let fits = |text: &String| text.len() <= TEXT_LEN_MAX;
        self.origin = self.origin.take().filter(|origin| fits(&origin.origin.to_string()));
        self.owner = self.owner.take().filter(fits);
        self.checksums.retain(|sum| fits(&sum.algorithm) && fits(&sum.value));
        self.checksums.truncate(CHECKSUMS_MAX);
    }
}
