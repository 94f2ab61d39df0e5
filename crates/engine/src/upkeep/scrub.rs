//! The scrub: everything on disk is read in the background, so that damage is found before somebody needs the bytes.
//!
//! It goes through the entries in the order of the index, at a bounded rate, and leaves the page cache as it found it. How far
//! it has come is kept in the index: after a restart it goes on from there.

use crate::{
    Engine, Error,
    api::engine::WeakEngine,
    base::digest::ChecksumAlgorithm,
    upkeep::{entry_check::Examined, examination::Behind},
};
use forebay_cache::{CacheKey, EntryId, RateLimiter};
use forebay_index::{Record, ScrubProgress};
use parking_lot::{Mutex, MutexGuard};
use std::{sync::OnceLock, time::Duration};
use tokio::sync::Notify;

/// How a scrub is. Times are in seconds of the Unix epoch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ScrubState {
    /// Whether one is under way, or about to begin because it was asked for.
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
    /// What the index knows of the times: see [`ScrubProgress`].
    ready_since: OnceLock<i64>,
    wanted: Notify,
}

/// How often it is looked whether a scrub is due.
const TICK: Duration = Duration::from_secs(60);

/// Entries that are taken from the index at a time; so many are read again after a restart at most.
const PAGE: usize = 64;

impl Scrubber {
    fn state(&self) -> MutexGuard<'_, ScrubState> {
        self.state.lock()
    }

    /// One is under way from now on; false when one was already.
    fn begin(&self) -> bool {
        let mut state = self.state();
        if state.is_running {
            return false;
        }
        let (started, finished) = (Some(forebay_net::clock::now_unix()), state.finished);
        *state = ScrubState { is_running: true, started, finished, ..ScrubState::default() };
        true
    }

    /// It has ended; `is_whole` when it has read everything.
    fn end(&self, is_whole: bool) -> ScrubState {
        let mut state = self.state();
        state.is_running = false;
        if is_whole {
            state.finished = Some(forebay_net::clock::now_unix());
        }
        *state
    }
}

impl Engine {
    /// Begins a scrub, unless one is under way.
    ///
    /// # Errors
    /// When the index is not in use: it names what is to be read.
    pub fn start_scrub(&self) -> Result<(), Error> {
        self.shared().catalog.as_ref().and_then(|catalog| catalog.index()).ok_or(Error::NoIndex)?;
        let scrubber = &self.shared().scrubber;
        if scrubber.begin() {
            scrubber.wanted.notify_one();
        }
        Ok(())
    }

    /// How the scrub is.
    #[must_use]
    pub fn scrub_state(&self) -> ScrubState {
        *self.shared().scrubber.state()
    }

    async fn progress(&self) -> Option<ScrubProgress> {
        self.shared().catalog.as_ref()?.ask(forebay_index::Index::scrub_progress).await
    }

    async fn set_progress(&self, last: Option<EntryId>) {
        let (finished, ready_since) = (self.scrub_state().finished, self.shared().scrubber.ready_since.get().copied());
        let progress = ScrubProgress { last, finished, ready_since };
        if let Some(catalog) = &self.shared().catalog {
            // Not kept is not known: then a scrub begins anew.
            let _ = catalog.ask(move |index| index.set_scrub_progress(progress)).await;
        }
    }

    /// Reads everything behind `after`. False when the index went away on the way.
    async fn scrub(&self, mut after: Option<CacheKey>) -> bool {
        let shared = self.shared();
        let mut pace = RateLimiter::new(shared.options.integrity.scrub_rate);
        loop {
            let Some(catalog) = &shared.catalog else { return false };
            let Some(page) = catalog.page(after.take(), PAGE).await else { return false };
            let Some((last_key, last_record)) = page.last().cloned() else { return true };
            for (key, record) in page {
                let algorithms = missing_checksums(&shared.options.integrity.checksums, &record);
                let examined = self.examine(&key, &algorithms, Behind::Dropped, Some(&mut pace)).await;
                if let Some(examined) = examined {
                    self.count(&examined);
                    self.settle(&examined.key, examined.generation, &examined.findings.checksums).await;
                }
            }
            self.set_progress(Some(last_record.id)).await;
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
        // One that was asked for meanwhile reads everything.
        let is_asked_for = engine.upgrade().is_some_and(|engine| engine.scrub_state().is_running);
        scrub_once(&engine, resumed.filter(|_| !is_asked_for)).await;
    }
    loop {
        let Some(strong) = engine.upgrade() else { return };
        let shared = std::sync::Arc::clone(strong.shared());
        drop(strong);
        tokio::select! {
            biased;
            () = shared.scrubber.wanted.notified() => {}
            () = tokio::time::sleep(TICK) => {}
        }
        drop(shared);
        let Some(strong) = engine.upgrade() else { return };
        let is_due = strong.scrub_state().is_running || strong.is_scrub_due();
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
        let counted_from = self.scrub_state().finished.or_else(|| self.shared().scrubber.ready_since.get().copied());
        counted_from.is_some_and(|from| from.saturating_add(interval_seconds) <= now)
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
    engine.shared().scrubber.state().finished = progress.finished;
    let ready_since = *engine
        .shared()
        .scrubber
        .ready_since
        .get_or_init(|| progress.ready_since.unwrap_or_else(forebay_net::clock::now_unix));
    if progress.ready_since != Some(ready_since) {
        engine.set_progress(progress.last).await;
    }
    let last = progress.last?;
    let found = catalog.ask(move |index| index.get_id(last)).await.flatten();
    Some(found.map(|(key, _)| key))
}

async fn scrub_once(engine: &WeakEngine, after: Option<CacheKey>) {
    let Some(engine) = engine.upgrade() else { return };
    engine.shared().scrubber.begin();
    tracing::info!("a scrub has begun");
    let is_whole = engine.scrub(after).await;
    let ScrubState { files, bytes, bad_blocks, learned_blocks, .. } = engine.shared().scrubber.end(is_whole);
    if is_whole {
        engine.set_progress(None).await;
        tracing::info!(files, bytes, bad_blocks, learned_blocks, "a scrub has come to its end");
    } else {
        tracing::warn!("a scrub was broken off: there is no index to go by");
    }
}

/// Those of `wanted` that the index does not have of an entry.
fn missing_checksums(wanted: &[ChecksumAlgorithm], record: &Record) -> Vec<ChecksumAlgorithm> {
    wanted.iter().copied().filter(|algorithm| record.checksum(algorithm.as_str()).is_none()).collect()
}
