//! The access log: one structured event per close.

use crate::open_handle::OpenHandle;
use forebay_types::{Endpoint, Lfn, Outcome};
use std::path::Path;
use std::time::Duration;

/// Target of access events, for filters such as `forebay::access=off`.
pub const ACCESS_TARGET: &str = "forebay::access";

/// Writes the event of a client that was sent to a file of the cache, which it reads by itself: nothing more is heard of it.
pub fn log_direct(user: &str, host: &str, lfn: &Lfn, path: &Path) {
    let who = format!("{user}@{host}");
    tracing::info!(target: ACCESS_TARGET, who = who.as_str(), lfn = lfn.as_str(), path = %path.display(), "direct");
}

/// Writes the event of a client that had a file open when it was sent to it; what it has read by then is told by the event of its close.
pub fn log_switch(user: &str, host: &str, lfn: &Lfn, path: &Path) {
    let who = format!("{user}@{host}");
    tracing::info!(target: ACCESS_TARGET, who = who.as_str(), lfn = lfn.as_str(), path = %path.display(), "switched");
}

/// What one client did with one file, from open to close.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// User name as the client gave it; nobody has checked it unless authentication did.
    pub user: &'a str,
    /// Client's host name or address.
    pub host: &'a str,
    /// The file.
    pub lfn: &'a Lfn,
    /// Where the file comes from; `None` for a local export.
    pub origin: Option<&'a Endpoint>,
    /// The handle that accounted the bytes.
    pub handle: &'a OpenHandle,
    /// Time from open to close.
    pub duration: Duration,
    /// Clients that have the file open, this one included.
    pub opens: u64,
}

impl Access<'_> {
    /// Writes the event at level INFO.
    ///
    /// Names that a peer has chosen are recorded as strings, which every format of [`crate::init_logging`] quotes and
    /// escapes, so that no file name can forge a line.
    pub fn log(&self) {
        let who = format!("{}@{}", self.user, self.host);
        let origin = self.origin.map_or_else(String::new, ToString::to_string);
        tracing::info!(
            target: ACCESS_TARGET,
            who = who.as_str(),
            lfn = self.lfn.as_str(),
            origin = origin.as_str(),
            hit_bytes = self.handle.bytes(Outcome::Hit),
            missed_bytes = self.handle.bytes(Outcome::Missed),
            coalesced_bytes = self.handle.bytes(Outcome::Coalesced),
            bypassed_bytes = self.handle.bytes(Outcome::Bypassed),
            duration_ms = u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
            opens = self.opens,
            "closed"
        );
    }
}
