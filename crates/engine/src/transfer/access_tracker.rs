//! Follows the reads of one handle, and prefetches for it: ahead of its reads, and while a link is idle.
//!
//! A job that reads tens of megabytes at once and then works on them for seconds, as ROOT's do, otherwise waits for the link
//! whenever it comes back.

use crate::{
    base::latch::Latch,
    catalog::column_sets::Job,
    entries::{cached_file::CachedFile, fill::Fill},
    link::admission::Purpose,
    transfer::{
        planner::fetch,
        structure_parse,
        structure_prefetch::{evidence, expected_of, prefetch_by_structure},
    },
};
use forebay_cache::{AheadSource, ReadAheadBounds, Recogniser, ZONES_MAX};
use forebay_structure::Reader;
use forebay_telemetry::{AdviceEvent, NotReadAhead, ReadEvents};
use forebay_types::ByteRange;
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

/// Follows the reads of one handle, and has fetched what it will read next.
///
/// A reader that nothing was fetched ahead of costs its hits one load. Others report a hit only when they come to a zone, that is
/// a few times per window.
#[derive(Default)]
pub(crate) struct AccessTracker {
    pub(super) zones: Zones,
    /// Made at the first read that the cache could not answer.
    pub(super) pattern: Mutex<Option<Box<Pattern>>>,
    /// Whether an idle prefetch runs. One that has nothing to do ends under the lock of the pattern: a later read begins
    /// another one.
    is_fetching_on: AtomicBool,
    /// The same, of a prefetch by the structure of the file.
    pub(super) is_fetching_by_structure: AtomicBool,
    /// The reader, if its columns are remembered.
    pub(super) job: OnceLock<Job>,
    pub(super) closed: Latch,
    /// The observer of the reads, if a subscriber wants them.
    observer: Option<Arc<dyn ReadEvents>>,
}

/// What is known of the reads of a handle.
pub(super) struct Pattern {
    recogniser: Recogniser,
    /// The place in the trees of a ROOT file, if the first read was one of a reader that looks at the structure.
    pub(super) reader: Option<Reader>,
    /// Why nothing is fetched by the structure now, if that was reported.
    given_up: Option<NotReadAhead>,
}

/// Ranges in which a hit is reported to the recogniser. They change while they are read: a zone missed is found a read later.
#[derive(Default)]
pub(super) struct Zones {
    count: AtomicUsize,
    bounds: [(AtomicU64, AtomicU64); ZONES_MAX],
}

impl AccessTracker {
    pub(crate) fn new(observer: Option<Arc<dyn ReadEvents>>) -> Self {
        Self { observer, ..Self::default() }
    }

    /// Notes reads that the cache may not answer as a whole. Called when they are planned.
    pub(crate) fn note_read(self: &Arc<Self>, file: &Arc<CachedFile>, ranges: &[ByteRange]) {
        // A complete file has nothing to fetch ahead, nor has one that is not kept.
        if !file.read_ahead.settings().enabled || file.stored.as_ref().is_none_or(|stored| stored.map.is_complete()) {
            return;
        }
        let pattern = self.pattern.lock();
        self.follow(file, pattern, ranges, |recogniser, bounds| recogniser.handle_read(ranges, bounds));
    }

    /// Notes a hit. Takes no lock and allocates nothing, unless the hit lies in a zone.
    pub(crate) fn note_hit(self: &Arc<Self>, file: &Arc<CachedFile>, range: ByteRange) {
        if !self.zones.touch(range) {
            return;
        }
        // Tried only: a hit never waits; the next one in the zone reports instead.
        let Some(pattern) = self.pattern.try_lock() else { return };
        self.follow(file, pattern, &[range], |recogniser, bounds| recogniser.handle_hit(range, bounds));
    }

