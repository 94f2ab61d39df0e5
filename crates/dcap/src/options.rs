//! Configuration of the front, and fixed limits.

use std::time::Duration;

/// Set-up of the dCap front. The defaults suit a cache node that serves a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name or address to which clients make data connections; `None` for the address to which they have made the control connection.
    pub host_name: Option<String>,
    /// Time limit for the first message of a connection, and for the rest of a request from its first byte on.
    pub request_time_max: Duration,
    /// Time limit for the data connection after the answer to an open.
    pub data_connection_time_max: Duration,
    /// Time limit for a client to take 256 KiB of the bytes that wait for it.
    pub write_stall_max: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host_name: None,
            request_time_max: Duration::from_secs(30),
            data_connection_time_max: Duration::from_secs(30),
            write_stall_max: Duration::from_secs(60),
        }
    }
}

/// Requests of one control connection, other than opens, that are answered at the same time; more are refused.
pub(crate) const REQUESTS_MAX: usize = 64;

/// Files that one control connection has open, or is opening.
pub(crate) const OPENS_MAX: usize = 4096;

/// Answers of tasks that wait for the task of the control connection.
pub(crate) const ANSWERS_QUEUED_MAX: usize = 64;

/// Files whose next open is refused, because a read failed.
pub(crate) const FAILING_MAX: usize = 1024;

/// Bytes that are received at a time.
pub(crate) const RECEIVE_LEN: usize = 8 << 10;

/// Bytes of a file that are accounted and sent at a time.
pub(crate) const PART_LEN: u64 = 1 << 20;

/// Shortest part of a file that is sent with `sendfile`; below it a copy is cheaper than the second system call.
pub(crate) const SENDFILE_LEN_MIN: u64 = 16 << 10;

/// Bytes of answers that are collected before they are sent.
pub(crate) const ASSEMBLY_LEN: usize = 256 << 10;
