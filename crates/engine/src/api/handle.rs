//! An open file as a front holds it: its caller, its source, and the bytes it delivered.

use crate::{
    Caller, Read,
    api::direct_open::Switching,
    base::{disk_queues::DiskQueue, disk_reads::DiskReads, sequential_run::SequentialRun},
    entries::{cached_file::CachedFile, file_context::FileContext, open_files::OpenFiles},
    transfer::{access_tracker::AccessTracker, complete_file},
};
use forebay_net::NowaitReads;
use forebay_telemetry::{
    Client, CloseEvent, FailedEvent, FileEvents as _, Observers, OpenEvent, OpenHandle, OpenPurpose, ReadEvents,
    ReadKind,
};
use forebay_types::{ByteRange, FileStat, Lfn, OriginId, Outcome, Side};
use std::{
    fs::File,
    io,
    sync::{Arc, OnceLock},
    time::Instant,
};

/// An open file. Cheap to clone; dropping the last clone closes it and writes its line of the access log.
#[derive(Clone)]
pub struct Handle {
    pub(crate) opened: Arc<Opened>,
}

impl Handle {
    /// The attributes of the file, as of its open.
    pub fn stat(&self) -> FileStat {
        match &self.opened.source {
            Source::Cached(file) => file.stat(),
            Source::Local { stat, .. } => stat.clone(),
        }
    }

    pub fn size(&self) -> u64 {
        self.opened.source.size()
    }

    /// The file to send `range` from, when all its bytes are on disk; the bytes are accounted as hit, or as missed if they were
    /// fetched ahead for this read.
    ///
    /// `range` is not empty and ends at the file's size at the latest. Takes no lock and allocates nothing, except
    /// for the few hits that start a prefetch.
    pub fn hit(&self, range: ByteRange) -> Option<&Arc<File>> {
        let file = match &self.opened.source {
            Source::Cached(cached) => {
                let file = cached.hit(range)?;
                // Accounted here and not when it is sent: a hit leaves the engine with this call.
                let fetched_ahead = self.opened.note_hit(cached, range);
                self.opened.account_stored(fetched_ahead, range.len());
                file
            }
            Source::Local { file, .. } => {
                self.opened.account(Outcome::Hit, range.len());
                file
            }
        };
        self.opened.run.note(range);
        Some(file)
    }

    /// Whether all bytes of `range` are on disk. Accounts nothing.
    pub fn has(&self, range: ByteRange) -> bool {
        self.cached().is_none_or(|file| range.is_empty() || file.hit(range).is_some())
    }

    /// Seconds since the copy was last found to be its origin's; `None` if the cache does not hold all of it.
    pub fn age(&self) -> Option<u64> {
        let file = self.cached()?;
        let age = forebay_net::clock::now_unix().saturating_sub(file.last_check.lock().unix);
        file.is_complete().then(|| u64::try_from(age).unwrap_or(0))
    }

    /// Whether reads of a file that [`Self::hit`] returned can be limited to the page cache.
    pub fn nowait_reads(&self) -> NowaitReads {
        match &self.opened.source {
            Source::Cached(file) => file.nowait_reads(),
            Source::Local { file, .. } => self.opened.disk_queue(file).nowait_reads,
        }
    }

    /// Reads a range of a file that [`Self::hit`] returned, when the page cache does not hold it.
    ///
    /// # Errors
    /// When the disk fails, or takes too long.
    pub async fn read_disk(&self, file: &Arc<File>, range: ByteRange) -> io::Result<Vec<u8>> {
        self.opened.disk_reads.read(self.opened.disk_queue(file), file, range).await
    }

    /// Loads a range of a file that [`Self::hit`] returned into the page cache, if that occupies no thread; `false` otherwise. So the bytes
    /// can be sent without a copy.
    ///
    /// # Errors
    /// When the disk fails, or takes too long.
    pub async fn load_disk(&self, file: &Arc<File>, range: ByteRange) -> io::Result<bool> {
        let Opened { disk_reads, run, .. } = &*self.opened;
        // The kernel reads ahead of ordinary reads, and not of what it is asked to load.
        if run.is_stream(range) {
            return Ok(false);
        }
        disk_reads.load(self.opened.disk_queue(file), file, range).await
    }

