//! Where a client is redirected.

use crate::Manager;
use forebay_cache::{Action, Decision, Verdict};
use forebay_engine::{Caller, Delegation, Error, OpenRequest, Opening, OriginTarget, Redirect, Redirects};
use forebay_telemetry::{Decided, DirectEvent, FileEvents as _, RedirectedEvent, SentTo};
use forebay_types::Endpoint;

impl Manager {
    /// Where a client is to open a file: [`Opening::Direct`] or [`Opening::Redirect`].
    ///
    /// # Errors
    /// When no export covers the path, or no server is left.
    pub async fn open(&self, request: &OpenRequest, caller: &Caller, redirects: Redirects) -> Result<Opening, Error> {
        let target = self.routes().origin(request, &caller.delegation)?;
        let key = if redirects.reach_files() { target.shared_key() } else { None };
        let file = match key {
            Some(key) => self.store.look(key).await,
            None => None,
        };
        let size = file.as_ref().map(|file| file.cinfo.geometry.file_size());
        let action = match target.decide(request, caller, size) {
            Decision::Caching(caching) => Some(caching.action),
            // The filler knows the size, or finds it out.
            Decision::NeedsSize => None,
        };
        if action == Some(Action::Redirect)
            && let Some(redirect) = target.redirect(redirects)
        {
            self.metrics.add_decision(Decided::Redirect);
            self.metrics.add_manager_open(SentTo::Origin);
            self.report_redirect(&target, &redirect, request, caller, size);
            return Ok(Opening::Redirect(redirect));
        }
        let now = forebay_net::clock::now_unix();
        // A copy that its origin has to confirm first is left to the filler.
        let is_valid = |last_check| target.validity.decide(last_check, now, None) == Verdict::Serve;
        if let (Some(file), Some(size)) = (file, size)
            && action == Some(Action::Cache)
            && is_valid(file.last_check())
            && let Some(path) = self.store.lease(file).await
        {
            self.metrics.add_direct_open();
            self.metrics.add_manager_open(SentTo::File);
            let client = &caller.client;
            self.events.direct(&DirectEvent { open: None, client, lfn: &request.lfn, size, path: &path });
            return Ok(Opening::Direct(path));
        }
        let (redirect, to) = self.next_server(request, &target, redirects)?;
        self.metrics.add_manager_open(to);
        self.report_redirect(&target, &redirect, request, caller, size);
        Ok(Opening::Redirect(redirect))
    }

    fn report_redirect(
        &self,
        target: &OriginTarget,
        redirect: &Redirect,
        request: &OpenRequest,
        caller: &Caller,
        size: Option<u64>,
    ) {
        let (client, lfn, origin, to) = (&caller.client, &request.lfn, &target.server, &redirect.server);
        self.events.redirected(&RedirectedEvent { client, lfn, origin, to, size });
    }

    /// The server that answers a question about a name.
    ///
    /// # Errors
    /// When no export covers the path, or no server is left.
    pub fn locate(&self, request: &OpenRequest, redirects: Redirects) -> Result<Redirect, Error> {
        let target = self.routes().origin(request, &Delegation::Operator)?;
        self.next_server(request, &target, redirects).map(|(redirect, _)| redirect)
    }

    /// Where the filler of a file is, if it answers.
    fn filler_of(&self, target: &OriginTarget) -> Option<Endpoint> {
        match &self.part_fillers {
            Some(fillers) => fillers.alive(target.key()?),
            None => self.filler.alive(),
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
        if let Some(filler) = self.filler_of(target)
            && !tried.take(&filler)
        {
            return Ok((Redirect { server: filler, url: None }, SentTo::Filler));
        }
        if request.only_if_cached {
            return Err(Error::NotCached { lfn: target.path.lfn.clone() });
        }
        if let Some(redirect) = target.redirect(redirects)
            && !tried.take(&target.server.endpoint)
        {
            return Ok((redirect, SentTo::Origin));
        }
        let lfn = request.lfn.clone();
        Err(if tried.is_missing() { Error::NotFound { lfn } } else { Error::NoServer { lfn } })
    }
}
