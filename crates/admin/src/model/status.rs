//! The status of the server.

use super::Scrub;
use forebay_types::named_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Status of the server.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Status {
    /// Program version.
    pub version: String,
    /// Start of the server.
    pub started: i64,
    /// Seconds since then.
    pub uptime_seconds: u64,
    /// Whether the server accepts work.
    pub state: State,
    /// Role of the server.
    pub role: Role,
    /// The filler, if this server is a manager.
    pub filler: Option<Filler>,
    /// Client connections.
    pub connections: u64,
    /// Files held open by clients.
    pub open_handles: u64,
    /// Bytes sent to clients since the start, by source.
    pub client_bytes: ByteCounts,
    /// File bytes received from origins since the start.
    pub origin_bytes: u64,
    /// 1 - `origin_bytes` / all `client_bytes`, at least 0: the share of the traffic that the cache saved. `null` before the first byte.
    pub hit_ratio: Option<f64>,
    /// Bytes that origins did not have to send: all `client_bytes` less `origin_bytes`, at least 0.
    #[serde(default)]
    pub saved_bytes: u64,
    /// Files that clients have closed since the start, by the place their bytes came from.
    #[serde(default)]
    pub files_read: FileResults,
    /// Seconds for which the files removed last for lack of space had not been used; `null` before the first one.
    #[serde(default)]
    pub eviction_age_seconds: Option<u64>,
    /// Certificates and credentials of the server.
    #[serde(default)]
    pub certificates: Vec<CertificateEnd>,
    /// Servers of origins that fail, the one that failed last first; at most 256.
    pub failing_origins: Vec<FailingOrigin>,
    /// Members of the cluster by name, this server included; empty if it is not in one.
    #[serde(default)]
    pub members: Vec<ClusterMember>,
    /// Memory for data in transit from origins.
    pub memory: Memory,
    /// Space on the file system of the cache, or of the exported directory.
    pub space: Option<Space>,
    /// Disks of the cache.
    pub volumes: Vec<Volume>,
    /// Disk space used by the cache, and its limits.
    pub usage: Usage,
    /// The last scrub.
    pub scrub: Scrub,
    /// Index of the cached files.
    pub index: Index,
    /// Running jobs.
    pub jobs_running: u64,
}

named_enum! {
    /// Whether a server accepts work.
    #[derive(Deserialize, JsonSchema, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum State {
        /// Not accepting work yet.
        Starting = "starting",
        /// Accepting work.
        Ready = "ready",
        /// Accepting no new work until draining is undone.
        Draining = "draining",
        /// Shutting down.
        Stopping = "stopping",
    }
}

/// Role of a server.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Serves files through the cache that it fills.
    Cache,
    /// Like `cache`, for managers that redirect clients to its complete files.
    Filler,
    /// Redirects clients to the complete files of a filler, and to the filler for all others.
    Manager,
}

/// A manager's view of its filler.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Filler {
    /// Address, `HOST:PORT`; `null` if unknown.
    pub address: Option<String>,
    /// Whether it responds.
    pub is_alive: bool,
    /// Machine named in its record in the store.
    pub node: Option<String>,
    /// Last renewal of that record.
    pub renewed: Option<i64>,
}

/// Files closed by clients.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct FileResults {
    /// All bytes came from the cache.
    pub hit: u64,
    /// Some bytes came from the cache.
    pub partial: u64,
    /// No byte came from the cache.
    pub missed: u64,
    /// The client has read nothing.
    pub unread: u64,
}

/// The end of a certificate or proxy.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct CertificateEnd {
    /// The file that holds it.
    pub file: String,
    /// Whether it is a proxy, which lives for hours.
    #[serde(default)]
    pub is_proxy: bool,
    /// Seconds until it expires, negative afterwards.
    pub seconds: i64,
}

/// A server of an origin that has not answered since its last failure.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct FailingOrigin {
    /// Address, `HOST:PORT`.
    pub server: String,
    /// First failure since its last answer.
    pub since: i64,
    /// The last failure.
    pub problem: String,
}

