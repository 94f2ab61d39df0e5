//! Prefetches by the structure of a ROOT file: the columns that its reader is known, or expected, to read.

use crate::{
    catalog::{Catalog, column_sets::Job},
    entries::{cached_file::CachedFile, file_read_ahead::label_of, fill::Fill},
    link::admission::Purpose,
    transfer::{
        access_tracker::{AccessTracker, Pattern},
        planner::fetch_expected,
        structure_parse::{self, HEAD},
    },
};
use forebay_cache::AheadSource;
use forebay_structure::{AdviceSource, Evidence, Reader};
use forebay_telemetry::{AdviceEvent, Client, NotReadAhead};
use forebay_types::ByteRange;
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// Bytes of one advice by the structure: a few dozen baskets.
const ADVICE_LEN_MAX: u64 = 512 << 10;

/// Result of a request to fetch what a reader comes to next.
enum Advised {
    /// One advice as a whole, by these fills.
    All(Vec<Arc<Fill>>),
    /// A part of one; the link is full, or memory is short.
    Part(Vec<Arc<Fill>>),
    /// Nothing: as much is under way over the link as may be.
    Full,
    /// Nothing: no memory is free.
    Short,
    /// There is nothing to fetch now, or nowhere to put it. The next read may change that.
    Done,
}

impl AccessTracker {
    /// The file was opened by `client` just now. If it is a ROOT file, its head and tail are fetched, and the first read begins to
    /// parse it.
    pub(crate) fn begin(self: &Arc<Self>, file: &Arc<CachedFile>, client: &Client) {
        if !structure_parse::is_candidate(file) {
            return;
        }
        // Also a first read that the cache answers is reported.
        self.zones.set(std::iter::once(HEAD));
        let remembers = file.read_ahead.settings().remembers_columns();
        let catalog = if remembers { file.context.catalog.clone() } else { None };
        let Some(catalog) = catalog else { return structure_parse::fetch_ends(file, None) };
        let job = self.job.get_or_init(|| Job::new(file.lfn(), client)).clone();
        let file = Arc::clone(file);
        tokio::spawn(async move {
            let known = catalog.known_ends(&job).await;
            // Closed in the meantime: what is fetched would be fetched in vain.
            if file.is_open() {
                structure_parse::fetch_ends(&file, known);
            }
        });
    }

    /// The place and the name under which the columns of the reader are remembered; `None` if they are not.
    pub(super) fn memory_of<'a>(&'a self, file: &'a CachedFile) -> Option<(&'a Arc<Catalog>, &'a Job)> {
        Some((file.context.catalog.as_ref()?, self.job.get()?))
    }

    /// The file has been parsed: what its reader is expected to read is fetched.
    pub(super) fn begin_by_history(self: &Arc<Self>, file: &Arc<CachedFile>) {
        let mut pattern = self.pattern.lock();
        let Some(reader) = pattern.as_mut().and_then(|pattern| pattern.reader.as_mut()) else { return };
        if reader.has_read() || self.closed.is_set() || !file.structure.begin_reader(reader) {
            return;
        }
        self.zones.set(file.structure.zone(reader).into_iter());
        if !self.is_fetching_by_structure.swap(true, Relaxed) {
            tokio::spawn(prefetch_by_structure(Arc::clone(file), Arc::clone(self)));
        }
    }

    /// Notes what the reader has shown of the columns of the file.
    pub(super) fn note_columns(&self, file: &CachedFile, reader: &Reader) {
        let Some((catalog, job)) = self.memory_of(file) else { return };
        let observed = file.structure.observed(reader, &|range| evidence(file, range));
        if !observed.is_empty() {
            let (head_len, tail_len) = file.structure.ends();
            catalog.note_columns(job, observed, head_len, tail_len);
        }
    }

    /// Fetches what its reader comes to next. After [`Advised::Done`] it is not called again.
    fn fetch_by_structure(&self, file: &Arc<CachedFile>) -> Advised {
        let mut locked = self.pattern.lock();
        let step = match locked.as_deref_mut() {
            Some(pattern) if !self.closed.is_set() => self.fetch_and_report(file, pattern),
            _ => Advised::Done,
        };
        // Under the lock of the pattern: a read that comes now starts a new prefetcher.
        if matches!(step, Advised::Done) {
            self.is_fetching_by_structure.store(false, Relaxed);
        }
        step
    }

    fn fetch_and_report(&self, file: &Arc<CachedFile>, pattern: &mut Pattern) -> Advised {
        let Some(reader) = pattern.reader.as_mut() else { return Advised::Done };
        let (step, given_up) = match self.fetch_advice(file, reader) {
            Ok(step) => (step, None),
            Err(reason) => (Advised::Done, Some(reason)),
        };
        if pattern.give_up(given_up)
            && let Some(reason) = given_up
        {
            self.report(&AdviceEvent::GivenUp { at: forebay_net::clock::monotonic(), reason });
        }
        step
    }

    fn fetch_advice(&self, file: &Arc<CachedFile>, reader: &mut Reader) -> Result<Advised, NotReadAhead> {
        let Some(bounds) = file.read_ahead.bounds(expected_of(file, reader)) else {
            file.context.metrics.add_not_read_ahead(NotReadAhead::Wasteful);
            return Err(NotReadAhead::Wasteful);
        };
        let advice = file.structure.wanted(reader, bounds.max(), ADVICE_LEN_MAX, file.geometry.block_size());
        if advice.ranges.is_empty() {
            return Ok(Advised::Done);
        }
        let source = match advice.source {
            AdviceSource::Reads => AheadSource::Structure,
            AdviceSource::History => AheadSource::History,
        };
        let fetched = fetch_expected(file, &advice.ranges, source);
        match fetched.refused {
            None => {}
            // All is wanted again then, and what is under way is passed over.
            Some((_, NotReadAhead::Origin | NotReadAhead::Memory)) if !fetched.fills.is_empty() => {
                return Ok(Advised::Part(fetched.fills));
            }
            Some((_, NotReadAhead::Origin)) => return Ok(Advised::Full),
            Some((_, NotReadAhead::Memory)) => return Ok(Advised::Short),
            Some((_, reason)) => return Err(reason),
        }
        reader.accept(&advice);
        self.zones.set(file.structure.zone(reader).into_iter());
        let (at, source) = (forebay_net::clock::monotonic(), label_of(source));
        self.report(&AdviceEvent::Given { at, source, ranges: &advice.ranges });
        Ok(Advised::All(fetched.fills))
    }
}

