//! One open of a file: its caller, its source, and the bytes it delivered.

use crate::{
    Caller, Client,
    api::switching::Switching,
    entries::cached_file::CachedFile,
    transfer::{access_tracker::AccessTracker, complete_file},
};
use forebay_telemetry::{Access, Metrics, OpenHandle, TracedFile};
use forebay_types::{ByteRange, FileStat, Lfn, Outcome};
use std::{
    fs::File,
    sync::{Arc, OnceLock},
    time::Instant,
};

/// One open of a file, shared by a handle's clones and the reads it has started. Its drop is the close.
pub(crate) struct Opened {
    pub(crate) source: Source,
    account: OpenHandle,
    tracker: Arc<AccessTracker>,
    pub(crate) switching: Switching,
    lfn: Lfn,
    caller: Arc<Caller>,
    opened: Instant,
    /// What follows the reads, when they are traced.
    pub(crate) trace: OnceLock<TracedFile>,
}

/// The source of a handle's bytes.
pub(crate) enum Source {
    /// A file of an origin, through the cache.
    Cached(Arc<CachedFile>),
    /// A file of an exported directory.
    Local { file: Arc<File>, stat: FileStat },
}

impl Opened {
    pub(crate) fn new(source: Source, lfn: Lfn, caller: &Arc<Caller>, metrics: &Metrics, switching: Switching) -> Self {
        let opened = forebay_net::clock::monotonic();
        let tracker = Arc::default();
        let account = metrics.open_handle();
        let caller = Arc::clone(caller);
        Self { source, account, tracker, switching, lfn, caller, opened, trace: OnceLock::new() }
    }

    /// Bytes accounted so far under `outcome`.
    pub(crate) fn bytes(&self, outcome: Outcome) -> u64 {
        self.account.bytes(outcome)
    }

    pub(crate) const fn lfn(&self) -> &Lfn {
        &self.lfn
    }

    pub(crate) fn client(&self) -> &Client {
        &self.caller.client
    }

    /// Accounts bytes once: for the handle, the file's history, and the metrics.
    pub(crate) fn account(&self, outcome: Outcome, bytes: u64) {
        self.account.account(outcome, bytes);
        if let Source::Cached(file) = &self.source {
            file.account(outcome, bytes);
        }
    }
}

// What the reads of a file tell of those to come.
impl Opened {
    /// Notes a hit.
    pub(crate) fn note_hit(&self, file: &Arc<CachedFile>, range: ByteRange) {
        file.read_ahead().note_read(range);
        self.tracker.note_hit(file, range);
    }

    /// Notes reads that have been planned.
    pub(crate) fn note_reads(&self, file: &Arc<CachedFile>, ranges: &[ByteRange]) {
        for range in ranges {
            file.read_ahead().note_read(*range);
        }
        self.tracker.note_read(file, ranges);
        complete_file::start_if_due(file);
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.tracker.close();
        let now = forebay_net::clock::monotonic();
        if let Some(trace) = self.trace.get() {
            trace.close(|outcome| self.bytes(outcome), now);
        }
        let duration = now.saturating_duration_since(self.opened);
        let (origin, opens) = match &self.source {
            Source::Cached(file) => (Some(file.server()), file.detach(duration)),
            Source::Local { .. } => (None, 1),
        };
        let Client { user, host, .. } = &self.caller.client;
        Access { user, host, lfn: &self.lfn, origin, handle: &self.account, duration, opens }.log();
    }
}
