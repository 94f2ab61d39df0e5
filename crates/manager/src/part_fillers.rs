//! The fillers that share a store: which of them has the part of a file, and whether it answers.

use crate::filler::{Filler, Ping, watch_answers};
use forebay_cache::CacheKey;
use forebay_store::{Observer, Registry, part_of};
use forebay_types::Endpoint;
use parking_lot::Mutex;
use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};
use tokio::{task::JoinHandle, time::MissedTickBehavior};

/// Division of a store among several fillers.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    pub count: u16,
    /// Time after which a filler whose record does not change is dead.
    pub lease: Duration,
}

/// Knowledge of a manager about the fillers that share a store.
pub(crate) struct PartFillers {
    parts: Parts,
    /// The fillers of the parts, by their numbers.
    owners: Mutex<Vec<Option<Endpoint>>>,
    watched: Mutex<HashMap<Endpoint, Watched>>,
}

struct Watched {
    filler: Arc<Filler>,
    task: JoinHandle<()>,
}

/// How often the files of the store are read.
const INTERVAL: Duration = Duration::from_secs(1);

impl PartFillers {
    pub(crate) fn new(parts: Parts) -> Self {
        let owners = vec![None; usize::from(parts.count)];
        Self { parts, owners: Mutex::new(owners), watched: Mutex::default() }
    }

    /// Where the filler of the entry `key` is, if it answers.
    pub(crate) fn alive(&self, key: &CacheKey) -> Option<Endpoint> {
        let part = usize::from(part_of(key, self.parts.count));
        let owner = self.owners.lock().get(part).cloned().flatten()?;
        let watched = self.watched.lock();
        watched.get(&owner)?.filler.alive()
    }

    /// Takes note of the owners of the parts, and watches them.
    fn note(&self, owners: Vec<Option<Endpoint>>, ping: Ping) {
        let mut watched = self.watched.lock();
        watched.retain(|endpoint, _| owners.iter().flatten().any(|owner| owner == endpoint));
        for owner in owners.iter().flatten() {
            watched.entry(owner.clone()).or_insert_with(|| {
                let filler = Arc::new(Filler::new(Some(owner.clone())));
                let asked = Arc::clone(&filler);
                Watched { filler, task: tokio::spawn(async move { watch_answers(&asked, ping).await }) }
            });
        }
        *self.owners.lock() = owners;
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Follows the owners of the parts of the store in `root` until the task is aborted.
pub(crate) async fn watch(fillers: Arc<PartFillers>, root: PathBuf, ping: Ping) {
    let Parts { count, lease } = fillers.parts;
    let mut seen = (Registry::of(&root), Observer::new(lease));
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let read = tokio::task::spawn_blocking(move || {
            let (registry, observer) = &mut seen;
            let now = forebay_net::clock::monotonic();
            // A store that cannot be read shows no change: its fillers count as silent after a while.
            if let Ok(snapshot) = registry.read() {
                observer.note(snapshot, now);
            }
            let owner = |part| observer.owner_of(part, now)?.url.strip_prefix("root://")?.parse().ok();
            let owners: Vec<Option<Endpoint>> = (0..count).map(owner).collect();
            (seen, owners)
        });
        // Only a panic of our own ends it.
        let Ok((kept, owners)) = read.await else { return };
        seen = kept;
        fillers.note(owners, ping);
    }
}
