//! An open file as a front holds it.

use crate::{Read, cached::CachedFile};
use forebay_telemetry::{Access, Metrics, OpenHandle};
use forebay_types::{ByteRange, FileStat, Lfn, Outcome};
use std::{fs::File, sync::Arc, time::Instant};

/// Who opens a file, as far as it is known.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Client {
    /// User name as the client gave it.
    pub user: String,
    /// The client's host name or address.
    pub host: String,
}

/// An open file. Cheap to clone; dropping the last clone closes it and writes its line of the access log.
#[derive(Clone)]
pub struct Handle {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) source: Source,
    account: OpenHandle,
    lfn: Lfn,
    client: Client,
    opened: Instant,
}

/// What stands behind a handle.
pub(crate) enum Source {
    /// A file of an origin, through the cache.
    Cached(Arc<CachedFile>),
    /// A file of an exported directory.
    Local { file: Arc<File>, stat: FileStat },
}

impl Handle {
    pub(crate) fn new(source: Source, lfn: Lfn, client: &Client, metrics: &Metrics) -> Self {
        let opened = forebay_net::clock::monotonic();
        let inner = Inner { source, account: metrics.open_handle(), lfn, client: client.clone(), opened };
        Self { inner: Arc::new(inner) }
    }

    /// What is known of the file, as of its open.
    #[must_use]
    pub fn stat(&self) -> FileStat {
        match &self.inner.source {
            Source::Cached(file) => file.stat(),
            Source::Local { stat, .. } => *stat,
        }
    }

    /// Size in bytes, as of its open.
    #[must_use]
    pub fn size(&self) -> u64 {
        match &self.inner.source {
            Source::Cached(file) => file.size(),
            Source::Local { stat, .. } => stat.size,
        }
    }

    /// The file to send `range` from, when all its bytes are on disk; the bytes are accounted as hit.
    ///
    /// `range` is not empty and ends at the file's size at the latest. Takes no lock and allocates nothing.
    #[must_use]
    pub fn hit(&self, range: ByteRange) -> Option<&Arc<File>> {
        let file = match &self.inner.source {
            Source::Cached(file) => file.hit(range)?,
            Source::Local { file, .. } => file,
        };
        self.inner.account(Outcome::Hit, range.len());
        Some(file)
    }

    /// Starts reads of several ranges; what is missing is under way to the origin when this returns.
    ///
    /// Each range ends at the file's size at the latest. Reads of one file that belong to one request are started
    /// together, so that adjacent missing blocks become one origin request.
    #[must_use]
    pub fn read_many(&self, ranges: &[ByteRange]) -> Vec<Read> {
        Read::start(&self.inner, ranges)
    }

    /// Bytes given through this handle so far under `outcome`.
    #[must_use]
    pub fn bytes(&self, outcome: Outcome) -> u64 {
        self.inner.account.bytes(outcome)
    }
}

impl Inner {
    /// Accounts bytes once: for the handle, the file's history, and the metrics.
    pub(crate) fn account(&self, outcome: Outcome, bytes: u64) {
        self.account.account(outcome, bytes);
        if let Source::Cached(file) = &self.source {
            file.account(outcome, bytes);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let duration = forebay_net::clock::monotonic().saturating_duration_since(self.opened);
        let (origin, opens) = match &self.source {
            Source::Cached(file) => (Some(file.server()), file.detach(duration)),
            Source::Local { .. } => (None, 1),
        };
        let Client { user, host } = &self.client;
        Access { user, host, lfn: &self.lfn, origin, handle: &self.account, duration, opens }.log();
    }
}
