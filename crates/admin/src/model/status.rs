//! How the server is.

use super::Scrub;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the server is.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// When the server was started.
    pub started: i64,
    /// How long ago that was, in seconds.
    pub uptime_seconds: u64,
    /// Whether it takes work.
    pub state: State,
    /// What the server does.
    pub role: Role,
    /// The filler, when this is a manager.
    pub filler: Option<Filler>,
    /// Client connections.
    pub connections: u64,
    /// Files that clients have open.
    pub open_handles: u64,
    /// Bytes given to clients since the start, by where they came from.
    pub client_bytes: ByteCounts,
    /// Share of the bytes given to clients that came from the cache; `null` before the first.
    pub hit_ratio: Option<f64>,
    /// Memory for data on its way from origins.
    pub memory: Memory,
    /// Room on the file system of the cache, or of what is exported.
    pub space: Option<Space>,
    /// The disks of the cache.
    pub volumes: Vec<Volume>,
    /// What the cache takes and may take.
    pub usage: Usage,
    /// The last check of all that is on disk.
    pub scrub: Scrub,
    /// The list of what the cache holds.
    pub index: Index,
    /// Jobs at work.
    pub jobs_running: u64,
}

/// Whether a server takes work.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Not yet.
    Starting,
    /// It does.
    Ready,
    /// Not until draining is undone.
    Draining,
    /// Not any more.
    Stopping,
}

/// What a server does.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It serves files through the cache that it fills.
    Cache,
    /// The same, for managers that send clients to its complete files.
    Filler,
    /// It sends clients to the complete files of a filler, and to that with everything else.
    Manager,
}

/// The filler, as a manager sees it.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Filler {
    /// Where it is, `HOST:PORT`; `null` when nobody has told.
    pub address: Option<String>,
    /// Whether it answers.
    pub is_alive: bool,
    /// The machine that its record in the store names.
    pub node: Option<String>,
    /// When it renewed that record last.
    pub renewed: Option<i64>,
}

/// What the cache takes and may take.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Usage {
    /// What all files take, with their records.
    pub used: Footprint,
    /// Files.
    pub files: u64,
    /// Files that are pinned.
    pub pinned: u64,
    /// What may be added before a purge is due; `null` where nothing limits it.
    pub until_purge: Footprint,
    /// What may be added before nothing more is kept; `null` where nothing limits it.
    pub until_full: Footprint,
    /// By quota, in the order of the configuration.
    pub quotas: Vec<Quota>,
    /// What was removed since the start, by reason.
    pub purged: Vec<Purged>,
}

/// What was removed for one reason.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Purged {
    /// Why: `space`, `inodes`, `free_min`, `quota`, `age`, `expired`, `requested` or `evicted`.
    pub reason: String,
    /// Files.
    pub files: u64,
    /// What they took, with their records.
    pub bytes: u64,
}

/// Room on disks.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Footprint {
    /// Bytes.
    pub bytes: Option<u64>,
    /// Inodes.
    pub inodes: Option<u64>,
}

/// What the files below a path take.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Quota {
    /// The path.
    pub path: String,
    /// What its files take, with their records.
    pub used: Footprint,
    /// Bytes it is guaranteed.
    pub min_bytes: u64,
    /// Bytes it may take; `null` for any.
    pub max_bytes: Option<u64>,
}

/// A disk of the cache.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Volume {
    /// Its number.
    pub id: u16,
    /// The directory that files are kept in.
    pub path: String,
    /// Its share of new files, relative to the other disks', for the same room.
    pub weight: u32,
    /// Room on it; `null` when it does not tell.
    pub space: Option<Space>,
    /// How it does, in a word.
    pub health: String,
    /// Operations that failed since the start.
    pub errors: u64,
    /// Mean time of operations lately, in seconds.
    pub latency_seconds: f64,
}

/// The list of what the cache holds.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Index {
    /// How it is.
    pub state: IndexState,
    /// Files it has, as far as it tells.
    pub files: Option<u64>,
    /// Bytes of theirs that are on disk, as far as it tells.
    pub bytes: Option<u64>,
}

/// How the index is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexState {
    /// Nothing is cached, or it failed and is opened again later.
    Off,
    /// It is being read.
    Loading,
    /// In use while it is made again from the disk.
    Rebuilding,
    /// In use, with every file.
    Ready,
}

impl IndexState {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Loading => "loading",
            Self::Rebuilding => "rebuilding",
            Self::Ready => "ready",
        }
    }
}

/// Bytes given to clients.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ByteCounts {
    /// From the cache.
    pub hit: u64,
    /// Fetched for the read, and kept.
    pub missed: u64,
    /// Fetched for another read at the same time.
    pub coalesced: u64,
    /// Fetched and not kept.
    pub bypassed: u64,
}

/// Memory for data on its way.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Memory {
    /// At most.
    pub budget_bytes: u64,
    /// Now.
    pub used_bytes: u64,
}

/// Room on a file system.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Space {
    /// In all.
    pub total_bytes: u64,
    /// Free.
    pub free_bytes: u64,
}

impl State {
    /// The state of this name, as [`forebay_telemetry::Readiness`] tells it.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "starting" => Self::Starting,
            "ready" => Self::Ready,
            "draining" => Self::Draining,
            _ => Self::Stopping,
        }
    }

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Stopping => "stopping",
        }
    }
}
