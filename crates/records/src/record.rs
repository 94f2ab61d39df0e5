//! The facts of one record.

use crate::DataNames;
use forebay_types::named_enum;
use std::net::IpAddr;

named_enum! {
    /// The event that a record reports.
    pub enum Event {
        /// A client has closed a file.
        Close = "close",
        /// A client was sent to a file of the cache, which it reads by itself.
        Direct = "direct",
        /// An open was redirected to another server.
        Redirect = "redirect",
        /// An open was refused before the file was looked up.
        Refused = "refused",
        /// An open failed, after the file was looked up.
        Failed = "failed",
    }
}

named_enum! {
    /// How the file of a close was served.
    pub enum Decision {
        /// The cache stored what was fetched.
        Cache = "cache",
        /// From its origin, without being stored.
        Bypass = "bypass",
        /// From an exported directory.
        Local = "local",
    }
}

/// Longest reason of a refusal or failure in bytes; the rest is left out.
pub const REASON_LEN_MAX: usize = 512;

/// One record. Fields that are `None` are left out of its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Record<'a> {
    /// Unique among all servers and starts.
    pub id: &'a str,
    pub event: Event,
    pub server: &'a Server,
    pub times: Times,
    pub client: Client<'a>,
    pub lfn: &'a str,
    pub names: &'a DataNames,
    pub size: Option<u64>,
    /// The server of the file's origin.
    pub origin: Option<&'a str>,
    /// Where the client was sent.
    pub target: Option<&'a str>,
    /// `ok`, or the kind of failure or refusal.
    pub status: &'a str,
    /// The text that the client got with it.
    pub reason: Option<&'a str>,
    /// The reads of a close.
    pub reads: Option<Reads>,
    pub decision: Option<Decision>,
    /// Of the close that ends an access period of the file.
    pub cache: Option<CacheUse>,
}

/// The server that writes records.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Server {
    /// The site's name in the accounting.
    pub site: String,
    pub host: String,
    /// The instance's name at the site.
    pub instance: String,
    pub version: String,
}

/// The times of a record in milliseconds of the Unix epoch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Times {
    /// The beginning of the open; the same as `end` if nothing lies between.
    pub start: i64,
    pub end: i64,
}

/// The client that a record is about.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Client<'a> {
    /// A proven name, or the name that the client gave.
    pub user: &'a str,
    pub host: &'a str,
    /// The domain of its host name, or the network of its address.
    pub domain: &'a str,
    pub address: Option<IpAddr>,
    pub organization: Option<&'a str>,
    /// The client's program, as it says.
    pub program: &'a str,
    /// The protocol of its connection, as the accounting of grids names it.
    pub protocol: &'a str,
}

/// The reads of one open, and where their bytes came from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Reads {
    /// Bytes of reads of one range, and of vector reads.
    pub single_bytes: u64,
    pub vector_bytes: u64,
    pub operations: u64,
    pub vector_operations: u64,
    pub vector_elements: u64,
    pub hit: u64,
    pub missed: u64,
    pub coalesced: u64,
    pub bypassed: u64,
}

/// The use of a file by all of its clients, in the access period that ends with this record.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CacheUse {
    pub fetched: u64,
    pub written: u64,
    pub prefetched: u64,
    pub wasted: u64,
    /// Access periods so far, this one included; 0 of a file that is not cached.
    pub accesses: u64,
    /// Seconds between the end of the period before and the begin of this one.
    pub since_last_use_s: Option<u64>,
    pub block_size: u64,
    pub blocks: u64,
    pub blocks_done: u64,
    /// Servers that have sent bytes of the file.
    pub remotes: Vec<String>,
}

impl Reads {
    pub(crate) const fn bytes(&self) -> u64 {
        self.single_bytes.saturating_add(self.vector_bytes)
    }
}
