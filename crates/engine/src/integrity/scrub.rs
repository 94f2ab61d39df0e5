//! The scrub: everything on disk is read in the background, so that damage is found before somebody needs the bytes.
//!
//! It goes through the entries in the order of the index, at a bounded rate, and leaves the page cache as it found it. How far
//! it has come is kept in the index: after a restart it goes on from there.

use super::{digest::ChecksumAlgorithm, entry::Examined, examination::Behind};
use crate::{Engine, engine::WeakEngine};
use forebay_cache::{CacheKey, Pace};
use forebay_index::{Record, ScrubProgress};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// How a scrub is. Times are in seconds of the Unix epoch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ScrubState {
    /// Whether one is under way.
    pub is_running: bool,
    /// When the last one was begun, or gone on with after a restart.
    pub started: Option<i64>,
    /// When the last one came to its end.
    pub finished: Option<i64>,
    /// Entries it has read since it was begun.
    pub files: u64,
    /// Bytes it has read.
    pub bytes: u64,
    /// Blocks that it found damaged, or that the disk did not give.
    pub bad_blocks: u64,
    /// Blocks without a checksum, which have one now.
    pub learned_blocks: u64,
}

/// What is known of the scrub.
#[derive(Default)]
pub(crate) struct Scrubber {
    state: Mutex<ScrubState>,
    wanted: Notify,
}

/// How often it is looked whether a scrub is due.
const TICK: Duration = Duration::from_secs(60);

/// Entries that are taken from the index at a time; so many are read again after a restart at most.
const PAGE: usize = 64;

impl Scrubber {
    fn state(&self) -> MutexGuard<'_, ScrubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Begins a scrub, unless one is under way.
    pub fn start_scrub(&self) {
        self.shared().scrubber.wanted.notify_one();
    }

    /// How the scrub is.
    #[must_use]
    pub fn scrub_state(&self) -> ScrubState {
        *self.shared().scrubber.state()
    }

    async fn progress(&self) -> Option<ScrubProgress> {
        self.shared().catalog.as_ref()?.ask(forebay_index::Index::scrub_progress).await
    }

    async fn set_progress(&self, progress: ScrubProgress) {
        if let Some(catalog) = &self.shared().catalog {
            // Not kept is not known: then a scrub begins anew.
            let _ = catalog.ask(move |index| index.set_scrub_progress(progress)).await;
        }
    }

    /// Reads everything behind `after`. False when the index went away on the way.
    async fn scrub(&self, mut after: Option<CacheKey>) -> bool {
        let shared = self.shared();
        let finished = self.scrub_state().finished;
        let mut pace = Pace::new(shared.options.integrity.scrub_rate);
        loop {
            let Some(catalog) = &shared.catalog else { return false };
            let Some(page) = catalog.page(after.take(), PAGE).await else { return false };
            let Some((last_key, last_record)) = page.last().cloned() else { return true };
            for (key, record) in page {
                let algorithms = missing_checksums(&shared.options.integrity.checksums, &record);
                let examined = self.examine(&key, &algorithms, Behind::Dropped, Some(&mut pace)).await;
                if let Some(examined) = examined {
                    self.count(&examined);
                    self.settle(&examined).await;
                }
            }
            self.set_progress(ScrubProgress { last: Some(last_record.id), finished }).await;
            after = Some(last_key);
        }
    }

    fn count(&self, Examined { findings, .. }: &Examined) {
        let mut state = self.shared().scrubber.state();
        state.files += 1;
        state.bytes += findings.bytes;
        state.bad_blocks += findings.bad().len() as u64;
        state.learned_blocks += findings.learned.len() as u64;
        self.metrics().add_scrubbed(findings.bytes);
    }
}

/// Scrubs when it is due or asked for, for ever.
pub(crate) async fn run(engine: WeakEngine) {
    if let Some(resumed) = resume(&engine).await {
        scrub_once(&engine, resumed).await;
    }
    loop {
        let Some(strong) = engine.upgrade() else { return };
        let shared = std::sync::Arc::clone(strong.shared());
        drop(strong);
        let is_asked = tokio::select! {
            biased;
            () = shared.scrubber.wanted.notified() => true,
            () = tokio::time::sleep(TICK) => false,
        };
        drop(shared);
        let Some(strong) = engine.upgrade() else { return };
        let is_due = is_asked || strong.is_scrub_due();
        drop(strong);
        if is_due {
            scrub_once(&engine, None).await;
        }
    }
}

impl Engine {
    fn is_scrub_due(&self) -> bool {
        let Some(interval) = self.shared().options.integrity.scrub_interval else { return false };
        let now = forebay_net::clock::now_unix();
        let interval_seconds = i64::try_from(interval.as_secs()).unwrap_or(i64::MAX);
        self.scrub_state().finished.is_some_and(|finished| finished.saturating_add(interval_seconds) <= now)
    }
}

/// Finds out when the last scrub ended and where one was broken off; `Some` with its last entry if there was one.
async fn resume(engine: &WeakEngine) -> Option<Option<CacheKey>> {
    let catalog = engine.upgrade()?.shared().catalog.clone()?;
    while catalog.index().is_none() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let engine = engine.upgrade()?;
    let progress = engine.progress().await.unwrap_or_default();
    // The first one is due when the cache has been in use for as long as later ones wait.
    let finished = progress.finished.unwrap_or_else(forebay_net::clock::now_unix);
    engine.shared().scrubber.state().finished = Some(finished);
    if progress.finished.is_none() {
        engine.set_progress(ScrubProgress { finished: Some(finished), ..progress }).await;
    }
    let last = progress.last?;
    let found = catalog.ask(move |index| index.get_id(last)).await.flatten();
    Some(found.map(|(key, _)| key))
}

async fn scrub_once(engine: &WeakEngine, after: Option<CacheKey>) {
    let Some(engine) = engine.upgrade() else { return };
    {
        let mut state = engine.shared().scrubber.state();
        let finished = state.finished;
        let started = Some(forebay_net::clock::now_unix());
        *state = ScrubState { is_running: true, started, finished, ..ScrubState::default() };
    }
    tracing::info!("a scrub has begun");
    let is_whole = engine.scrub(after).await;
    let state = {
        let mut state = engine.shared().scrubber.state();
        state.is_running = false;
        if is_whole {
            state.finished = Some(forebay_net::clock::now_unix());
        }
        *state
    };
    if is_whole {
        engine.set_progress(ScrubProgress { last: None, finished: state.finished }).await;
        let ScrubState { files, bytes, bad_blocks, learned_blocks, .. } = state;
        tracing::info!(files, bytes, bad_blocks, learned_blocks, "a scrub has come to its end");
    } else {
        tracing::warn!("a scrub was broken off: there is no index to go by");
    }
}

/// Those of `wanted` that the index does not have of an entry.
fn missing_checksums(wanted: &[ChecksumAlgorithm], record: &Record) -> Vec<ChecksumAlgorithm> {
    wanted.iter().copied().filter(|algorithm| record.checksum(algorithm.as_str()).is_none()).collect()
}