    /// Starts reads of several ranges; what is missing is under way to the origin when this returns.
    ///
    /// Each range ends at the file's size at the latest. Reads of one file that belong to one request are started
    /// together, so that adjacent missing blocks become one origin request.
    pub fn read_many(&self, ranges: &[ByteRange]) -> Vec<Read> {
        Read::start(&self.opened, ranges)
    }

    pub fn lfn(&self) -> &Lfn {
        &self.opened.lfn
    }

    /// The cached file, if the handle is of a file of an origin.
    pub(crate) fn cached(&self) -> Option<&Arc<CachedFile>> {
        match &self.opened.source {
            Source::Cached(file) => Some(file),
            Source::Local { .. } => None,
        }
    }

    pub fn client(&self) -> &Client {
        &self.opened.caller.client
    }

    /// The number of the open, as in its events.
    pub fn number(&self) -> u64 {
        self.opened.number
    }

    pub fn report_failure(&self, side: Side, kind: &'static str, reason: &str) {
        let Opened { lfn, number, caller, events, .. } = &*self.opened;
        let (at, client) = (forebay_net::clock::monotonic(), &caller.client);
        events.failed(&FailedEvent { at, client, lfn, open: Some(*number), side, kind, reason, duration: None });
    }

    /// Counts a read, when it is received: `range` ends at the end of the file. The task of the connection that has the handle
    /// calls it, and no other one.
    pub fn note_operation(&self, kind: ReadKind, range: ByteRange) {
        self.opened.account.note_read(kind, range.len());
    }

    /// Counts a vector read with so many elements of this file. As for [`Self::note_operation`].
    pub fn note_vector(&self, elements: u64, bytes: u64) {
        self.opened.account.note_vector(elements, bytes);
    }

    /// The observer of the reads, if a subscriber wants them: the front that answers a read reports it.
    pub fn reads(&self) -> Option<&dyn ReadEvents> {
        self.opened.reads.as_deref()
    }

    /// Bytes given through this handle so far under `outcome`.
    pub fn bytes(&self, outcome: Outcome) -> u64 {
        self.opened.account.shared().bytes(outcome)
    }
}

/// One open of a file, shared by a handle's clones and the reads it has started. Its drop is the close.
pub(crate) struct Opened {
    pub(crate) source: Source,
    account: OpenHandle,
    tracker: Arc<AccessTracker>,
    pub(crate) switching: Switching,
    pub(crate) lfn: Lfn,
    pub(crate) caller: Arc<Caller>,
    opened: Instant,
    purpose: OpenPurpose,
    disk_reads: Arc<DiskReads>,
    /// The table that a cached file is in.
    table: Arc<OpenFiles>,
    /// Of the disk that the file is on, once it was read from there.
    disk_queue: OnceLock<DiskQueue>,
    run: SequentialRun,
    events: Observers,
    /// Its number among the events.
    pub(crate) number: u64,
    /// The observer of its reads, if a subscriber wants them.
    pub(crate) reads: Option<Arc<dyn ReadEvents>>,
}

pub(crate) enum Source {
    /// A file of an origin, through the cache.
    Cached(Arc<CachedFile>),
    /// A file of an exported directory.
    Local { file: Arc<File>, stat: FileStat },
}

impl Source {
    fn origin(&self) -> Option<&OriginId> {
        match self {
            Self::Cached(file) => Some(file.server()),
            Self::Local { .. } => None,
        }
    }

    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Cached(file) => file.size(),
            Self::Local { stat, .. } => stat.size,
        }
    }

    /// Whether both are the same copy of the same file.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cached(one), Self::Cached(other)) => Arc::ptr_eq(one, other),
            (Self::Local { stat: one, .. }, Self::Local { stat: other, .. }) => one == other,
            _ => false,
        }
    }
}

