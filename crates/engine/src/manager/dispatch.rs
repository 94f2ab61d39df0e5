//! Where a manager sends a client.

use crate::{
    Caller, Client, Delegation, Engine, Error, OpenRequest, Opening, Redirect, Redirects,
    entries::last_check::last_check_of,
    manager::{Manager, filler::FillerState},
    namespace::routes::{OriginTarget, Target},
};
use forebay_cache::{Action, CacheKey, Decision, Subject, Verdict};
use forebay_store::SharedFile;
use forebay_telemetry::{Decided, DirectEvent, FileEvents as _, SentTo};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// How long the file system of the store may take; then the client is sent to the filler.
const LOOK_TIME_MAX: Duration = Duration::from_secs(5);

/// Least time between two lines of the log that tell that the store cannot be used.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

impl Engine {
    /// Whether this is a data manager, which sends clients elsewhere with everything.
    #[must_use]
    pub fn is_manager(&self) -> bool {
        self.manager().is_some()
    }

    /// Whether this opens complete files to others for managers.
    #[must_use]
    pub fn is_filler(&self) -> bool {
        self.context().options.publishes_complete
    }

    /// How the filler does; `None` when this is no manager.
    #[must_use]
    pub fn filler(&self) -> Option<FillerState> {
        self.manager().map(|manager| manager.filler.state())
    }

    /// Where a client of a manager is to go with a question about a name: to the filler, and to the origin when that does not answer
    /// or could not help.
    ///
    /// # Errors
    /// When no export covers the path, or there is nowhere left to go.
    pub fn send_elsewhere(&self, request: &OpenRequest, redirects: Redirects) -> Result<Redirect, Error> {
        let Target::Origin(target) = self.target(request, &Delegation::Operator)? else { return Err(NOT_A_MANAGER) };
        let manager = self.manager().ok_or(NOT_A_MANAGER)?;
        manager.next_server(request, &target, redirects).map(|(redirect, _)| redirect)
    }

    /// Where a client of a manager is to open a file.
    pub(crate) async fn send_open(
        &self,
        manager: &Arc<Manager>,
        request: &OpenRequest,
        caller: &Caller,
        redirects: Redirects,
    ) -> Result<Opening, Error> {
        let Target::Origin(mut target) = self.target(request, &caller.delegation)? else { return Err(NOT_A_MANAGER) };
        let is_direct = target.service.direct && redirects.reach_files() && target.authorize_as.is_none();
        let key = target.key.clone().filter(|_| is_direct);
        let file = match key {
            Some(key) => manager.look(key).await,
            None => None,
        };
        let size = file.as_ref().map(|file| file.cinfo.geometry.file_size());
        let (rules, rule_path) = (&target.decisions.options.rules, target.rule_path());
        let Client { user, host, .. } = &caller.client;
        let subject = Subject { path: &rule_path, user, host, cgi: &request.parameters, size };
        let action = match rules.decide(&subject) {
            Decision::Caching(caching) => {
                target.caching = caching;
                Some(target.caching.action)
            }
            // The filler knows the size, or finds it out.
            Decision::NeedsSize => None,
        };
        if action == Some(Action::Redirect)
            && let Some(redirect) = target.redirect(redirects)
        {
            self.metrics().add_decision(Decided::Redirect);
            self.metrics().add_manager_open(SentTo::Origin);
            return Ok(Opening::Redirect(redirect));
        }
        let file = file.filter(|file| action == Some(Action::Cache) && is_valid(file, &target));
        if let Some(file) = file
            && let Some(there) = manager.lease(file).await
        {
            self.metrics().add_direct_open();
            self.metrics().add_manager_open(SentTo::File);
            let client = &caller.client;
            self.events().direct(&DirectEvent { open: None, client, lfn: &request.lfn, path: &there });
            return Ok(Opening::Direct(there));
        }
        let (redirect, to) = manager.next_server(request, &target, redirects)?;
        self.metrics().add_manager_open(to);
        Ok(Opening::Redirect(redirect))
    }
}

impl Manager {
    /// The complete file of `key`, unless the store does not tell in time. Files whose names no URL can hold are served.
    async fn look(self: &Arc<Self>, key: CacheKey) -> Option<SharedFile> {
        let looking = Arc::clone(self);
        let found = self.ask_store(move || looking.view.find(&key)).await?;
        found.filter(|file| file.path.to_str().is_some_and(|path| !path.contains(['?', '\0', '\n'])))
    }

    /// Where a file is that its owner leaves alone from now on.
    async fn lease(self: &Arc<Self>, file: SharedFile) -> Option<PathBuf> {
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
    fn next_server(
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
        let origin = target.redirect(redirects).filter(|_| !tried.take(&target.server));
        origin.map(|redirect| (redirect, SentTo::Origin)).ok_or_else(|| {
            let lfn = request.lfn.clone();
            if tried.is_missing() { Error::NotFound { lfn } } else { Error::NoServer { lfn } }
        })
    }
}

/// Whether a copy may be given out without a question to its origin.
fn is_valid(file: &SharedFile, target: &OriginTarget) -> bool {
    let last_check = last_check_of(&file.cinfo, file.origin.as_ref());
    target.validity.decide(last_check, forebay_net::clock::now_unix(), None) == Verdict::Serve
}

/// What the configuration does not let come about.
const NOT_A_MANAGER: Error = Error::Internal { what: "a manager was asked to serve files" };
