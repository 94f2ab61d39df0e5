//! Looks at the store that another process fills, in bounded time and on few threads.

use forebay_cache::CacheKey;
use forebay_store::{SharedFile, SharedView, StoreError};
use parking_lot::Mutex;
use std::{
    error::Error as _,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Semaphore;

/// The store that another process fills.
pub(crate) struct SharedStore {
    view: Arc<SharedView>,
    /// Looks at the store that may begin.
    looks: Arc<Semaphore>,
    /// Last log line on a store that cannot be used.
    warned: Mutex<Option<Instant>>,
}

/// Looks at the store at the same time: each has a thread as long as the file system does not answer. A client that finds none
/// free is redirected to the filler.
const LOOKS_MAX: usize = 64;

/// Time limit of a look; then the client is redirected to the filler.
const LOOK_TIME_MAX: Duration = Duration::from_secs(5);

/// Least time between two log lines on a store that cannot be used: each open may have a reason for one.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// Permissions by which other users than the server can read a file.
const READ_BY_OTHERS: u32 = 0o044;

impl SharedStore {
    pub(crate) fn new(roots: Vec<PathBuf>, direct_mode: u32, parts: Option<u16>) -> Self {
        Self {
            view: Arc::new(SharedView::new(roots, direct_mode & READ_BY_OTHERS).divided(parts)),
            looks: Arc::new(Semaphore::new(LOOKS_MAX)),
            warned: Mutex::new(None),
        }
    }

    /// The complete file of `key`, if the store shows it in time. Files whose names no URL can hold are left to the filler.
    pub(crate) async fn look(&self, key: CacheKey) -> Option<SharedFile> {
        let view = Arc::clone(&self.view);
        let found = self.ask(move || view.find(&key)).await?;
        found.filter(|file| file.path.to_str().is_some_and(|path| !path.contains(['?', '\0', '\n'])))
    }

    /// The path of a file that its owner leaves alone for the time of a lease.
    pub(crate) async fn lease(&self, file: SharedFile) -> Option<PathBuf> {
        self.ask(move || file.lease().map(|is_there| is_there.then_some(file.path))).await?
    }

    async fn ask<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T, StoreError> + Send + 'static) -> Option<T> {
        let place = Arc::clone(&self.looks).try_acquire_owned().ok()?;
        let asked = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        match tokio::time::timeout(LOOK_TIME_MAX, asked).await {
            Ok(Ok(Ok(answer))) => return Some(answer),
            Ok(Ok(Err(error))) => match error.source() {
                Some(cause) => self.warn(&format!("{error}: {cause}")),
                None => self.warn(&error.to_string()),
            },
            // A panic of our own.
            Ok(Err(_)) => {}
            Err(_) => self.warn("its file system does not answer"),
        }
        None
    }

    fn warn(&self, reason: &str) {
        let now = forebay_net::clock::monotonic();
        let mut warned = self.warned.lock();
        if warned.is_none_or(|warned| now.saturating_duration_since(warned) >= WARN_INTERVAL) {
            *warned = Some(now);
            tracing::warn!(reason, "the filler's store cannot be used: clients are sent to the filler");
        }
    }
}
