//! Cache policy without a disk: block map, cinfo codec, planning of reads and fills, cache keys, forwarding paths.
//!
//! Everything here is a pure function of its arguments or an atomic bit: no file, no socket, no clock, no task.
//!
//! - [`Geometry`] cuts a file into blocks; [`BlockSet`] is a plain set of blocks, [`BlockMap`] the shared, atomic one
//!   that every read of a file asks.
//! - [`BlockSums`] holds the checksum of each block; [`Crc32cAppend`] makes it of those of its pages, [`AdlerPieces`]
//!   that of a file of those of its pieces.
//! - [`Cinfo`] is the record next to each data file, with its codec for the formats of XCache.
//! - A [`Policy`] selects the entry that is worth least; the [`Ledger`] keeps the sums, [`plan_purge`] computes what has to
//!   go, and a [`PurgeRun`] picks the victims.
//! - [`plan_read`] divides a read into bytes that are present, bytes on their way, and bytes to fetch.
//! - [`DiskHealth`] judges a disk from its operations; [`placement_order`] chooses a disk for a file.
//! - [`Rules`] decide what becomes of an open, [`ValidityPolicy`] whether a copy may be served, [`NegativeAnswers`]
//!   remembers which names an origin has not.
//! - [`CacheKey`] names an entry, [`EntryId`] numbers it; [`ForwardedPath`] and [`AllowList`] serve requests whose path names the origin.

mod adler_pieces;
mod allow_list;
mod block_map;
mod block_set;
mod block_sums;
mod cinfo;
mod crc_append;
mod decision;
mod forwarding;
mod geometry;
mod health;
mod key;
mod negative;
mod pattern;
mod placement;
mod plan;
mod purge;
mod rate_limiter;
mod read_ahead;
mod replacement;
mod rucio;
mod validity;
mod verified_blocks;

pub use adler_pieces::AdlerPieces;
pub use allow_list::{AllowList, AllowListError};
pub use block_map::{BlockMap, Trust};
pub use block_set::BlockSet;
pub use block_sums::{BlockSums, SUMS_PER_CHUNK, sum_chunk_of};
pub use cinfo::{
    ACCESSES_KEPT, ACCESSES_LEN_MAX, ACCESSES_READ_MAX, Access, CINFO_LEN_MAX, ChecksumState, Cinfo, CinfoError,
    CinfoVersion, compact_accesses,
};
pub use crc_append::{Crc32cAppend, crc32c_append};
pub use decision::{Action, CachedCriteria, CachingDecision, CgiPattern, Decision, RULES_MAX, Rule, Rules, Subject};
pub use forwarding::{ForwardedPath, ForwardingError, forwarded_name, name_for_rules};
pub use geometry::{BLOCKS_MAX, Geometry, GeometryError};
pub use health::{DiskHealth, Fault, Health, HealthLimits};
pub use key::{CINFO_SUFFIX, CacheKey, EntryId, KEY_LEN_MAX, KeyRefusal, is_reserved_top};
pub use negative::{NEGATIVE_BYTES_MAX, NEGATIVE_NAMES_MAX, NegativeAnswers};
pub use pattern::{PathPattern, PathPatternError};
pub use placement::{Candidate, placement_hash, placement_order, weight_for_new};
pub use plan::{BlockState, CHECK_LEN_MAX, FILL_LEN_MAX, FillId, Piece, PlanLimits, plan_read};
pub use purge::{
    Budget, DiskSpace, EXPIRIES_MAX, Expiry, Extent, Footprint, Goal, Headroom, KeyClass, Ledger, Mark, Marks,
    PurgeRules, PurgeRun, Quota, Scope, Victim, disk_headroom, headroom, plan_purge, plan_purge_of_full_disk,
    plan_purge_to,
};
pub use rate_limiter::RateLimiter;
pub use read_ahead::{
    AheadBytes, AheadSource, FillPolicy, FillPolicyError, LinkEstimate, READ_AHEAD_WINDOW_MAX, ReadAheadBounds,
    ReadAheadLedger, ReadAheadSettings, Recogniser, STRUCTURE_HISTORY_MAX, StructureUse, StructureUseError, Worth,
    ZONES_MAX,
};
pub use replacement::Policy;
pub use rucio::{ContentId, RucioName};
pub use validity::{CheckOutcome, Likeness, Remembered, ValidityCheck, ValidityPolicy, Verdict};
pub use verified_blocks::{DataFileId, VerifiedBlocks};
