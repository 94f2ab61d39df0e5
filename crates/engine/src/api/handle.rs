//! An open file as a front holds it.

use crate::{
    Client, Read,
    api::opened::{Opened, Source},
    entries::cached_file::CachedFile,
};
use forebay_telemetry::ReadEvents;
use forebay_types::{ByteRange, FileStat, Lfn, Outcome, Side};
use std::{fs::File, sync::Arc};

/// An open file. Cheap to clone; dropping the last clone closes it and writes its line of the access log.
#[derive(Clone)]
pub struct Handle {
    opened: Arc<Opened>,
}

impl Handle {
    pub(crate) const fn of(opened: Arc<Opened>) -> Self {
        Self { opened }
    }

    pub(crate) const fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }

    /// The attributes of the file, as of its open.
    pub fn stat(&self) -> FileStat {
        match &self.opened.source {
            Source::Cached(file) => file.stat(),
            Source::Local { stat, .. } => *stat,
        }
    }

    /// Size in bytes, as of its open.
    pub fn size(&self) -> u64 {
        self.opened.source.size()
    }

    /// The file to send `range` from, when all its bytes are on disk; the bytes are accounted as hit.
    ///
    /// `range` is not empty and ends at the file's size at the latest. Takes no lock and allocates nothing, except
    /// for the few hits that start a prefetch.
    pub fn hit(&self, range: ByteRange) -> Option<&Arc<File>> {
        let file = match &self.opened.source {
            Source::Cached(cached) => {
                let file = cached.hit(range)?;
                self.opened.note_hit(cached, range);
                file
            }
            Source::Local { file, .. } => file,
        };
        // Accounted here and not when it is sent: a hit leaves the engine with this call.
        self.opened.account(Outcome::Hit, range.len());
        Some(file)
    }

    /// Starts reads of several ranges; what is missing is under way to the origin when this returns.
    ///
    /// Each range ends at the file's size at the latest. Reads of one file that belong to one request are started
    /// together, so that adjacent missing blocks become one origin request.
    pub fn read_many(&self, ranges: &[ByteRange]) -> Vec<Read> {
        Read::start(&self.opened, ranges)
    }

    /// The path, as the client has asked for it.
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

    /// The client that has it open.
    pub fn client(&self) -> &Client {
        self.opened.client()
    }

    /// The number of the open, as in its events.
    pub fn number(&self) -> u64 {
        self.opened.number
    }

    /// Reports a failed read.
    pub fn report_failure(&self, side: Side, kind: &'static str, reason: &str) {
        self.opened.report_failure(side, kind, reason);
    }

    /// The observer of the reads, if a subscriber wants them: the front that answers a read reports it.
    pub fn reads(&self) -> Option<&dyn ReadEvents> {
        self.opened.reads.as_deref()
    }

    /// Bytes given through this handle so far under `outcome`.
    pub fn bytes(&self, outcome: Outcome) -> u64 {
        self.opened.bytes(outcome)
    }
}
