//! Settings of origins, and limits that are not settings.

use forebay_origin::{OwnAddresses, Redirects};
use std::time::Duration;

/// How one origin is used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Options {
    /// Longest time from a request to the head of its answer: 60 s.
    pub first_byte_timeout: Duration,
    /// Longest silence in the middle of an answer: 30 s.
    pub stall_timeout: Duration,
    /// Time limit of an operation with all its redirects, pauses and attempts; that of a read starts again with every byte it
    /// gets: 600 s.
    pub deadline: Duration,
    /// Longest pause that a server may impose by `Retry-After` before it is asked again: 60 s.
    pub wait_max: Duration,
    /// Attempts of an open, stat, listing or checksum; each server of the list is asked at least once: 5.
    pub attempts: u32,
    /// Attempts of a read of an open file without a byte of progress: 10.
    pub read_attempts: u32,
    /// Pause before the second round over the servers: 250 ms. It doubles with every round.
    pub back_off_min: Duration,
    /// Longest pause between two rounds: 4 s.
    pub back_off_max: Duration,
    /// Redirects that one request follows: 16.
    pub redirect_limit: u32,
    /// The servers that redirects may lead to: those in the origin's domain.
    pub redirects: Redirects,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            first_byte_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(30),
            deadline: Duration::from_secs(600),
            wait_max: Duration::from_secs(60),
            attempts: 5,
            read_attempts: 10,
            back_off_min: Duration::from_millis(250),
            back_off_max: Duration::from_secs(4),
            redirect_limit: 16,
            redirects: Redirects::default(),
        }
    }
}

/// How connections are made and kept; shared by every origin of the process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PoolOptions {
    /// Time limit of making a connection, from name resolution to the end of the TLS handshake: 10 s.
    pub connect_timeout: Duration,
    /// How long an unused connection is kept: 15 s. Servers of this field close theirs after 5 to 300 s.
    pub idle_timeout: Duration,
    /// How long an unreachable server is skipped if there is another one: 30 s.
    pub circuit_time: Duration,
    /// The user name where a credential proves nothing; it is not sent over HTTP.
    pub username: String,
    /// Where this process listens: no connections are made to there.
    pub own: OwnAddresses,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(15),
            circuit_time: Duration::from_secs(30),
            username: "forebay".to_owned(),
            own: OwnAddresses::default(),
        }
    }
}

/// Reads under way at one origin. Each has a connection of its own; more wait for their turn.
pub(crate) const REQUESTS_MAX: usize = 16;

/// How long the bytes that came with an open are kept for its reader.
pub(crate) const BEGUN_TIME: Duration = Duration::from_secs(1);

/// Longest range in bytes that shares a request with others. Longer ones are faster over a connection of their own.
pub(crate) const JOINED_RANGE_MAX: u64 = 256 << 10;

/// Most ranges of one request: its head stays below 4 KiB, and servers take so many.
pub(crate) const JOINED_COUNT_MAX: usize = 100;

/// Failed requests for several ranges after which no more are sent.
pub(crate) const FAILED_JOINS_MAX: u32 = 3;

/// Turns of the scheduler for which reads gather at most.
pub(crate) const GATHERING_TURNS: usize = 8;

/// Most bytes of one request for several ranges.
pub(crate) const JOINED_LEN_MAX: u64 = 4 << 20;

/// Connections over which reads that begin together are spread if there is no unused one.
pub(crate) const JOINED_SPREAD: usize = 4;

/// Opens at one origin whose answers have bytes that no reader has taken yet.
pub(crate) const OPENINGS_MAX: usize = 16;

/// Unused connections that are kept to one server.
pub(crate) const IDLE_PER_SERVER_MAX: usize = REQUESTS_MAX;

/// Bytes after which a connection has the window that a long path needs.
pub(crate) const WARM_LEN: u64 = 1 << 20;

/// Connections that are to exist when a file is opened for a long read, that of the open among them, and the length in bytes of such
/// a read.
pub(crate) const PREPARED: usize = 4;
pub(crate) const PREPARED_LEN_MIN: u64 = 1 << 20;

/// Unused connections that are kept in total.
pub(crate) const IDLE_MAX: usize = 512;

/// Longest head of an answer in bytes, and most headers in it.
pub(crate) const HEAD_LEN_MAX: usize = 128 << 10;
pub(crate) const HEADERS_MAX: usize = 200;

/// Longest answer to a request for properties, in bytes: that of a directory of about 100,000 entries.
pub(crate) const LISTING_LEN_MAX: usize = 64 << 20;

/// Bytes that are received and dropped to get to a range at a server that ignores `Range`.
pub(crate) const SKIP_MAX: u64 = 64 << 20;

/// Longest rest of an answer that is received so that its connection can be used again.
pub(crate) const DRAIN_MAX: usize = 64 << 10;

/// Longest document of a federation, in bytes, and how long it holds: as in clients of Pelican.
pub(crate) const DISCOVERY_LEN_MAX: usize = 64 << 10;
pub(crate) const DISCOVERY_TIME: Duration = Duration::from_secs(4 * 3600);

/// How long the servers that a director names are used before it is asked again: as in clients of Pelican.
pub(crate) const DIRECTION_TIME: Duration = Duration::from_secs(60);

/// Most answers of a director that are kept.
pub(crate) const DIRECTIONS_MAX: usize = 1024;
