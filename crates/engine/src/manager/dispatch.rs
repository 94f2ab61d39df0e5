//! Where a manager sends a client.

use crate::{
    Error, OpenRequest, Redirect, Redirects, entries::from_origin::last_check_of, manager::Manager,
    namespace::routes::OriginTarget,
};
use forebay_cache::{CacheKey, Verdict};
use forebay_store::SharedFile;
use forebay_telemetry::SentTo;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// How long the file system of the store may take; then the client is sent to the filler.
const LOOK_TIME_MAX: Duration = Duration::from_secs(5);

/// Least time between two lines of the log that tell that the store cannot be used.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

impl Manager {
    /// The complete file of `key`, unless the store does not tell in time. Files whose names no URL can hold are served.
    pub(crate) async fn look(self: &Arc<Self>, key: CacheKey) -> Option<SharedFile> {
        let looking = Arc::clone(self);
        let found = self.ask_store(move || looking.view.find(&key)).await?;
        found.filter(|file| file.path.to_str().is_some_and(|path| !path.contains(['?', '\0', '\n'])))
    }

    /// Where a file is that its owner leaves alone from now on.
    pub(crate) async fn lease(self: &Arc<Self>, file: SharedFile) -> Option<PathBuf> {
        self.ask_store(move || file.lease().map(|is_there| is_there.then_some(file.path))).await?
    }

    /// Runs blocking work on the store, in bounded time and on few threads.
    async fn ask_store<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, forebay_store::StoreError> + Send + 'static,
    ) -> Option<T> {
        let place = Arc::clone(&self.looks).try_acquire_owned().ok()?;
        let asked = self.workers.run(move || {
            let _place = place;
            work()
        });
        match tokio::time::timeout(LOOK_TIME_MAX, asked).await {
            Ok(Ok(Ok(answer))) => Some(answer),
            Ok(Ok(Err(error))) => {
                self.warn(&crate::base::error::with_cause(&error));
                None
            }
            Ok(Err(_)) => None,
            Err(_) => {
                self.warn("its file system does not answer");
                None
            }
        }
    }

    /// Logs why clients are not sent to files, now and then: it may concern each open.
    fn warn(&self, reason: &str) {
        let now = forebay_net::clock::monotonic();
        let mut warned = self.warned.lock();
        if warned.is_none_or(|warned| now.saturating_duration_since(warned) >= WARN_INTERVAL) {
            *warned = Some(now);
            tracing::warn!(reason, "the filler's store cannot be used: clients are sent to the filler");
        }
    }

    /// The filler, or else the origin: the first of them that the client has not tried and that can help it.
    pub(crate) fn next_server(
        &self,
        request: &OpenRequest,
        target: &OriginTarget,
        redirects: Redirects,
    ) -> Result<(Redirect, SentTo), Error> {
        let mut tried = request.tried.clone();
        if let Some(filler) = self.filler.alive()
            && !tried.take(&filler)
        {
            return Ok((Redirect { server: filler, url: None }, SentTo::Filler));
        }
        if request.only_if_cached {
            return Err(Error::NotCached { lfn: target.path.lfn.clone() });
        }
        let origin = target.redirect(redirects).filter(|_| !tried.take(&target.server.endpoint));
        origin.map(|redirect| (redirect, SentTo::Origin)).ok_or_else(|| {
            let lfn = request.lfn.clone();
            if tried.is_missing() { Error::NotFound { lfn } } else { Error::NoServer { lfn } }
        })
    }
}

/// Whether a copy may be given out without a question to its origin.
pub(crate) fn is_valid(file: &SharedFile, target: &OriginTarget) -> bool {
    let last_check = last_check_of(&file.cinfo, file.origin.as_ref());
    target.validity.decide(last_check, forebay_net::clock::now_unix(), None) == Verdict::Serve
}

/// What the configuration does not let come about.
pub(crate) const NOT_A_MANAGER: Error = Error::Internal { what: "a manager was asked to serve files" };
