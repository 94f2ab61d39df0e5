//! An open file as a front holds it.

use crate::{
    Caller, Read,
    api::{
        opened::{Opened, Source},
        switching::Switching,
    },
    entries::cached_file::CachedFile,
};
use forebay_telemetry::{Metrics, TracedFile};
use forebay_types::{ByteRange, FileStat, Lfn, Outcome};
use std::{fs::File, sync::Arc};

/// An open file. Cheap to clone; dropping the last clone closes it and writes its line of the access log.
#[derive(Clone)]
pub struct Handle {
    opened: Arc<Opened>,
}

impl Handle {
    pub(crate) fn new(source: Source, lfn: Lfn, caller: &Arc<Caller>, metrics: &Metrics, switching: Switching) -> Self {
        Self { opened: Arc::new(Opened::new(source, lfn, caller, metrics, switching)) }
    }

    pub(crate) const fn of(opened: Arc<Opened>) -> Self {
        Self { opened }
    }

    pub(crate) const fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }

    /// What is known of the file, as of its open.
    #[must_use]
    pub fn stat(&self) -> FileStat {
        match &self.opened.source {
            Source::Cached(file) => file.stat(),
            Source::Local { stat, .. } => *stat,
        }
    }

    /// Size in bytes, as of its open.
    #[must_use]
    pub fn size(&self) -> u64 {
        match &self.opened.source {
            Source::Cached(file) => file.size(),
            Source::Local { stat, .. } => stat.size,
        }
    }

    /// The file to send `range` from, when all its bytes are on disk; the bytes are accounted as hit.
    ///
    /// `range` is not empty and ends at the file's size at the latest. Takes no lock and
    /// allocates nothing, but for the few hits that tell that more is to be fetched ahead.
    #[must_use]
    pub fn hit(&self, range: ByteRange) -> Option<&Arc<File>> {
        let file = match &self.opened.source {
            Source::Cached(cached) => {
                let file = cached.hit(range)?;
                self.opened.note_hit(cached, range);
                file
            }
            Source::Local { file, .. } => file,
        };
        self.opened.account(Outcome::Hit, range.len());
        Some(file)
    }

    /// Starts reads of several ranges; what is missing is under way to the origin when this returns.
    ///
    /// Each range ends at the file's size at the latest. Reads of one file that belong to one request are started
    /// together, so that adjacent missing blocks become one origin request.
    #[must_use]
    pub fn read_many(&self, ranges: &[ByteRange]) -> Vec<Read> {
        Read::start(&self.opened, ranges)
    }

    /// The path, as the client has asked for it.
    #[must_use]
    pub fn lfn(&self) -> &Lfn {
        self.opened.lfn()
    }

    /// The cached file, if the handle is of a file of an origin.
    pub(crate) fn cached(&self) -> Option<&Arc<CachedFile>> {
        match &self.opened.source {
            Source::Cached(file) => Some(file),
            Source::Local { .. } => None,
        }
    }

    /// Has the reads traced. Only the first call counts.
    pub fn set_trace(&self, trace: TracedFile) {
        // A second trace of one open would tell the same.
        let _ = self.opened.trace.set(trace);
    }

    /// The trace of the reads, if they are traced: fronts report each answer to it.
    #[must_use]
    pub fn trace(&self) -> Option<&TracedFile> {
        self.opened.trace.get()
    }

    /// Bytes given through this handle so far under `outcome`.
    #[must_use]
    pub fn bytes(&self, outcome: Outcome) -> u64 {
        self.opened.bytes(outcome)
    }
}
