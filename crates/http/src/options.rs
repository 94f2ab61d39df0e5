//! Configuration of the front, and fixed limits.

use forebay_net::TlsAcceptor;
use forebay_types::Lfn;
use std::time::Duration;

/// Set-up of the HTTP front. The defaults suit a cache node that serves a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Encryption; `None` for none.
    pub tls: Option<Tls>,
    /// Whether requests over connections without encryption are refused.
    pub requires_tls: bool,
    /// Whether requests without a verified certificate of the client are refused.
    pub requires_certificate: bool,
    /// Time within which the head of a request must be complete, from its first byte on.
    pub header_time_max: Duration,
    /// Time after which a connection without a request is closed.
    pub idle_time_max: Duration,
    /// Time limit for a client to take 256 KiB of the bytes that wait for it.
    pub write_stall_max: Duration,
    /// Sites whose scripts may read answers in browsers, such as `https://a.example.org`, or `*` for all.
    pub cors_origins: Vec<String>,
    /// Name of this server in `Cache-Status`.
    pub host_name: String,
    /// If set, all requests are those of S3.
    pub s3: Option<S3>,
}

/// The dialect of S3.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct S3 {
    pub buckets: Vec<Bucket>,
    /// The domain of which buckets are subdomains; `None` if they are in the path only.
    pub domain: Option<String>,
}

/// A bucket, which is a directory of files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bucket {
    pub name: String,
    /// The directory, as clients of other protocols name it.
    pub path: Lfn,
}

/// How connections are encrypted.
#[derive(Clone, Debug)]
pub struct Tls {
    pub acceptor: TlsAcceptor,
    /// Time within which a client must finish the handshake.
    pub handshake_time_max: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tls: None,
            requires_tls: false,
            requires_certificate: false,
            header_time_max: Duration::from_secs(10),
            idle_time_max: Duration::from_secs(60),
            write_stall_max: Duration::from_secs(60),
            cors_origins: Vec::new(),
            host_name: "forebay".to_owned(),
            s3: None,
        }
    }
}

/// Requests of one connection that are served before other connections get their turn.
pub(crate) const REQUESTS_PER_TURN: usize = 16;

/// Bytes of answers that are collected before they are sent.
pub(crate) const ASSEMBLY_LEN: usize = 256 << 10;

/// Shortest part of a file that is sent with `sendfile`; below it a copy is cheaper than the second system call.
pub(crate) const SENDFILE_LEN_MIN: u64 = 16 << 10;

/// The same within a body of several parts, whose heads are copied anyway.
pub(crate) const SENDFILE_PART_LEN_MIN: u64 = 64 << 10;

/// Bytes of a file that are accounted and sent at a time.
pub(crate) const PART_LEN: u64 = 1 << 20;

/// Requests of one connection of HTTP/2 that are answered at the same time.
pub(crate) const STREAMS_MAX: usize = 100;

/// Requests of one connection of HTTP/2 that its client may give up before they are looked at. A client that exceeds it floods the server
/// with requests, and its connection is closed.
pub(crate) const RESETS_PENDING_MAX: usize = 20;

/// Bytes of the bodies of requests that may be on their way, of one connection of HTTP/2. Bodies are ignored.
pub(crate) const REQUEST_WINDOW_LEN: u32 = 64 << 10;

/// Bytes of one answer over HTTP/2 that wait in the connection.
pub(crate) const STREAM_PIECE_LEN: usize = 64 << 10;

/// Memory that an answer over HTTP/2 reserves before it is sent: a piece that is read from the file, and one that waits.
pub(crate) const STREAM_RESERVED_LEN: u64 = 2 * STREAM_PIECE_LEN as u64;

/// Length of answers that reserve no memory.
pub(crate) const STREAM_UNRESERVED_LEN: usize = 16 << 10;

/// Time for the end of a connection of HTTP/2 after its last answer.
pub(crate) const DRAIN_TIME_MAX: Duration = Duration::from_secs(2);

/// Bytes of all ranges of one request.
pub(crate) const RANGES_LEN_MAX: u64 = 1 << 30;

/// Refused tokens after which a connection ends.
pub(crate) const REFUSED_TOKENS_MAX: u32 = 32;
