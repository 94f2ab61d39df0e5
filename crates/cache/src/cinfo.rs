//! The cinfo: the record next to each data file: which blocks it holds and how it was used.
//!
//! The bytes are XCache's: version 4 is written, versions 2, 3 and 4 are read. All integers are little-endian, without
//! padding.

mod access;
mod codec;
#[cfg(test)]
mod samples;

pub use access::{ACCESSES_KEPT, Access, compact_accesses};
pub use codec::{ACCESSES_LEN_MAX, ACCESSES_READ_MAX, CINFO_LEN_MAX, CinfoVersion};

use crate::{BlockSet, Geometry, GeometryError};

/// The record of a cached file, stored next to its data.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cinfo {
    /// File size and block size.
    pub geometry: Geometry,
    /// When the record was created, in seconds of the Unix epoch.
    pub created: i64,
    /// When a block without a verified checksum was first accepted, in seconds of the Unix epoch; 0 is never.
    pub no_checksum_time: i64,
    /// How often the file was opened, counted in access periods; merging of records does not lower it.
    pub access_count: u64,
    /// Which checksums hold for all blocks.
    pub checksum: ChecksumState,
    /// The blocks that are durable in the data file. As long as the file has blocks, no more and no fewer.
    pub blocks: BlockSet,
    /// Access records, oldest first.
    pub accesses: Vec<Access>,
}

forebay_types::named_enum! {
    /// Which checksums hold for all blocks of a file.
    #[derive(Default)]
    pub enum ChecksumState {
        #[default]
        None = "none",
        /// The data file has page checksums on disk.
        Cache = "cache",
        /// Each block came with verified page checksums from the origin.
        Net = "net",
        Both = "both",
    }
}

/// Why bytes are not a cinfo.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CinfoError {
    #[error("truncated inside the {section}")]
    Truncated { section: &'static str },
    #[error("unknown version {0}")]
    Version(i32),
    #[error("wrong checksum of the {section}")]
    Checksum { section: &'static str },
    #[error("negative file or block size")]
    Negative,
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    #[error("implausible number of access records: {0}")]
    AccessCount(i64),
}

impl Cinfo {
    /// The record of a new file: no block, no access. `created` is in seconds of the Unix epoch.
    pub fn new(geometry: Geometry, created: i64, checksum: ChecksumState) -> Self {
        Self {
            geometry,
            created,
            no_checksum_time: 0,
            access_count: 0,
            checksum,
            blocks: BlockSet::new(geometry.block_count()),
            accesses: Vec::new(),
        }
    }

    /// Whether every block is there. An empty file is complete whatever its bit says.
    pub fn is_complete(&self) -> bool {
        self.geometry.file_size() == 0 || self.blocks.is_full()
    }

    pub fn present_bytes(&self) -> u64 {
        let has_last = self.blocks.last().is_some_and(|last| last.0 + 1 == self.geometry.block_count());
        self.geometry.bytes_of(self.blocks.count(), has_last)
    }

    /// The least length in bytes that the data file must have to hold the blocks that are there.
    pub fn expected_data_len(&self) -> u64 {
        self.blocks.last().map_or(0, |last| self.geometry.range_of(last).end())
    }

    /// When the file was last used, in seconds of the Unix epoch.
    pub fn last_access(&self) -> i64 {
        self.accesses.last().map_or(self.created, |access| {
            access.detached.unwrap_or_else(|| access.attached.saturating_add(i64::from(access.duration_seconds)))
        })
    }

    /// Notes that blocks were added at `now` (seconds of the Unix epoch), `verified` when all of them came with page
    /// checksums that matched. Claims that no longer hold for all blocks are dropped: page checksums on disk are XCache's
    /// and are not written for the new blocks.
    pub fn note_fill(&mut self, verified: bool, now: i64) {
        let claims_net = matches!(self.checksum, ChecksumState::Net | ChecksumState::Both);
        self.checksum = ChecksumState::of(false, claims_net && verified);
        if !verified && self.no_checksum_time == 0 {
            self.no_checksum_time = now;
        }
    }

    /// Notes the begin of an access period at `now` (seconds of the Unix epoch): counts it and appends its record, then
    /// merges older ones until [`ACCESSES_KEPT`] are left.
    pub fn begin_access(&mut self, now: i64) {
        self.accesses.push(Access::begun(now));
        compact_accesses(&mut self.accesses, ACCESSES_KEPT, now);
        self.access_count = self.access_count.saturating_add(1);
    }
}

impl ChecksumState {
    /// The state that has both claims only where asked for.
    const fn of(cache: bool, net: bool) -> Self {
        match (cache, net) {
            (false, false) => Self::None,
            (true, false) => Self::Cache,
            (false, true) => Self::Net,
            (true, true) => Self::Both,
        }
    }

    const fn from_status(status: u32) -> Self {
        Self::of(status & 1 != 0, status & 2 != 0)
    }

    const fn to_status(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Cache => 1,
            Self::Net => 2,
            Self::Both => 3,
        }
    }
}
