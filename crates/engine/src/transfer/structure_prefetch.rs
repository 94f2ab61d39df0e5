//! Prefetches by the structure of a ROOT file: the columns that its reader is known, or expected, to read.

use crate::{
    catalog::{Catalog, column_sets::Job},
    entries::{cached_file::CachedFile, fill::Fill},
    link::admission::Purpose,
    transfer::{
        access_tracker::{AccessTracker, Step, take_ended},
        planner::fetch,
        structure_parse::{self, HEAD},
    },
};
use forebay_cache::AheadSource;
use forebay_structure::{AdviceSource, Evidence, Reader};
use forebay_telemetry::{Client, NotReadAhead};
use forebay_types::ByteRange;
use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// Bytes of one advice by the structure: a few dozen baskets.
const ADVICE_LEN_MAX: u64 = 512 << 10;

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

    /// Fetches what its reader comes to next. After [`Step::Done`] it is not called again.
    fn fetch_by_structure(&self, file: &Arc<CachedFile>) -> Step {
        let mut pattern = self.pattern.lock();
        let step = match pattern.as_mut().and_then(|pattern| pattern.reader.as_mut()) {
            Some(reader) if !self.closed.is_set() => self.fetch_advice(file, reader),
            _ => Step::Done,
        };
        // Under the lock of the pattern: a read that comes now starts a new prefetcher.
        if matches!(step, Step::Done) {
            self.is_fetching_by_structure.store(false, Relaxed);
        }
        step
    }

    fn fetch_advice(&self, file: &Arc<CachedFile>, reader: &mut Reader) -> Step {
        let Some(bounds) = file.read_ahead.bounds(expected_of(file, reader)) else {
            file.context.metrics.add_not_read_ahead(NotReadAhead::Wasteful);
            return Step::Done;
        };
        let advice = file.structure.wanted(reader, bounds.max(), ADVICE_LEN_MAX);
        if advice.ranges.is_empty() {
            return Step::Done;
        }
        let source = match advice.source {
            AdviceSource::Reads => AheadSource::Structure,
            AdviceSource::History => AheadSource::History,
        };
        let mut fills = Vec::new();
        for range in &advice.ranges {
            let fetched = fetch(file, *range, Purpose::ReadAhead, source, usize::MAX);
            fills.extend(fetched.fills);
            match fetched.refused {
                // The rest would be refused for the same reason. All is wanted again then, and what is under way is passed over.
                Some((_, NotReadAhead::Origin | NotReadAhead::Memory)) if fills.is_empty() => return Step::Full,
                Some((_, NotReadAhead::Origin | NotReadAhead::Memory)) => return Step::Begun(fills),
                Some(_) => return Step::Done,
                None => {}
            }
        }
        reader.accept(&advice);
        self.zones.set(file.structure.zone(reader).into_iter());
        Step::Begun(fills)
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
    let mut under_way: VecDeque<Arc<Fill>> = VecDeque::new();
    loop {
        let went_well = match tracker.fetch_by_structure(file) {
            Step::Begun(fills) => {
                under_way.extend(fills);
                take_ended(&mut under_way)
            }
            Step::Full => match under_way.pop_front() {
                Some(oldest) => oldest.result().await.is_ok(),
                // The link is full of others' bytes: the next read begins again.
                None => false,
            },
            Step::Done => return,
        };
        if !went_well {
            return tracker.is_fetching_by_structure.store(false, Relaxed);
        }
    }
}
