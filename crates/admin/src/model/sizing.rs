//! The LRU curve of the cache and what it is used for.

use forebay_sizing::{Group, Reuse};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest number of datasets in [`Sizing::datasets`].
pub const DATASETS_SHOWN_MAX: usize = 100;

/// The reads of the last days, and the hit ratios that LRU caches of other sizes would have had.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Sizing {
    /// Since when reads are followed: the start of the server.
    pub since: i64,
    /// Days that are counted, the last 30 at most.
    pub days: u64,
    /// Reads of files from open to close.
    pub accesses: u64,
    /// Bytes that clients got by them.
    pub read_bytes: u64,
    /// Accesses to files that were not read before, which no cache could serve.
    pub first_accesses: u64,
    pub first_bytes: u64,
    /// Accesses that were not counted, because too many came at a time.
    pub lost_accesses: u64,
    /// LRU caches by size, the smallest first. The last one has room for all files.
    pub curve: Vec<CurvePoint>,
    /// Size up to which the curve holds; missing if it holds for all. Beyond it, files were forgotten.
    pub size_max: Option<u64>,
    /// Distinct bytes that were read in the last days.
    pub working_sets: Vec<WorkingSet>,
    /// Accesses by the time since the last access to the same file.
    pub intervals: Vec<ReuseInterval>,
    /// Files that are known, and the bytes that were read of them.
    pub files: u64,
    pub bytes: u64,
    /// Those of them that were read once.
    pub once_files: u64,
    pub once_bytes: u64,
    /// Data tiers since then, those with the most bytes first.
    pub tiers: Vec<ReadGroup>,
    /// Datasets since then, the 100 with the most bytes.
    pub datasets: Vec<ReadGroup>,
}

impl Sizing {
    /// The report of a curve; `lost_accesses` are those that it does not have.
    pub fn new(reuse: Reuse, lost_accesses: u64) -> Self {
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let (accesses, read) = (reuse.accesses, reuse.read);
        let point = |point: forebay_sizing::CurvePoint| CurvePoint {
            size: point.size,
            hits_by_files: share(point.hits, accesses),
            hits_by_bytes: share(point.saved, read),
            eviction_age_seconds: point.eviction_age,
        };
        let working_set =
            |set: forebay_sizing::WorkingSet| WorkingSet { days: set.days, files: set.files, bytes: set.bytes };
        let interval = |interval: forebay_sizing::Interval| ReuseInterval {
            seconds: if interval.seconds == u64::MAX { None } else { Some(interval.seconds) },
            accesses: interval.accesses,
            bytes: interval.bytes,
        };
        let group = |group: Group| ReadGroup {
            name: group.name,
            accesses: group.accesses,
            read_bytes: group.read,
            reread_bytes: group.reread,
        };
        Self {
            since: reuse.since,
            days: reuse.days,
            accesses,
            read_bytes: read,
            first_accesses: reuse.first_accesses,
            first_bytes: reuse.first_bytes,
            lost_accesses,
            curve: reuse.curve.into_iter().map(point).collect(),
            size_max: reuse.size_max,
            working_sets: reuse.working_sets.into_iter().map(working_set).collect(),
            intervals: reuse.intervals.into_iter().map(interval).collect(),
            files: reuse.files,
            bytes: reuse.bytes,
            once_files: reuse.once_files,
            once_bytes: reuse.once_bytes,
            tiers: reuse.tiers.into_iter().map(group).collect(),
            datasets: reuse.datasets.into_iter().take(DATASETS_SHOWN_MAX).map(group).collect(),
        }
    }
}

/// The ratios of an LRU cache of one size.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
pub struct CurvePoint {
    /// Size of the cache in bytes.
    pub size: u64,
    /// Share of the accesses for which no origin would be read.
    pub hits_by_files: f64,
    /// Share of the bytes that would come from the cache.
    pub hits_by_bytes: f64,
    /// Time in seconds for which the next file to be removed has been unused; missing if the cache would not be full.
    pub eviction_age_seconds: Option<u64>,
}

/// Files that were read within some days.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
pub struct WorkingSet {
    pub days: u64,
    pub files: u64,
    /// Bytes that were read of them, each counted once.
    pub bytes: u64,
}

/// Accesses that came within some time after the last access to the same file, and not within the one before.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
pub struct ReuseInterval {
    /// The longest time in seconds; missing for any longer time.
    pub seconds: Option<u64>,
    pub accesses: u64,
    pub bytes: u64,
}

/// A data tier or a dataset.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct ReadGroup {
    pub name: String,
    pub accesses: u64,
    pub read_bytes: u64,
    /// Those of them that were read before.
    pub reread_bytes: u64,
}