/// Bytes that are likely to be read still: other readers of the file are assumed to have as much left to read.
pub(super) fn expected_of(file: &CachedFile, reader: &Reader) -> u64 {
    file.structure.expected(reader, file.geometry.block_size()).saturating_mul(file.users().max(1))
}

/// Knowledge of the reads of `range`.
pub(super) fn evidence(file: &CachedFile, range: ByteRange) -> Evidence {
    if file.read_ahead.is_unread(range) {
        Evidence::Unread
    } else if file.read_ahead.was_advised(range) {
        Evidence::Read
    } else if file.stored.as_ref().is_some_and(|stored| stored.map.holds(range)) {
        Evidence::Unknown
    } else {
        Evidence::Missing
    }
}

/// Fetches by the structure of the file, until there is nothing more, the file is closed, or a fill fails.
pub(super) async fn prefetch_by_structure(file: Arc<CachedFile>, tracker: Arc<AccessTracker>) {
    tokio::select! {
        biased;
        () = tracker.closed() => (),
        () = fetch_advised(&file, &tracker) => (),
    }
}

async fn fetch_advised(file: &Arc<CachedFile>, tracker: &AccessTracker) {
    let mut under_way: Vec<Arc<Fill>> = Vec::new();
    loop {
        match one_advice(file, tracker, &mut under_way).await {
            Advised::Done => return,
            // The oldest one frees memory when it ends. Without any the next read begins again.
            Advised::Short if !under_way.is_empty() => under_way.remove(0).ended().await,
            Advised::Short => break,
            Advised::All(_) | Advised::Part(_) | Advised::Full => {}
        }
        // A failed fill may mean a failed origin: the next read decides whether to try again.
        if !take_ended(&mut under_way) {
            break;
        }
    }
    tracker.is_fetching_by_structure.store(false, Relaxed);
}

/// Has one advice fetched as a whole, by turns with other handles: each waits for room on the link at most as long as that takes.
async fn one_advice(file: &Arc<CachedFile>, tracker: &AccessTracker, under_way: &mut Vec<Arc<Fill>>) -> Advised {
    let link = file.read_ahead.link();
    let _turn = link.turns.ahead_turn().await;
    let mut is_again = false;
    loop {
        match tracker.fetch_by_structure(file) {
            Advised::All(fills) => {
                under_way.extend(fills);
                return Advised::All(Vec::new());
            }
            Advised::Part(fills) => under_way.extend(fills),
            // Others make room as well.
            Advised::Full if link.bytes_under_way(Purpose::ReadAhead).load(Relaxed) > 0 => link.room().await,
            // Others have made room just now, or else it never has room for so much.
            Advised::Full if !is_again => is_again = true,
            Advised::Full => return Advised::Short,
            other => return other,
        }
        if under_way.iter().any(|fill| matches!(fill.outcome(), Some(Err(_)))) {
            return Advised::Full;
        }
    }
}

/// Takes out the fills that have ended; false when one has failed.
fn take_ended(under_way: &mut Vec<Arc<Fill>>) -> bool {
    let mut went_well = true;
    under_way.retain(|fill| {
        let outcome = fill.outcome();
        went_well &= !matches!(outcome, Some(Err(_)));
        outcome.is_none()
    });
    went_well
}
