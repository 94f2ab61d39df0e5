//! Bytes fetched ahead of one file's readers, and their use.

use crate::link::{
    admission::{Permit, Purpose},
    link_scheduler::Link,
};
use forebay_cache::{AheadBytes, AheadSource, Geometry, ReadAheadBounds, ReadAheadLedger, ReadAheadSettings, Worth};
use forebay_telemetry::{Metrics, ReadAheadEvent, ReadAheadSource};
use forebay_types::ByteRange;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

pub(crate) struct FileReadAhead {
    settings: ReadAheadSettings,
    link: Arc<Link>,
    metrics: Metrics,
    ledger: ReadAheadLedger,
    /// Reads while less was fetched ahead, or nothing, because it had been wasteful.
    reads_while_less: AtomicU64,
    pub(crate) is_completing: AtomicBool,
}

/// Reads after which a wasteful past counts half, so that reading ahead is tried again in the end.
const FADE_READS: u64 = 256;

impl FileReadAhead {
    pub(crate) const fn new(
        settings: ReadAheadSettings,
        link: Arc<Link>,
        geometry: Geometry,
        metrics: Metrics,
    ) -> Self {
        Self {
            settings,
            link,
            metrics,
            ledger: ReadAheadLedger::new(geometry),
            reads_while_less: AtomicU64::new(0),
            is_completing: AtomicBool::new(false),
        }
    }

    pub(crate) const fn settings(&self) -> &ReadAheadSettings {
        &self.settings
    }

    pub(crate) const fn link(&self) -> &Arc<Link> {
        &self.link
    }

    pub(crate) fn is_completing(&self) -> bool {
        self.is_completing.load(Ordering::Acquire)
    }

    /// How far a reader may be read ahead of that has not come to `expected` bytes yet that were fetched ahead of it.
    /// `None` when that has been wasteful.
    pub(crate) fn bounds(&self, expected: u64) -> Option<ReadAheadBounds> {
        let worth = self.ledger.worth(expected);
        (worth != Worth::Off).then(|| ReadAheadBounds::new(&self.settings, self.link.estimate().window(), worth))
    }

    /// Notes a read, of a reader as above: what was wasteful is tried again in the end.
    pub(crate) fn note_reading_on(&self, expected: u64) {
        let is_to_fade = || self.reads_while_less.fetch_add(1, Ordering::Relaxed) % FADE_READS == FADE_READS - 1;
        // The worth is compared first: the counter moves only while less is fetched.
        if self.ledger.worth(expected) != Worth::Full && is_to_fade() {
            self.ledger.fade();
        }
    }

    pub(crate) fn note_fetched(&self, purpose: Purpose, source: AheadSource, blocks: ByteRange) {
        match purpose {
            Purpose::ReadAhead | Purpose::Idle => {
                self.ledger.note_fetched(source, blocks);
                self.metrics.add_read_ahead(ReadAheadEvent::Fetched, label_of(source), blocks.len());
            }
            Purpose::Completion => self.metrics.add_completion(blocks.len()),
        }
    }

    /// Notes that the fill of `blocks` has ended. Bytes of it that are not in the cache do not count as wasted: they
    /// were not there to be read.
    pub(crate) fn note_ended(&self, permit: Permit, blocks: ByteRange, is_stored: bool) {
        let is_read_ahead = permit.purpose != Purpose::Completion;
        // Dropped first: the room on the link is free before the next prefetch is planned.
        drop(permit);
        if is_read_ahead && !is_stored {
            self.count(ReadAheadEvent::Failed, self.ledger.forget(blocks));
        }
    }

    /// Notes that a client reads `range`; the bytes of it that were fetched ahead for this read. Takes no lock and allocates nothing.
    pub(crate) fn note_read(&self, range: ByteRange) -> u64 {
        let used = self.ledger.note_read(range);
        // Most reads use no bytes fetched ahead: the shared counters are not touched.
        let bytes = used.sum();
        if bytes > 0 {
            self.count(ReadAheadEvent::Used, used);
        }
        // Whole blocks are noted, of which the read may want a part.
        bytes.min(range.len())
    }

    /// Whether all of `range` was fetched ahead and no reader has come to it.
    pub(crate) fn is_unread(&self, range: ByteRange) -> bool {
        self.ledger.is_unread(range)
    }

    /// Whether all of `range` was fetched by the structure of the file since its first reader came.
    pub(crate) fn was_advised(&self, range: ByteRange) -> bool {
        self.ledger.was_advised(range)
    }

    /// No client has the file open any more. Returns the bytes that were fetched ahead in vain.
    pub(crate) fn note_all_left(&self) -> u64 {
        let wasted = self.ledger.give_up();
        self.count(ReadAheadEvent::Wasted, wasted);
        wasted.sum()
    }

    fn count(&self, event: ReadAheadEvent, bytes: AheadBytes) {
        let AheadBytes { runs, structure, history } = bytes;
        for (source, bytes) in [
            (ReadAheadSource::Runs, runs),
            (ReadAheadSource::Structure, structure),
            (ReadAheadSource::History, history),
        ] {
            if bytes > 0 {
                self.metrics.add_read_ahead(event, source, bytes);
            }
        }
    }
}

/// The source, as metrics and events name it.
pub(crate) const fn label_of(source: AheadSource) -> ReadAheadSource {
    match source {
        AheadSource::Runs => ReadAheadSource::Runs,
        AheadSource::Structure => ReadAheadSource::Structure,
        AheadSource::History => ReadAheadSource::History,
    }
}
