//! Files that clients read on their own, from a file system that they share with this server.
//!
//! A client that was sent to a file reports nothing any more, not even its close. For a while the file counts as open, so that a
//! purge leaves it alone; a reader that has it open by then finishes whatever becomes of its name.

use crate::entries::cached_file::CachedFile;
use forebay_cache::CacheKey;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

#[derive(Default)]
pub(crate) struct Leases(Mutex<BTreeMap<CacheKey, Lease>>);

/// A file that is attached as long as this lives.
struct Lease {
    file: Arc<CachedFile>,
    began: Instant,
    until: Instant,
}

/// Most files at the same time; each holds a descriptor. Further ones are served.
const LEASES_MAX: usize = 4096;

/// How often leases that have ended are let go.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

impl Leases {
    /// Keeps a file that was just attached for `duration`, or longer when it is kept already; gives it back when there are too
    /// many.
    pub(crate) fn grant(
        &self,
        key: &CacheKey,
        file: Arc<CachedFile>,
        duration: Duration,
    ) -> Result<(), Arc<CachedFile>> {
        let now = forebay_net::clock::monotonic();
        let until = now + duration;
        let mut leases = self.0.lock();
        // Compared by identity: another content under the same name needs a lease of its own.
        if let Some(lease) = leases.get_mut(key).filter(|lease| Arc::ptr_eq(&lease.file, &file)) {
            lease.until = until;
            drop(leases);
            // The lease holds one attachment already: the caller's is given back, outside of the lock.
            file.detach(Duration::ZERO);
            return Ok(());
        }
        if leases.len() >= LEASES_MAX && !leases.contains_key(key) {
            return Err(file);
        }
        // Another content was kept under the name; it is let go outside of the lock.
        let replaced = leases.insert(key.clone(), Lease { file, began: now, until });
        drop(leases);
        drop(replaced);
        Ok(())
    }

    fn end(&self) {
        let now = forebay_net::clock::monotonic();
        let mut leases = self.0.lock();
        let keys: Vec<_> = leases.iter().filter(|(_, lease)| lease.until <= now).map(|(key, _)| key.clone()).collect();
        let over: Vec<_> = keys.iter().filter_map(|key| leases.remove(key)).collect();
        drop(leases);
        // Outside of the lock: a detach locks the file's record.
        drop(over);
    }

    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        drop(all);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.file.detach(forebay_net::clock::monotonic().saturating_duration_since(self.began));
    }
}

/// Closes files whose lease has ended, until the engine stops.
pub(crate) async fn run(leases: Arc<Leases>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        leases.end();
    }
}
