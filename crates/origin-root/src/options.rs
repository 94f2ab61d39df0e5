//! Settings of origins, and limits that are not settings.

use forebay_origin::{OwnAddresses, Redirects};
use forebay_proto::TlsUse;
use std::time::Duration;

/// How one origin is used. The defaults suit origins on the same site and across an ocean.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Options {
    /// Longest silence of a connection that owes an answer of which no byte has arrived: 60 s, as stock clients allow.
    pub first_byte_timeout: Duration,
    /// Longest silence of a connection in the middle of an answer: 30 s.
    pub stall_timeout: Duration,
    /// Time limit of an operation with all its redirects, waits and retries; that of a read starts again with every byte it
    /// gets: 600 s. Clients give up after 1800 s.
    pub deadline: Duration,
    /// Longest single pause that a server may impose before it is asked again: 60 s.
    pub wait_max: Duration,
    /// Tries of an open, stat, listing or checksum; each server of the list is tried at least once: 5.
    pub attempts: u32,
    /// Of these, tries without an answer, as with a refused connection or silence: all.
    pub unanswered_attempts: u32,
    /// Tries of a read of an open file without a byte of progress: 10, about 24 s with an unreachable origin: time
    /// to restart it.
    pub read_attempts: u32,
    /// Pause before the second round over the servers: 250 ms. It doubles with every round.
    pub back_off_min: Duration,
    /// Longest pause between two rounds: 4 s.
    pub back_off_max: Duration,
    /// Redirects that one request follows: 16, as stock clients do.
    pub redirect_limit: u32,
    /// The servers that redirects may lead to: those in the origin's domain.
    pub redirects: Redirects,
    /// Whether page reads, whose checksums protect the bytes on their way, are used where the server has them: yes.
    pub page_reads: bool,
    /// TLS is used where a server demands it (`root://`), or always, also with all servers that redirects lead to
    /// (`roots://`).
    pub tls: TlsUse,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            first_byte_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(30),
            deadline: Duration::from_secs(600),
            wait_max: Duration::from_secs(60),
            attempts: 5,
            unanswered_attempts: u32::MAX,
            read_attempts: 10,
            back_off_min: Duration::from_millis(250),
            back_off_max: Duration::from_secs(4),
            redirect_limit: forebay_proto::limits::REDIRECTS_MAX,
            redirects: Redirects::default(),
            page_reads: true,
            tls: TlsUse::WhenDemanded,
        }
    }
}

/// How connections are made and kept; shared by every origin of the process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PoolOptions {
    /// Time limit of making a connection, from name resolution to login: 10 s.
    pub connect_timeout: Duration,
    /// How long a server that could not be reached is skipped when there is another one: 30 s.
    pub circuit_time: Duration,
    /// How long an unused connection is kept: 300 s, as stock clients do.
    pub idle_timeout: Duration,
    /// Servers to which connections are kept at once: 1024. Forwarding caches meet many.
    pub servers_max: usize,
    /// The user name at login; servers show it and do not check it. At most 8 bytes count.
    pub username: String,
    /// Where this process listens: no connections are made to there.
    pub own: OwnAddresses,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            circuit_time: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(300),
            servers_max: 1024,
            username: "forebay".to_owned(),
            own: OwnAddresses::default(),
        }
    }
}
