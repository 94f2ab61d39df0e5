//! The scrub: everything on disk is read in the background, so that damage is found before a client reads the bytes.
//!
//! It goes through the entries in the order of the index, at a bounded rate, and leaves the page cache as it found it. How far
//! it has come is kept in the index: after a restart it continues from there.

use crate::{
    base::digest::ChecksumAlgorithm,
    entries::file_context::FileContext,
    upkeep::{entry_check::Examined, examination::Behind, file_checksums::FileChecksums},
};
use forebay_cache::{CacheKey, EntryId, RateLimiter};
use forebay_index::{Record, ScrubProgress};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::sync::Notify;

/// State of the scrub, which reads and verifies all cached data on disk.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "Scrub")]
pub struct ScrubState {
    /// Whether a scrub is running or about to start on request.
    pub is_running: bool,
    /// When the last one was started, or resumed after a restart.
    pub started: Option<i64>,
    /// When the last one ended.
    pub finished: Option<i64>,
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Damaged blocks found; they are fetched again when requested.
    pub bad_blocks: u64,
    /// Blocks that had no checksum and have one now.
    pub learned_blocks: u64,
}

pub(crate) struct Scrubber {
    checksums: Arc<FileChecksums>,
    pub(crate) state: Mutex<ScrubState>,
    /// Copy of the index's value: see [`ScrubProgress`].
    ready_since: OnceLock<i64>,
    wanted: Notify,
}

/// How often it is looked whether a scrub is due.
const TICK: Duration = Duration::from_secs(60);

/// How often it is checked whether the index is open.
const INDEX_POLL: Duration = Duration::from_secs(1);

/// Entries that are taken from the index at a time; so many are read again after a restart at most.
const PAGE: usize = 64;

impl Scrubber {
    pub(crate) fn new(checksums: Arc<FileChecksums>) -> Self {
        Self { checksums, state: Mutex::default(), ready_since: OnceLock::new(), wanted: Notify::new() }
    }

    /// Requests a scrub, unless one is under way.
    pub(crate) fn request(&self) {
        if self.begin() {
            self.wanted.notify_one();
        }
    }

    fn context(&self) -> &FileContext {
        &self.checksums.check.context
    }

    /// One is under way from now on; false when one was already.
    fn begin(&self) -> bool {
        let mut state = self.state.lock();
        // A request during a scrub is met by the scrub under way.
        if state.is_running {
            return false;
        }
        let started = Some(forebay_net::clock::now_unix());
        let finished = state.finished;
        *state = ScrubState { is_running: true, started, finished, ..ScrubState::default() };
        true
    }

    /// It has ended; `is_whole` when it has read everything.
    fn end(&self, is_whole: bool) -> ScrubState {
        let mut state = self.state.lock();
        state.is_running = false;
        // A scrub that broke off is not the last one: the next is due at the same time as before.
        if is_whole {
            state.finished = Some(forebay_net::clock::now_unix());
        }
        *state
    }

    /// Scrubs when it is due or requested, until the engine stops.
    pub(crate) async fn run(self: Arc<Self>) {
        if let Some(resumed) = self.resume().await {
            // One that was requested in the meantime reads everything.
            let after = if self.state.lock().is_running { None } else { resumed };
            self.scrub_once(after).await;
        }
        loop {
            tokio::select! {
                biased;
                () = self.wanted.notified() => {}
                () = tokio::time::sleep(TICK) => {}
            }
            let is_running = self.state.lock().is_running;
            if is_running || self.is_due() {
                self.scrub_once(None).await;
            }
        }
    }

    fn is_due(&self) -> bool {
        let Some(interval) = self.context().options.integrity.scrub_interval else { return false };
        let now = forebay_net::clock::now_unix();
        let interval_seconds = i64::try_from(interval.as_secs()).unwrap_or(i64::MAX);
        // Before the first scrub the time counts from the first start of the index.
        let counted_from = self.state.lock().finished.or_else(|| self.ready_since.get().copied());
        counted_from.is_some_and(|from| from.saturating_add(interval_seconds) <= now)
    }

    /// Finds out when the last scrub ended and where one was interrupted; `Some` with its last entry if there was one.
    async fn resume(&self) -> Option<Option<CacheKey>> {
        let catalog = self.context().catalog.as_ref()?;
        while catalog.index().is_none() {
            tokio::time::sleep(INDEX_POLL).await;
        }
        let progress = self.progress().await.unwrap_or_default();
        self.state.lock().finished = progress.finished;
        let ready_since =
            *self.ready_since.get_or_init(|| progress.ready_since.unwrap_or_else(forebay_net::clock::now_unix));
        // Stored at the first start only.
        if progress.ready_since != Some(ready_since) {
            self.set_progress(progress.last).await;
        }
        let last = progress.last?;
        let found = catalog.ask(move |index| index.get_id(last)).await.flatten();
        Some(found.map(|(key, _)| key))
    }

    async fn scrub_once(&self, after: Option<CacheKey>) {
        self.begin();
        tracing::info!("scrub started");
        let is_whole = self.scrub(after).await;
        let ScrubState { files, bytes, bad_blocks, learned_blocks, .. } = self.end(is_whole);
        if is_whole {
            self.set_progress(None).await;
            tracing::info!(files, bytes, bad_blocks, learned_blocks, "scrub finished");
        } else {
            tracing::warn!("scrub aborted: the index is not available");
        }
    }

    async fn progress(&self) -> Option<ScrubProgress> {
        self.context().catalog.as_ref()?.ask(forebay_index::Index::scrub_progress).await
    }

    async fn set_progress(&self, last: Option<EntryId>) {
        let finished = self.state.lock().finished;
        let ready_since = self.ready_since.get().copied();
        let progress = ScrubProgress { last, finished, ready_since };
        if let Some(catalog) = &self.context().catalog {
            // If it is not stored, the next scrub begins at the first entry.
            let _ = catalog.ask(move |index| index.set_scrub_progress(progress)).await;
        }
    }

    /// Reads all entries after `after`; false if the index failed in the meantime.
    async fn scrub(&self, mut after: Option<CacheKey>) -> bool {
        let context = self.context();
        let mut pace = RateLimiter::new(context.options.integrity.scrub_rate);
        loop {
            let Some(catalog) = &context.catalog else { return false };
            let Some(page) = catalog.page(after.take(), PAGE).await else { return false };
            let Some((last_key, last_record)) = page.last().cloned() else { return true };
            for (key, record) in page {
                let algorithms = missing_checksums(&context.options.integrity.checksums, &record);
                let examined = self.checksums.check.examine(&key, &algorithms, Behind::Dropped, Some(&mut pace)).await;
                if let Some(examined) = examined {
                    self.count(&examined);
                    self.checksums.settle(&examined.key, examined.generation, &examined.findings.checksums).await;
                }
            }
            self.set_progress(Some(last_record.id)).await;
            after = Some(last_key);
        }
    }

    fn count(&self, Examined { findings, .. }: &Examined) {
        let mut state = self.state.lock();
        state.files += 1;
        state.bytes += findings.bytes;
        state.bad_blocks += findings.bad().len() as u64;
        state.learned_blocks += findings.learned.len() as u64;
        self.context().metrics.add_scrubbed(findings.bytes);
    }
}

/// Those of `wanted` that the index does not have of an entry.
fn missing_checksums(wanted: &[ChecksumAlgorithm], record: &Record) -> Vec<ChecksumAlgorithm> {
    wanted.iter().copied().filter(|algorithm| record.checksum(algorithm.as_str()).is_none()).collect()
}