    fn follow(
        self: &Arc<Self>,
        file: &Arc<CachedFile>,
        mut pattern: MutexGuard<'_, Option<Box<Pattern>>>,
        ranges: &[ByteRange],
        step: impl FnOnce(&mut Recogniser, ReadAheadBounds) -> Vec<ByteRange>,
    ) {
        let new_pattern = || Box::new(Pattern::new(file, self, ranges));
        let Pattern { recogniser, reader, .. } = &mut **pattern.get_or_insert_with(new_pattern);
        // Bytes that are likely to be read still, besides those that the recogniser expects.
        let mut advised = 0;
        if let Some(reader) = reader {
            let is_data = file.structure.handle_read(reader, ranges, &|range| evidence(file, range));
            let is_to_begin = !is_data && !reader.has_read() && file.structure.begin_reader(reader);
            advised = expected_of(file, reader);
            if (is_data || is_to_begin) && !self.is_fetching_by_structure.swap(true, Relaxed) {
                tokio::spawn(prefetch_by_structure(Arc::clone(file), Arc::clone(self)));
            }
            if is_data {
                file.read_ahead.note_reading_on(advised);
                self.zones.set(file.structure.zone(reader).into_iter());
                return;
            }
        }
        // Other readers of the file are assumed to have as much left to read.
        let expected = recogniser.expected().saturating_mul(file.users().max(1)).saturating_add(advised);
        file.read_ahead.note_reading_on(expected);
        let Some(bounds) = file.read_ahead.bounds(expected) else {
            file.context.metrics.add_not_read_ahead(NotReadAhead::Wasteful);
            // Without zones hits cost one load until reading ahead is tried again.
            self.zones.set(std::iter::empty());
            return;
        };
        let advice = step(recogniser, bounds);
        for range in &advice {
            if let Some((from, _)) = fetch(file, *range, Purpose::ReadAhead, AheadSource::Runs, usize::MAX).refused {
                let end = advice.last().map_or_else(|| range.end(), |last| last.end());
                recogniser.handle_refusal(ByteRange::between(from, end));
                // The rest of the advice would be refused for the same reason.
                break;
            }
        }
        // First that of the structure: there are not more zones than a handle has room for.
        let zone = reader.as_ref().and_then(|reader| file.structure.zone(reader));
        self.zones.set(zone.into_iter().chain(recogniser.zones()));
        let is_useless = || file.read_ahead.is_completing() || file.is_retired() || file.keeps_nothing();
        if recogniser.has_spare(bounds) && !is_useless() && !self.is_fetching_on.swap(true, Relaxed) {
            tokio::spawn(prefetch_idle(Arc::clone(file), Arc::clone(self)));
        }
    }
}

// In spare time.
impl AccessTracker {
    /// Fetches a little more than the last read has led to. After [`Step::Done`] it is not called again.
    pub(crate) fn fetch_on(&self, file: &Arc<CachedFile>) -> Step {
        let mut pattern = self.pattern.lock();
        let step = match pattern.as_mut() {
            Some(pattern) if !self.closed.is_set() => self.fetch_idle(file, &mut pattern.recogniser),
            _ => Step::Done,
        };
        // Under the lock of the pattern: a read that comes now starts a new prefetcher.
        if matches!(step, Step::Done) {
            self.end_idle_prefetch();
        }
        step
    }

    fn fetch_idle(&self, file: &Arc<CachedFile>, recogniser: &mut Recogniser) -> Step {
        let expected = recogniser.expected().saturating_mul(file.users().max(1));
        let Some(bounds) = file.read_ahead.bounds(expected) else { return Step::Done };
        let Some(range) = recogniser.handle_spare_time(bounds, FILL_LEN) else { return Step::Done };
        let fetched = fetch(file, range, Purpose::Idle, AheadSource::Runs, usize::MAX);
        if let Some((from, _)) = fetched.refused {
            recogniser.handle_spare_refusal(ByteRange::between(from, range.end()));
        }
        self.zones.set(recogniser.zones());
        match fetched.refused {
            Some((_, NotReadAhead::Origin)) if fetched.fills.is_empty() => Step::Full,
            Some(_) if fetched.fills.is_empty() => Step::Done,
            _ => Step::Begun(fetched.fills),
        }
    }

    /// The file is closed, `cached` if it was one: nothing is fetched on for its reader any more.
    pub(crate) fn close(&self, cached: Option<&CachedFile>) {
        // Locked, so that no prefetch is begun after this returns.
        let pattern = self.pattern.lock();
        self.closed.set();
        if let (Some(file), Some(reader)) = (cached, pattern.as_ref().and_then(|pattern| pattern.reader.as_ref())) {
            self.note_columns(file, reader);
        }
    }

    /// Resolves when the file is closed.
    pub(crate) async fn closed(&self) {
        self.closed.wait().await;
    }

    /// Reports what was decided about the structure of the file. Called under the lock of the pattern, so nothing follows the close.
    pub(super) fn report(&self, event: &AdviceEvent<'_>) {
        if let Some(observer) = &self.observer {
            observer.advised(event);
        }
    }

    /// The next read may begin another one.
    pub(crate) fn end_idle_prefetch(&self) {
        self.is_fetching_on.store(false, Relaxed);
    }
}

