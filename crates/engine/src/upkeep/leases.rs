//! Files that clients read on their own, from a file system that they share with this server.
//!
//! Whoever was sent to a file says nothing any more, not even that it has closed it. For a while the file counts as open, so that a
//! purge leaves it alone; a reader that has it open by then finishes whatever becomes of its name.
//!
//! Files are created for this server alone. They are opened to others when all of their blocks are on disk and trusted, and closed to
//! them before one is taken back: who comes late finds no file, or may not read it, but never reads a hole as data.

use crate::entries::{cached_file::CachedFile, shared::Shared};
use forebay_cache::CacheKey;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens};
use std::{
    collections::BTreeMap,
    fs::Permissions,
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// Files that count as open.
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

/// Permissions by which somebody else than the server can read a file.
const READ_BY_OTHERS: u32 = 0o044;

/// Sets the time of last access alone.
const ACCESSED_NOW: Timestamps = Timestamps {
    last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
};

/// What becomes of a file's time of last access when it is opened to others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Access {
    /// It is now: a client is about to read it.
    Now,
    /// Nobody reads it yet.
    AsItIs,
}

/// How long the disk may take to open a file to others; then it is served.
const DISK_TIME_MAX: Duration = Duration::from_secs(5);

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
        let mut leases = self.lock();
        if let Some(lease) = leases.get_mut(key).filter(|lease| Arc::ptr_eq(&lease.file, &file)) {
            lease.until = until;
            drop(leases);
            file.detach(Duration::ZERO);
            return Ok(());
        }
        if leases.len() >= LEASES_MAX && !leases.contains_key(key) {
            return Err(file);
        }
        // What was kept under the name is another content; it is let go outside of the lock.
        let replaced = leases.insert(key.clone(), Lease { file, began: now, until });
        drop(leases);
        drop(replaced);
        Ok(())
    }

    /// Lets go of files whose time is over.
    fn end(&self) {
        let now = forebay_net::clock::monotonic();
        let mut leases = self.lock();
        let keys: Vec<_> = leases.iter().filter(|(_, lease)| lease.until <= now).map(|(key, _)| key.clone()).collect();
        let over: Vec<_> = keys.iter().filter_map(|key| leases.remove(key)).collect();
        drop(leases);
        drop(over);
    }

    /// Lets go of all files.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<CacheKey, Lease>> {
        self.0.lock()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.file.detach(forebay_net::clock::monotonic().saturating_duration_since(self.began));
    }
}

impl CachedFile {
    /// Where other processes can read all of the file, opened to them if need be; `None` when something is missing or not to be
    /// trusted, or the disk does not say in time.
    pub(crate) async fn readable_path(self: &Arc<Self>) -> Option<PathBuf> {
        if self.is_retired() || !self.stored()?.is_whole() {
            return None;
        }
        let file = Arc::clone(self);
        let opened = self.shared().options.workers.run(move || file.open_to_others(Access::Now));
        match tokio::time::timeout(DISK_TIME_MAX, opened).await {
            Ok(Ok(Ok(path))) => path,
            Ok(Ok(Err(error))) => {
                tracing::warn!(lfn = self.lfn().as_str(), %error, "the file cannot be opened to others");
                None
            }
            Ok(Err(_)) | Err(_) => None,
        }
    }

    /// Opens a file that is whole to others before anybody asks, where that is wanted of it. Blocking.
    pub(crate) fn publish(&self) {
        if !self.is_direct() {
            return;
        }
        if let Err(error) = self.open_to_others(Access::AsItIs) {
            tracing::warn!(lfn = self.lfn().as_str(), %error, "the file cannot be opened to others");
        }
    }

    /// Blocking.
    fn open_to_others(&self, access: Access) -> io::Result<Option<PathBuf>> {
        let (Some(stored), Some(key)) = (self.stored(), self.key()) else { return Ok(None) };
        let volumes = self.shared().volumes();
        let volume = volumes.iter().find(|volume| volume.id == stored.data.volume()).map(|volume| volume.path.clone());
        drop(volumes);
        let Some(path) = volume.map(|root| root.join(key.as_str().trim_start_matches('/'))) else { return Ok(None) };
        let (identity, there) = (stored.data.identity(), path.metadata()?);
        let is_it = (there.dev(), there.ino()) == (identity.device, identity.inode);
        let is_name_good = path.to_str().is_some_and(|path| !path.contains(['?', '\0', '\n']));
        if !is_it || !is_name_good {
            return Ok(None);
        }
        let mode = self.shared().options.direct_mode;
        stored.publish(|| {
            if there.mode() & READ_BY_OTHERS & mode != READ_BY_OTHERS & mode {
                stored.data.file().set_permissions(Permissions::from_mode(mode))?;
            }
            if access == Access::Now {
                // Should this process end, the next one leaves the file alone for as long. It is a courtesy, and may fail.
                let _ = futimens(&**stored.data.file(), &ACCESSED_NOW);
            }
            Ok(path)
        })
    }
}

/// Lets go of files whose time is over, for ever.
pub(crate) async fn run(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        shared.leases.end();
    }
}