impl Opened {
    pub(crate) fn new(
        source: Source,
        lfn: Lfn,
        caller: &Arc<Caller>,
        purpose: OpenPurpose,
        (context, table): (&FileContext, &Arc<OpenFiles>),
        switching: Switching,
    ) -> Self {
        let FileContext { metrics, disk_reads, options, .. } = context;
        let events = &options.events;
        let number = events.next_open();
        let at = forebay_net::clock::monotonic();
        let client = &caller.client;
        let origin = source.origin();
        let size = source.size();
        let handle = metrics.open_handle();
        let account = handle.shared();
        let reads = events.opened(&OpenEvent { open: number, at, client, lfn: &lfn, origin, size, purpose, account });
        let reads: Option<Arc<dyn ReadEvents>> = reads.map(Arc::from);
        Self {
            account: handle,
            purpose,
            tracker: Arc::new(AccessTracker::new(reads.clone())),
            caller: Arc::clone(caller),
            disk_reads: Arc::clone(disk_reads),
            table: Arc::clone(table),
            disk_queue: OnceLock::new(),
            run: SequentialRun::default(),
            events: events.clone(),
            opened: at,
            source,
            switching,
            lfn,
            number,
            reads,
        }
    }

    fn disk_queue(&self, file: &File) -> &DiskQueue {
        self.disk_queue.get_or_init(|| self.disk_reads.queue_of(file))
    }

    /// Accounts bytes once: for the handle, the file's history, and the metrics.
    pub(crate) fn account(&self, outcome: Outcome, bytes: u64) {
        self.account.account(outcome, bytes);
        if let Source::Cached(file) = &self.source {
            file.account.add(outcome, bytes);
        }
    }

    /// Accounts bytes from the disk, the first `fetched_ahead` of which are there only because this read was expected.
    pub(crate) fn account_stored(&self, fetched_ahead: u64, bytes: u64) {
        let missed = fetched_ahead.min(bytes);
        if missed > 0 {
            self.account(Outcome::Missed, missed);
        }
        if bytes > missed {
            self.account(Outcome::Hit, bytes - missed);
        }
    }
}

// The reads of a file predict those to come.
impl Opened {
    /// The file will be read: its structure may say where.
    pub(crate) fn expect_reads(&self) {
        if let Source::Cached(file) = &self.source {
            self.tracker.begin(file, &self.caller.client);
        }
    }

    /// Notes a hit; the bytes of it that were fetched ahead for it.
    pub(crate) fn note_hit(&self, file: &Arc<CachedFile>, range: ByteRange) -> u64 {
        // Before the tracker: bytes used ahead count as used also when the tracker finds the recogniser locked and
        // skips the hit.
        let fetched_ahead = file.read_ahead.note_read(range);
        self.tracker.note_hit(file, range);
        fetched_ahead
    }

    /// Notes reads that have been planned; the bytes of each that were fetched ahead for it.
    pub(crate) fn note_reads(&self, file: &Arc<CachedFile>, ranges: &[ByteRange]) -> Vec<u64> {
        let fetched_ahead = ranges.iter().map(|range| file.read_ahead.note_read(*range)).collect();
        self.tracker.note_read(file, ranges);
        // After each planned read: the share of the file that starts a completion may have been reached by it.
        complete_file::start_if_due(file);
        fetched_ahead
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // First: no prefetch starts for a reader that is gone.
        self.tracker.close(match &self.source {
            Source::Cached(file) => Some(file),
            Source::Local { .. } => None,
        });
        let at = forebay_net::clock::monotonic();
        let duration = at.saturating_duration_since(self.opened);
        let (opens, file) = match &self.source {
            // The close of the file yields the number of clients that had it open, which the event reports.
            Source::Cached(file) => {
                let (opens, file) = file.detach(duration);
                (opens, Some(file))
            }
            Source::Local { .. } => (1, None),
        };
        let event = CloseEvent {
            open: self.number,
            at,
            client: &self.caller.client,
            lfn: &self.lfn,
            origin: self.source.origin(),
            size: self.source.size(),
            purpose: self.purpose,
            account: self.account.shared(),
            duration,
            opens,
            file: file.as_ref(),
        };
        if let Some(reads) = &self.reads {
            reads.closed(&event);
        }
        self.events.closed(&event);
        // Last: the file may leave the table with it.
        if let Source::Cached(file) = &self.source
            && opens == 1
        {
            self.table.note_left(file);
        }
    }
}