impl Pattern {
    /// The pattern of a handle whose first read is of these ranges.
    fn new(file: &Arc<CachedFile>, tracker: &Arc<AccessTracker>, ranges: &[ByteRange]) -> Self {
        let is_by_structure = structure_parse::is_of_structure(ranges) && structure_parse::is_candidate(file);
        if is_by_structure {
            if let [head] = ranges
                && head.start() == 0
            {
                file.structure.note_head(head.len());
            }
            structure_parse::start(file, tracker);
        }
        let reader = is_by_structure.then(Reader::default);
        Self { recogniser: Recogniser::new(file.geometry), reader, given_up: None }
    }
}

impl Pattern {
    /// Notes that nothing is fetched by the structure, or that something is; whether that is new.
    pub(super) fn give_up(&mut self, reason: Option<NotReadAhead>) -> bool {
        let is_new = self.given_up != reason;
        self.given_up = reason;
        is_new
    }
}

impl Zones {
    /// Whether a range lies in a zone with any of its bytes.
    fn touch(&self, range: ByteRange) -> bool {
        let count = self.count.load(Relaxed);
        let is_in = |(start, end): &(AtomicU64, AtomicU64)| {
            range.start() < end.load(Relaxed) && start.load(Relaxed) < range.end()
        };
        count > 0 && self.bounds.iter().take(count).any(is_in)
    }

    pub(super) fn set(&self, zones: impl Iterator<Item = ByteRange>) {
        let mut count = 0;
        for ((start, end), zone) in self.bounds.iter().zip(zones) {
            start.store(zone.start(), Relaxed);
            end.store(zone.end(), Relaxed);
            count += 1;
        }
        // Last: a hit in between sees old bounds or a shorter list, and reports a read later.
        self.count.store(count, Relaxed);
    }
}

/// Bytes of one fill in spare time: a read that comes meanwhile finds most of the link free soon.
pub(crate) const FILL_LEN: u64 = 512 << 10;

/// Result of a request to continue fetching.
pub(crate) enum Step {
    /// These were begun; none, when all of it is here.
    Begun(Vec<Arc<Fill>>),
    /// As much is under way over the link as may be.
    Full,
    /// There is nothing to fetch now, or nowhere to put it. The next read may change that.
    Done,
}

/// Fetches on for the reader that `tracker` follows, until there is nothing more, the file is closed, or a fill fails.
async fn prefetch_idle(file: Arc<CachedFile>, tracker: Arc<AccessTracker>) {
    tokio::select! {
        biased;
        // First in the biased order: a closed file ends the prefetch at once.
        () = tracker.closed() => (),
        () = fetch_steps(&file, &tracker) => (),
    }
}

async fn fetch_steps(file: &Arc<CachedFile>, tracker: &AccessTracker) {
    let mut under_way: VecDeque<Arc<Fill>> = VecDeque::new();
    loop {
        let went_well = match step(file, tracker, under_way.is_empty()).await {
            Step::Begun(fills) => {
                under_way.extend(fills);
                take_ended(&mut under_way)
            }
            Step::Full => match under_way.pop_front() {
                Some(oldest) => oldest.result().await.is_ok(),
                // Nothing of its own is under way: the step has waited for room already.
                None => true,
            },
            Step::Done => return,
        };
        // A failed fill may mean a failed origin: the next read decides whether to try again.
        if !went_well {
            return tracker.end_idle_prefetch();
        }
    }
}

/// Fetches the next bytes once no reader waits for any. A prefetcher without a fill under way waits until others make room.
async fn step(file: &Arc<CachedFile>, tracker: &AccessTracker, may_wait: bool) -> Step {
    let link = file.read_ahead.link();
    let _turn = link.turns.idle_turn().await;
    loop {
        link.turns.no_demand().await;
        let step = tracker.fetch_on(file);
        if !may_wait || !matches!(step, Step::Full) {
            return step;
        }
        // With room for one whole piece at least, the link is full of others'.
        link.idle_ended().await;
    }
}

/// Takes out the fills that have ended, of the oldest ones; false when one has failed.
fn take_ended(under_way: &mut VecDeque<Arc<Fill>>) -> bool {
    while let Some(ended) = under_way.front().and_then(|fill| fill.outcome()) {
        under_way.pop_front();
        if ended.is_err() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_touched_by_any_of_their_bytes() {
        let zones = Zones::default();
        assert!(!zones.touch(ByteRange::at(0, u64::MAX)));
        zones.set([ByteRange::between(10, 20), ByteRange::between(50, 60)].into_iter());
        for (start, end, is_touched) in [(0, 10, false), (0, 11, true), (19, 20, true), (20, 50, false), (55, 99, true)]
        {
            assert_eq!(zones.touch(ByteRange::between(start, end)), is_touched, "{start}..{end}");
        }
        zones.set(std::iter::empty());
        assert!(!zones.touch(ByteRange::at(10, 10)));
    }
}
