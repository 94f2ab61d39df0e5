//! The use of a file of an origin by all of its clients together.

use forebay_types::OriginId;

/// The use of a cached or bypassed file in its current access period, which begins with the first open and ends with the last
/// close.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FileUse {
    /// Size of the file's blocks in bytes.
    pub block_size: u64,
    pub blocks: u64,
    /// Blocks in the cache.
    pub blocks_done: u64,
    /// Access periods since the file came into the cache, this one included; 0 of a file that is not cached.
    pub accesses: u64,
    /// The begin of the period, in seconds of the Unix epoch; 0 of a file that is not cached.
    pub attached: i64,
    /// The end of the period before, in seconds of the Unix epoch; `None` in the first one, and after a crash.
    pub last_use: Option<i64>,
    pub bytes: FileBytes,
    /// The servers that have sent bytes of the file, after redirects: at most [`FileUse::SERVERS_MAX`].
    pub servers: Vec<OriginId>,
}

/// Bytes of a file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FileBytes {
    /// Sent to clients from the cache.
    pub hit: u64,
    /// Sent to clients after they had waited for the origin, and stored.
    pub missed: u64,
    /// Sent to clients from the origin, and not stored.
    pub bypassed: u64,
    /// Received from the origin to be stored.
    pub fetched: u64,
    /// The part of `fetched` that no reader had requested when it was requested: read-ahead and completion.
    pub prefetched: u64,
    /// Written to disk.
    pub written: u64,
    /// Fetched by read-ahead, and not read until the last close.
    pub wasted: u64,
    /// Blocks on disk that were damaged or could not be read.
    pub damaged_blocks: u64,
}

impl FileUse {
    /// A file has few servers: those of a federation that have a copy and fail one after the other.
    pub const SERVERS_MAX: usize = 8;
}

impl FileBytes {
    /// The bytes of both.
    #[must_use]
    pub const fn with(&self, other: &Self) -> Self {
        Self {
            hit: self.hit.saturating_add(other.hit),
            missed: self.missed.saturating_add(other.missed),
            bypassed: self.bypassed.saturating_add(other.bypassed),
            fetched: self.fetched.saturating_add(other.fetched),
            prefetched: self.prefetched.saturating_add(other.prefetched),
            written: self.written.saturating_add(other.written),
            wasted: self.wasted.saturating_add(other.wasted),
            damaged_blocks: self.damaged_blocks.saturating_add(other.damaged_blocks),
        }
    }

    /// The bytes counted after `earlier`, a value of the same counters.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            hit: self.hit.saturating_sub(earlier.hit),
            missed: self.missed.saturating_sub(earlier.missed),
            bypassed: self.bypassed.saturating_sub(earlier.bypassed),
            fetched: self.fetched.saturating_sub(earlier.fetched),
            prefetched: self.prefetched.saturating_sub(earlier.prefetched),
            written: self.written.saturating_sub(earlier.written),
            wasted: self.wasted.saturating_sub(earlier.wasted),
            damaged_blocks: self.damaged_blocks.saturating_sub(earlier.damaged_blocks),
        }
    }
}
