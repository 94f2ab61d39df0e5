//! Reports of what a front does, to the subscribers of [`FileEvents`]: logins, reads, refused opens and failures. The engine
//! reports the rest.

use crate::{
    authorization::Connection,
    failure::{Failure, FailureKind},
    front::Front,
};
use forebay_auth::{Credentials, Identity, Right};
use forebay_engine::{Caller, Client, Delegation, Engine, Handle, OpenRequest, Opening, Redirects};
use forebay_telemetry::{FailedEvent, FileEvents as _, LoginEvent, ReadAnswer, ReadKind, RefusedEvent};
use forebay_types::{ByteRange, Lfn, Outcome, Side};
use std::{sync::Arc, time::Instant};

impl Front {
    /// The caller that a login has proven. `client` gets the number of the session here.
    pub fn logged_in(&self, client: Client, identity: Identity, credentials: Option<Arc<Credentials>>) -> Arc<Caller> {
        let events = self.backend.events();
        let client = Client { session: events.next_session(), ..client };
        events.login(&LoginEvent { at: forebay_net::clock::monotonic(), client: &client });
        Arc::new(Caller { identity, client: Arc::new(client), delegation: Delegation::Client(credentials) })
    }

    /// The caller of an open for reading, if it may open the file now. As [`Front::admit`], and refusals are reported.
    ///
    /// # Errors
    /// As for [`Front::admit`]; [`FailureKind::Overloaded`] while the server is draining.
    pub fn admit_open(
        &self,
        request: &OpenRequest,
        login: &Arc<Caller>,
        connection: Connection,
    ) -> Result<Arc<Caller>, Failure> {
        let admitted = self.admit(request, Right::Read, login, connection).and_then(|caller| {
            // Clients that a redirector has sent go back to it and are sent to another server.
            if self.readiness.is_draining() { Err(draining()) } else { Ok(caller) }
        });
        admitted.inspect_err(|failure| self.report_refusal(&login.client, &request.lfn, failure))
    }

    /// Reports an open that is refused.
    pub fn report_refusal(&self, client: &Client, lfn: &Lfn, Failure { kind, text, .. }: &Failure) {
        let (at, kind) = (forebay_net::clock::monotonic(), kind.as_str());
        self.backend.events().refused(&RefusedEvent { at, client, lfn, kind, reason: text });
    }

    /// Opens a file for reading, after [`Front::admit_open`].
    ///
    /// # Errors
    /// As for [`Backend::open`](crate::Backend::open).
    pub async fn open(
        &self,
        request: &OpenRequest,
        caller: &Arc<Caller>,
        redirects: Redirects,
    ) -> Result<Opening, Failure> {
        let began = forebay_net::clock::monotonic();
        let opened = self.backend.open(request, caller, redirects).await.map_err(Failure::from);
        opened.inspect_err(|failure| self.report_failed_open(request, caller, began, failure))
    }

    /// Whether an open would still lead the client to what it reads through `handle`; reports it if it fails.
    ///
    /// # Errors
    /// As for [`Engine::open`].
    pub async fn still_leads_to(
        &self,
        engine: &Engine,
        handle: &Handle,
        request: &OpenRequest,
        caller: &Arc<Caller>,
    ) -> Result<bool, Failure> {
        let began = forebay_net::clock::monotonic();
        let found = engine.still_leads_to(handle, request, caller).await.map_err(Failure::from);
        found.inspect_err(|failure| self.report_failed_open(request, caller, began, failure))
    }

    fn report_failed_open(&self, request: &OpenRequest, caller: &Caller, began: Instant, failure: &Failure) {
        let at = forebay_net::clock::monotonic();
        let duration = at.saturating_duration_since(began);
        self.backend.events().failed(&FailedEvent {
            at,
            client: &caller.client,
            lfn: &request.lfn,
            open: None,
            side: failure.side,
            kind: failure.kind.as_str(),
            reason: &failure.text,
            duration: Some(duration),
        });
    }
}

/// Reports a read that has just been answered, if a subscriber wants the reads of its file.
pub fn report_read(handle: &Handle, kind: ReadKind, range: ByteRange, received: Instant, outcome: Outcome) {
    if let Some(reads) = handle.reads() {
        reads.read(kind, range, &answered_now(received, outcome));
    }
}

/// An answer that has just been completed.
pub fn answered_now(received: Instant, outcome: Outcome) -> ReadAnswer {
    ReadAnswer { received, done: forebay_net::clock::monotonic(), outcome }
}

fn draining() -> Failure {
    let text = "the server is draining and opens no more files: try another one";
    Failure::new(FailureKind::Overloaded, Side::Internal, text)
}
