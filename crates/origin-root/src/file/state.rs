//! The state that the reads of a file share: the handle in use, and how the file is opened again.

use super::open_handle::OpenHandle;
use crate::{
    route::{Failure, call::CallLimits},
    servers::Servers,
};
use forebay_origin::{FileIdentity, OriginError, OriginPath, SharedValue};
use std::sync::{Arc, atomic::AtomicBool};
use tokio::time::{Instant, timeout_at};

pub(super) struct FileState {
    pub(super) servers: Servers,
    path: OriginPath,
    /// As of the first open: bytes of another content are never mixed with those delivered before.
    identity: FileIdentity,
    /// The handle in use; it stays the last one while the file is opened again.
    opened: Arc<SharedValue<Arc<OpenHandle>, OriginError>>,
    /// Whether any bytes came without page checksums.
    pub(super) has_unverified: AtomicBool,
}

/// A handle that is of no use any more.
pub(super) struct Bad {
    pub(super) handle: Arc<OpenHandle>,
    /// Why another server should be asked; `None` to ask the same one again.
    pub(super) elsewhere: Option<OriginError>,
}

impl FileState {
    pub(super) fn new(servers: Servers, path: OriginPath, opened: OpenHandle) -> Self {
        let identity = opened.identity.clone();
        let opened = Arc::new(SharedValue::ready(Arc::new(opened)));
        Self { servers, path, identity, opened, has_unverified: AtomicBool::new(false) }
    }

    pub(super) fn current(&self) -> Arc<OpenHandle> {
        self.opened.get().expect("`new` has set the first handle, and later ones replace it")
    }

    /// The handle in use, unless its session is broken.
    pub(super) fn usable(&self) -> Option<Arc<OpenHandle>> {
        let current = self.current();
        current.connection.broken().is_none().then_some(current)
    }

    /// A handle that is not known to be `bad`: the one in use, or that of a new open. Several callers share one open, and its
    /// failure.
    ///
    /// # Errors
    /// As [`OpenHandle::open`]; `Changed` when the file has another size, or at the same server another change time.
    pub(super) async fn handle(
        self: &Arc<Self>,
        bad: Option<&Bad>,
        deadline: Instant,
    ) -> Result<Arc<OpenHandle>, OriginError> {
        let is_usable = |handle: &Arc<OpenHandle>| {
            bad.is_none_or(|bad| !Arc::ptr_eq(&bad.handle, handle)) && handle.connection.broken().is_none()
        };
        let open = || {
            let (file, elsewhere) = (Arc::clone(self), bad.and_then(|bad| bad.elsewhere.clone()));
            // Not that of the first caller, whose time may be nearly over: the others share its outcome.
            let deadline = Instant::now() + self.servers.router.options.deadline;
            async move { file.open_again(elsewhere, deadline).await.map(Arc::new) }
        };
        let lost = |reason: &str| {
            let (endpoint, doing) = (self.identity.origin.endpoint.clone(), "opening a file again");
            OriginError::Lost { endpoint, doing, reason: reason.to_owned() }
        };
        match timeout_at(deadline, self.opened.get_or_make(is_usable, open)).await {
            Ok(Some(opened)) => opened,
            // The attempt panicked: the reads that share it fail, and their tasks continue.
            Ok(None) => Err(lost("an internal error")),
            Err(_) => Err(lost("no connection before the deadline")),
        }
    }

    /// Opens the file again, always through the server of the list that knows which server has it: a data server that it
    /// redirected to may refuse a second open with the same opaque data.
    async fn open_again(&self, elsewhere: Option<OriginError>, deadline: Instant) -> Result<OpenHandle, OriginError> {
        let options = &self.servers.router.options;
        let current = self.current();
        let mut attempts = self.servers.attempts(current.server_index, options.read_attempts, deadline);
        if let Some(error) = elsewhere {
            // The redirector is given the failed server as tried, so that it names another one.
            let behind_redirector = current.is_behind_redirector.then(|| current.connection.endpoint().clone());
            attempts.avoid(Failure { error, behind_redirector });
        }
        let limits = CallLimits { deadline, ..CallLimits::from_now(options) };
        let opened = OpenHandle::open(&self.servers, &self.path, attempts, limits).await?;
        tracing::debug!(endpoint = %opened.identity.origin, "a file was opened again at its origin");
        // The clocks of two servers need not agree on the time of change.
        let is_same_server = opened.identity.origin == self.identity.origin;
        let is_changed = opened.identity.size != self.identity.size
            || (is_same_server && opened.identity.validator != self.identity.validator);
        if is_changed {
            Err(OriginError::Changed { endpoint: opened.connection.endpoint().clone() })
        } else {
            Ok(opened)
        }
    }
}
