//! Configuration of the server, and fixed limits.

use forebay_net::TlsAcceptor;
use forebay_proto::TlsPolicy;
use std::time::Duration;

/// Set-up of the `root://` front. The defaults suit a cache node that serves a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Files that one session may hold open, at most 65 536.
    pub handles_per_session_max: usize,
    /// Requests of one connection that wait for the origin or the disk at the same time. The connection is not read while this
    /// limit is reached.
    pub requests_outstanding_max: usize,
    /// Time within which a new connection must have logged in, or bound to a session.
    pub login_time_max: Duration,
    /// Time within which the rest of a request must come, from its first byte on.
    pub request_time_max: Duration,
    /// Time limit for a client to take 512 KiB of the bytes that wait for it. A slower connection is closed, because it holds
    /// buffers.
    pub write_stall_max: Duration,
    /// Encryption; `None` for none.
    pub tls: Option<Tls>,
    /// Time after which a connection without a request and without an open file is closed. Stock clients close idle connections
    /// earlier, after 5 to 20 minutes.
    pub idle_time_max: Duration,
    /// Silence after which a client gets a wait response, if it understands one. Clients reconnect after 60 s of silence.
    pub wait_response_after: Duration,
    /// Upper bound of the wait, as the wait response names it.
    pub wait_response_time: Duration,
    /// Name of the site, for `query config sitename`.
    pub site_name: Option<String>,
    /// Name by which clients reach this server, for `locate` of clients that prefer names. If unset, they get the address that
    /// they are connected to.
    pub host_name: Option<String>,
    /// Checksum algorithms that are offered to clients, the default one first. The origin decides which it really has.
    pub checksum_algorithms: Vec<String>,
}

/// How connections are encrypted.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The host's certificate.
    pub acceptor: TlsAcceptor,
    /// Which clients must use it.
    pub policy: TlsPolicy,
    /// Time within which a client must finish the handshake.
    pub handshake_time_max: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            handles_per_session_max: 8192,
            requests_outstanding_max: 256,
            login_time_max: Duration::from_secs(30),
            request_time_max: Duration::from_secs(30),
            write_stall_max: Duration::from_secs(60),
            tls: None,
            idle_time_max: Duration::from_secs(1800),
            wait_response_after: Duration::from_secs(10),
            wait_response_time: Duration::from_secs(1800),
            site_name: None,
            host_name: None,
            checksum_algorithms: vec!["adler32".to_owned(), "crc32c".to_owned()],
        }
    }
}

/// Requests of one connection that are served before other connections get their turn. A client that always has a next request
/// ready would otherwise occupy a worker thread.
pub(crate) const REQUESTS_PER_TURN: usize = 32;

/// Longest part of a request that is moved out of its buffer while the rest is awaited.
pub(crate) const INCOMPLETE_LEN_MAX: usize = 1 << 10;

/// Time within which a long request must be complete when others wait for its memory.
pub(crate) const LONG_REQUEST_TIME_MAX: Duration = Duration::from_secs(2);

/// How often a connection with an incomplete long request looks whether others wait.
pub(crate) const LONG_REQUEST_CHECK: Duration = Duration::from_secs(1);

/// Shortest answer that is sent with `sendfile`; below it a copy is cheaper than the second system call.
pub(crate) const SENDFILE_LEN_MIN: u64 = 16 << 10;

/// Bytes of assembled answers (vectors, pages) that are collected before they are sent. Each sending wakes the client, so
/// fewer are better (from 128 to 512 KiB they save a third of the processor time) as long as the bytes stay in the
/// processor's cache.
pub(crate) const ASSEMBLY_LEN: usize = 512 << 10;

/// The same when memory is short: three pages with their checksums, which fit into the smallest buffer.
pub(crate) const SHORT_ASSEMBLY_LEN: usize = 12 << 10;

/// Answer frames that wait for a connection's task before the tasks that make them wait too.
pub(crate) const EVENTS_QUEUED_MAX: usize = 8;

/// Directory listings of one connection that are in progress at the same time; further ones wait. A whole listing is in memory,
/// up to some 100 MiB.
pub(crate) const LISTINGS_MAX: usize = 4;
