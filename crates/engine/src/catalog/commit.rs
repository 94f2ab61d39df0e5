//! Getting notes into the index.

use crate::catalog::Catalog;
use forebay_cache::CacheKey;
use forebay_index::{Change, IndexError};
use forebay_origin::DetachOnDrop;
use std::{collections::BTreeMap, sync::Arc};

/// Entries whose notes are committed together at most, so that a commit takes well below a second.
const COMMIT_ENTRIES_MAX: usize = 10_000;

impl Catalog {
    /// Commits everything that is noted, when the index is open. Continues when its caller leaves.
    pub(crate) async fn commit(self: &Arc<Self>) {
        let catalog = Arc::clone(self);
        self.in_turn(async move { catalog.commit_noted().await }).await;
    }

    /// Commits the notes of one entry, together with everything else if there is any. Continues as [`Self::commit`].
    pub(crate) async fn commit_of(self: &Arc<Self>, key: &CacheKey) {
        let (catalog, key) = (Arc::clone(self), key.clone());
        self.in_turn(async move {
            while catalog.notes.lock().concern(&key) && catalog.commit_some(BTreeMap::new()).await {}
        })
        .await;
    }

    /// Commits the results of a walk over the disk since its slice was begun, and the notes. Continues as [`Self::commit`].
    pub(super) async fn commit_slice(self: &Arc<Self>, mut walked: BTreeMap<CacheKey, Change>) {
        let catalog = Arc::clone(self);
        self.in_turn(async move {
            // Before the results of the walk: they were read from the disk before these notes were made.
            catalog.commit_noted().await;
            // Later notes are committed later, and win.
            for noted in catalog.notes.lock().end_slice() {
                walked.remove(&noted);
            }
            if !walked.is_empty() {
                catalog.commit_some(walked).await;
            }
        })
        .await;
    }

    /// Runs `work` after commits under way: two of them could commit changes of one entry in the wrong order.
    async fn in_turn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let catalog = Arc::clone(self);
        let committed = DetachOnDrop::new(async move {
            let _turn = catalog.committing.lock().await;
            work.await;
        });
        committed.await;
    }

    async fn commit_noted(self: &Arc<Self>) {
        while !self.notes.lock().is_empty() && self.commit_some(BTreeMap::new()).await {}
    }

    /// Commits `changes`, or a part of the notes when there are none; false when there is no index that does.
    async fn commit_some(self: &Arc<Self>, changes: BTreeMap<CacheKey, Change>) -> bool {
        let Some(index) = self.index() else { return false };
        // An empty map stands for the notes: a walk without results is never committed.
        let changes = if changes.is_empty() { self.notes.lock().take(COMMIT_ENTRIES_MAX) } else { Arc::new(changes) };
        let now = forebay_net::clock::now_unix();
        let catalog = Arc::clone(self);
        let open = Arc::clone(&index);
        let applied = self.workers.run(move || {
            let applied = open.apply(now, changes.iter())?;
            for change in &applied {
                // In this order: an observer that looks a key up afterwards finds its account.
                catalog.observer.changed(change);
                catalog.known.note(&change.key, change.after.is_some());
            }
            Ok::<_, IndexError>(applied)
        });
        match applied.await {
            Ok(Ok(applied)) => {
                // Only now do the notes let go of the keys: they are known to the index by then.
                self.notes.lock().note_committed();
                let files = {
                    let mut state = self.state.lock();
                    applied.iter().for_each(|change| state.note(change));
                    state.files()
                };
                self.metrics.add_index_commit();
                self.metrics.set_index_entries(files);
                return true;
            }
            // The index failed: it is taken out of use before the notes come back, so that the next tick does not try
            // it again.
            Ok(Err(error)) => self.give_up(&index, &error),
            Err(_) => self.give_up(&index, &broke_off()),
        }
        // Put back, not dropped: they are committed when the index is open again.
        self.notes.lock().put_back();
        false
    }
}

/// That work on the index panicked, or was cut off at the end of the process.
pub(super) fn broke_off() -> IndexError {
    IndexError::Store { reason: "the work broke off".to_owned() }
}
