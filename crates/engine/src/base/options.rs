//! How the engine is set up.

use crate::base::{digest::ChecksumAlgorithm, workers::Workers};
use forebay_cache::{PurgeRules, ReadAheadSettings};
use forebay_index::{IndexPlace, VolatileIndex};
use forebay_telemetry::Observers;
use forebay_types::BlockSize;
use std::{fmt, sync::Arc, time::Duration};

/// Set-up of the engine. The defaults suit a cache node with a few GiB of memory.
#[derive(Clone, Debug)]
pub struct Options {
    /// Block size of files that are new in the cache; files already there keep theirs.
    pub block_size: BlockSize,
    /// Size of the largest file that is kept. Larger ones are passed through: the map of a file is sized by what its origin claims.
    pub file_size_max: u64,
    /// Bytes that all buffers together may hold.
    pub budget_bytes: u64,
    /// Age in which written blocks are synced and marked in the cinfo at the latest. A crash costs no more than this.
    pub sync_interval: Duration,
    /// Age in which uses of files are written to their records at the latest, for many files together. A crash costs no more than
    /// this of the history.
    pub uses_interval: Duration,
    /// Longest origin request of one fill, in bytes: adjacent missing blocks are merged up to this.
    pub fill_len_max: u64,
    /// How far one read is planned ahead of what its client has taken, in bytes.
    pub read_window: u64,
    /// Files open or waiting for their last sync at the same time, at most; each holds a descriptor.
    pub open_files_max: usize,
    /// How long an open waits for one of these to be free: files that were closed leave when they are synced.
    pub open_wait_max: Duration,
    pub read_ahead: ReadAheadOptions,
    /// How long nothing is written to the store after a write failed: reads continue without keeping.
    pub disk_pause: Duration,
    pub integrity: IntegrityOptions,
    pub purge: PurgeOptions,
    /// Permission bits that files get when clients read them on their own.
    pub direct_mode: u32,
    /// How long such a file counts as open.
    pub direct_lease: Duration,
    /// Whether files that other processes can read are kept while their times of last access show that they are in use.
    pub honours_access_times: bool,
    /// Whether complete files are opened to others as soon as they are on disk, for a manager to send clients there.
    pub publishes_complete: bool,
    /// Subscribers to what happens to files. The fronts report to them too.
    pub events: Observers,
    pub workers: Workers,
    /// Whether reads from disks are submitted by `io_uring`, where the system has it. The runtime needs its I/O driver for that.
    pub reads_by_ring: bool,
    pub index: Arc<dyn IndexPlace>,
}

/// Longest range asked for at once when it is not kept, in bytes.
pub(crate) const BYPASS_LEN_MAX: u64 = 1 << 20;

impl Default for Options {
    fn default() -> Self {
        Self {
            block_size: BlockSize::DEFAULT,
            file_size_max: 1 << 40,
            budget_bytes: 1 << 30,
            sync_interval: Duration::from_secs(5),
            uses_interval: Duration::from_secs(600),
            fill_len_max: 4 << 20,
            read_window: 16 << 20,
            open_files_max: 65_536,
            open_wait_max: Duration::from_secs(30),
            read_ahead: ReadAheadOptions::default(),
            disk_pause: Duration::from_secs(10),
            integrity: IntegrityOptions::default(),
            purge: PurgeOptions::default(),
            direct_mode: 0o644,
            direct_lease: Duration::from_secs(900),
            honours_access_times: false,
            publishes_complete: false,
            events: Observers::default(),
            workers: Workers::Pool,
            reads_by_ring: false,
            index: Arc::new(VolatileIndex),
        }
    }
}

/// How the cache is kept within bounds, and how often that is looked after.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PurgeOptions {
    pub rules: PurgeRules,
    /// How often the room is measured. A write that meets a mark does not wait for that.
    pub interval: Duration,
}

impl Default for PurgeOptions {
    fn default() -> Self {
        Self { rules: PurgeRules::default(), interval: Duration::from_secs(10) }
    }
}

/// Set-up of reading ahead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReadAheadOptions {
    /// How files are read ahead and completed, unless a rule says otherwise.
    pub settings: ReadAheadSettings,
    /// Bytes that may be under way from one origin without a reader waiting for them.
    pub origin_bytes_max: u64,
    /// The share of the byte budget that such bytes may hold, 0 to 50 percent.
    pub memory_percent: u8,
}

impl Default for ReadAheadOptions {
    fn default() -> Self {
        Self { settings: ReadAheadSettings::default(), origin_bytes_max: 64 << 20, memory_percent: 25 }
    }
}

/// How the contents of the disk are checked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IntegrityOptions {
    pub check: CheckPolicy,
    /// Bytes in a second that a scrub reads.
    pub scrub_rate: u64,
    /// Time from the end of a scrub to the begin of the next; `None`: only on request.
    pub scrub_interval: Option<Duration>,
    /// Checksums of whole files that are made when a file is complete; the first one answers requests that name none in
    /// particular.
    pub checksums: Vec<ChecksumAlgorithm>,
    /// Bytes in a second that are read for these.
    pub checksum_rate: u64,
    /// Whether they are compared with those of the origin.
    pub compare: bool,
}

impl Default for IntegrityOptions {
    fn default() -> Self {
        Self {
            check: CheckPolicy::FirstRead,
            scrub_rate: 20 << 20,
            scrub_interval: Some(Duration::from_secs(30 * 86_400)),
            checksums: vec![ChecksumAlgorithm::Adler32, ChecksumAlgorithm::Crc32c],
            checksum_rate: 200 << 20,
            compare: true,
        }
    }
}

/// When blocks found on disk are compared with their checksums.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CheckPolicy {
    /// Before their first use after a start.
    #[default]
    FirstRead,
    /// Never: what is on disk is taken as it is.
    Never,
}

impl CheckPolicy {
    /// The name used in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FirstRead => "first-read",
            Self::Never => "never",
        }
    }
}

impl fmt::Display for CheckPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
