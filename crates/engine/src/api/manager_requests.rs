//! Requests to a data manager, which sends clients elsewhere.

use crate::{
    Caller, Client, Delegation, Engine, Error, OpenRequest, Opening, Redirect, Redirects,
    manager::{
        Manager,
        dispatch::{NOT_A_MANAGER, is_valid},
        filler::FillerState,
    },
    namespace::routes::Target,
};
use forebay_cache::{Action, Decision, Subject};
use forebay_telemetry::{Decided, DirectEvent, FileEvents as _, SentTo};
use std::sync::Arc;

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
        self.manager().map(|manager| manager.filler_state())
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
