//! The task that opens the index, reads it, and commits what is noted.

use crate::catalog::{Catalog, commit::broke_off, rebuild::WalkedTo};
use forebay_cache::CacheKey;
use forebay_index::{Found, Index, IndexError};
use forebay_telemetry::IndexPhase;
use std::{sync::Arc, time::Duration};
use tokio::time::MissedTickBehavior;

/// How often notes are committed: a crash costs no more than this of the facts that the disk does not hold.
const TICK: Duration = Duration::from_millis(500);

/// Ticks between looks for disks that have come back and were not walked over yet.
const LOOK_TICKS: u32 = 120;

/// Pause before an index that failed is opened again.
const REOPEN_PAUSE: Duration = Duration::from_secs(10);

/// Entries read in one transaction.
const LOAD_PAGE: usize = 10_000;

/// Keeps the index open and up to date until the task is aborted.
pub(crate) async fn run(catalog: Arc<Catalog>) {
    loop {
        match catalog.open().await {
            Ok(()) => catalog.serve().await,
            Err(error) => {
                catalog.metrics.add_index_error();
                catalog.state.lock().fail(error.is_damage());
                catalog.metrics.set_index_phase(IndexPhase::Off);
                tracing::error!(reason = crate::base::error::with_cause(&error), "the index cannot be opened");
            }
        }
        // Also after an orderly failure: an index on a failing disk is not opened in a loop.
        tokio::time::sleep(REOPEN_PAUSE).await;
    }
}

impl Catalog {
    async fn open(self: &Arc<Self>) -> Result<(), IndexError> {
        self.metrics.set_index_phase(IndexPhase::Loading);
        let is_damaged = self.state.lock().take_is_damaged();
        let place = Arc::clone(&self.place);
        let (index, found) = self
            .on_worker(move || {
                // Discarded only after damage, never because the disk did not answer.
                if is_damaged {
                    place.discard()?;
                }
                let (index, found) = place.open()?;
                // Until `end_use` the index counts as not closed: after a crash the last entries are looked for on disk.
                index.begin_use()?;
                Ok((index, found))
            })
            .await?;
        match found {
            Found::Existing => {}
            Found::Fresh => tracing::info!("creating a new index"),
            Found::Replaced { reason } => tracing::warn!(reason, "the index cannot be used: creating a new one"),
        }
        // No commit may come between a record that is read and its report to the observer.
        let _turn = self.committing.lock().await;
        let index = Arc::new(index);
        self.state.lock().begin(Arc::clone(&index));
        self.load(&index).await?;
        let files = self.state.lock().files();
        self.metrics.set_index_entries(files);
        tracing::info!(files, "the index is open");
        Ok(())
    }

    async fn load(self: &Arc<Self>, index: &Arc<Index>) -> Result<(), IndexError> {
        // The observer starts from nothing: an earlier index may have been reported to it in part.
        self.observer.begin();
        self.known.clear();
        let mut after: Option<CacheKey> = None;
        loop {
            let catalog = Arc::clone(self);
            let index = Arc::clone(index);
            let from = after.take();
            // Page by page on a worker: the whole index would take too much memory and one thread for too long.
            let last = self.on_worker(move || {
                let page = index.page(from.as_ref(), LOAD_PAGE)?;
                for (key, record) in &page {
                    catalog.observer.found(key, record);
                    catalog.known.note(key, true);
                    catalog.state.lock().add(record);
                }
                Ok(page.into_iter().next_back().map(|(key, _)| key))
            });
            after = last.await?;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Commits notes, and walks over disks whose entries are not in the index, until the index fails.
    async fn serve(self: &Arc<Self>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.note_new_volumes().await;
        let mut walk = self.begin_walk(None).await;
        let mut ticks_to_look = LOOK_TICKS;
        while self.index().is_some() {
            // A walk continues without waiting for the tick; each slice commits the notes as well.
            if let Some(walking) = walk.take() {
                walk = match self.walk_on(walking).await {
                    WalkedTo::Slice(walk) => Some(walk),
                    WalkedTo::End(volume) => self.begin_walk(Some(volume)).await,
                    WalkedTo::Failure => None,
                };
                continue;
            }
            ticks.tick().await;
            self.commit().await;
            self.commit_column_sets(false).await;
            ticks_to_look = ticks_to_look.saturating_sub(1);
            // Taken at every tick: it resets the mark, so it is asked even if a look is due anyway.
            let has_lost = self.notes.lock().take_has_lost();
            if has_lost || self.note_new_volumes().await || ticks_to_look == 0 {
                ticks_to_look = LOOK_TICKS;
                walk = if has_lost { self.restart_walks().await } else { self.begin_walk(None).await };
            }
        }
    }

    /// Commits what is noted and closes the index. Called last.
    pub(crate) async fn close(self: &Arc<Self>) {
        self.commit().await;
        self.commit_column_sets(true).await;
        let index = {
            // Taken out under the lock: a late note finds no index and waits in vain, but commits nothing to a closed one.
            let mut state = self.state.lock();
            let index = state.index.take();
            state.fail(false);
            index
        };
        let is_all_committed = self.notes.lock().is_empty();
        // With notes left over the index does not count as closed: the next start looks for what is missing.
        let closed = self.workers.run(move || match index {
            Some(index) if is_all_committed => index.end_use(),
            _ => Ok(()),
        });
        // Else it is found as after a crash.
        if let Ok(Err(error)) = closed.await {
            tracing::warn!(reason = crate::base::error::with_cause(&error), "the index cannot be closed");
        }
    }

    pub(super) async fn on_worker<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, IndexError> + Send + 'static,
    ) -> Result<T, IndexError> {
        self.workers.run(work).await.unwrap_or_else(|_| Err(broke_off()))
    }
}
