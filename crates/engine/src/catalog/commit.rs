//! Getting notes into the index.

use super::Catalog;
use forebay_cache::CacheKey;
use forebay_index::{Change, IndexError};
use std::{collections::BTreeMap, sync::Arc};

/// Entries whose notes are committed together at most, so that a commit takes well below a second.
const COMMIT_ENTRIES_MAX: usize = 10_000;

impl Catalog {
    /// Commits everything that is noted, when the index is open.
    pub(crate) async fn commit(self: &Arc<Self>) {
        let _turn = self.committing.lock().await;
        while !self.notes().is_empty() && self.commit_some(BTreeMap::new()).await {}
    }

    /// Commits what is noted of one entry, together with everything else when there is anything.
    pub(crate) async fn commit_of(self: &Arc<Self>, key: &CacheKey) {
        // A commit under way may be about it.
        let _turn = self.committing.lock().await;
        while self.notes().concern(key) && self.commit_some(BTreeMap::new()).await {}
    }

    /// Commits what a walk over the disk has found since a slice of it was begun, and what is noted.
    pub(super) async fn commit_slice(self: &Arc<Self>, mut walked: BTreeMap<CacheKey, Change>) {
        let _turn = self.committing.lock().await;
        while !self.notes().is_empty() && self.commit_some(BTreeMap::new()).await {}
        // What is noted from now on is committed later, and wins.
        for noted in self.notes().end_slice() {
            walked.remove(&noted);
        }
        if !walked.is_empty() {
            self.commit_some(walked).await;
        }
    }

    /// Commits `changes`, or a part of the notes when there are none; false when there is no index that does.
    async fn commit_some(self: &Arc<Self>, changes: BTreeMap<CacheKey, Change>) -> bool {
        let Some(index) = self.index() else { return false };
        let is_of_notes = changes.is_empty();
        let changes = Arc::new(if is_of_notes { self.notes().take(COMMIT_ENTRIES_MAX) } else { changes });
        let now = forebay_net::clock::now_unix();
        let (catalog, committed, open) = (Arc::clone(self), Arc::clone(&changes), Arc::clone(&index));
        let applied = self.workers.run(move || {
            let applied = open.apply(now, committed.iter())?;
            for change in &applied {
                catalog.follower.changed(change);
                catalog.known.note(&change.key, change.after.is_some());
            }
            Ok::<_, IndexError>(applied)
        });
        match applied.await {
            Ok(Ok(applied)) => {
                let files = {
                    let mut state = self.state();
                    applied.iter().for_each(|change| state.note(change));
                    state.files()
                };
                self.metrics.add_index_commit();
                self.metrics.set_index_entries(files);
                return true;
            }
            Ok(Err(error)) => self.give_up(&index, &error),
            Err(_) => self.give_up(&index, &broke_off()),
        }
        if is_of_notes {
            self.notes().put_back(Arc::unwrap_or_clone(changes));
        }
        false
    }
}

/// That work on the index panicked, or was cut off at the end of the process.
pub(super) fn broke_off() -> IndexError {
    IndexError::Store { operation: "working with", reason: "the work broke off".to_owned() }
}