/// A member of the cluster, as the server that answers knows it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ClusterMember {
    /// Address of its data port, `HOST:PORT`.
    pub member: String,
    /// Whether it is the server that answers.
    pub is_this_server: bool,
    /// `active`; `inactive`: it takes no new files; or `silent`: it does not answer.
    pub state: String,
    /// Its part of new files, from 0 to 1.
    pub share: f64,
    /// Its bytes; `null` before it has counted them for the first time.
    #[serde(default)]
    pub bytes: Option<MemberBytes>,
    /// Its part of the bytes of all members, by its part of their weights: 1 if they are balanced. `null` if unknown.
    #[serde(default)]
    pub imbalance: Option<f64>,
}

/// Bytes of cached files on a member of the cluster.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct MemberBytes {
    /// All bytes of files that are placed on members.
    pub held: u64,
    /// Of files for which placement selects another member.
    pub foreign: u64,
    /// Of files that a member before it in their order of placement has, too; estimated from a sample if there are many. The sum over members
    /// is that of all surplus copies.
    pub duplicate: u64,
}

/// Disk space used by the cache, and its limits.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Usage {
    /// Space used by all files, including their records.
    pub used: Footprint,
    /// Files.
    pub files: u64,
    /// Pinned files.
    pub pinned: u64,
    /// Space left before a purge is due; `null` if unlimited.
    pub until_purge: Footprint,
    /// Space left before nothing more is cached; `null` if unlimited.
    pub until_full: Footprint,
    /// Usage by quota, in the order of the configuration.
    pub quotas: Vec<Quota>,
    /// Files removed since the start, by reason.
    pub purged: Vec<Purged>,
}

/// Files removed for one reason.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Purged {
    /// Reason: `space`, `inodes`, `free_min`, `quota`, `age`, `expired`, `requested` or `evicted`.
    pub reason: String,
    /// Files.
    pub files: u64,
    /// Space they used, including their records.
    pub bytes: u64,
}

/// Disk space.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Footprint {
    /// Bytes.
    pub bytes: Option<u64>,
    /// Inodes.
    pub inodes: Option<u64>,
}

/// Disk space used by the files below a path.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Quota {
    /// The path.
    pub path: String,
    /// Space used by its files, including their records.
    pub used: Footprint,
    /// Guaranteed bytes.
    pub min_bytes: u64,
    /// Most bytes it may use; `null` if unlimited.
    pub max_bytes: Option<u64>,
}

/// A disk of the cache.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Volume {
    /// Its number.
    pub id: u16,
    /// Directory of the cached files.
    pub path: String,
    /// Share of new files relative to other disks with the same free space.
    pub weight: u32,
    /// Its space; `null` if unknown.
    pub space: Option<Space>,
    /// State of the disk.
    pub health: String,
    /// Operations failed since the start.
    pub errors: u64,
    /// Recent mean time of an operation, in seconds.
    pub latency_seconds: f64,
}

/// Index of the cached files.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Index {
    /// State of the index.
    pub state: IndexState,
    /// Number of indexed files, if known.
    pub files: Option<u64>,
    /// Their bytes on disk, if known.
    pub bytes: Option<u64>,
}

named_enum! {
    /// State of the index.
    #[derive(Deserialize, JsonSchema, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum IndexState {
        /// Nothing is cached, or the index failed and will be reopened.
        Off = "off",
        /// Being read.
        Loading = "loading",
        /// In use while it is being rebuilt from the disks.
        Rebuilding = "rebuilding",
        /// In use, with every file.
        Ready = "ready",
    }
}

/// Bytes sent to clients.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ByteCounts {
    /// From the cache, fetched neither by the read nor ahead of it.
    pub hit: u64,
    /// Fetched for the read, by it or ahead of it, and cached.
    pub missed: u64,
    /// Fetched by a concurrent read.
    pub coalesced: u64,
    /// Fetched and not cached.
    pub bypassed: u64,
}

impl ByteCounts {
    /// Bytes of all outcomes together.
    #[must_use]
    pub const fn total(&self) -> u64 {
        let Self { hit, missed, coalesced, bypassed } = *self;
        hit.saturating_add(missed).saturating_add(coalesced).saturating_add(bypassed)
    }
}

/// Memory for data in transit.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Memory {
    /// Limit.
    pub budget_bytes: u64,
    /// In use.
    pub used_bytes: u64,
}

/// Space on a file system.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Space {
    /// Total.
    pub total_bytes: u64,
    /// Free.
    pub free_bytes: u64,
}
