//! A file open at an origin, whatever happens to its connections.

mod assembly;
mod job;
mod open_handle;
mod plan;
mod read;
mod repair;
mod round;

use crate::{
    Chunks, FileIdentity, OriginError, OriginFile, OriginPath,
    call::CallLimits,
    retry::{Failure, Patience},
    servers::Servers,
};
use forebay_types::ByteRange;
use job::Job;
use open_handle::OpenHandle;
use parking_lot::Mutex;
use read::Reading;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::time::{Instant, timeout_at};

/// A file open at a `root://` origin.
pub(crate) struct RootFile {
    state: Arc<FileState>,
}

/// What the reads of a file share.
#[derive(Debug)]
pub(crate) struct FileState {
    servers: Servers,
    path: OriginPath,
    /// As of the first open: bytes of another content are never mixed with those delivered before.
    identity: FileIdentity,
    current: Mutex<Arc<OpenHandle>>,
    /// Whether any bytes came without page checksums.
    has_unverified: AtomicBool,
    /// When opening anew last failed, and how; who began to wait before that shares it.
    last_failure: tokio::sync::Mutex<Option<(Instant, OriginError)>>,
}

/// A handle that is of no use any more.
pub(crate) struct Bad {
    pub(crate) handle: Arc<OpenHandle>,
    /// Why another server should be asked rather than this one again.
    pub(crate) elsewhere: Option<OriginError>,
}

impl RootFile {
    /// Opens `path` at one of `servers`.
    ///
    /// # Errors
    /// As [`OpenHandle::open`].
    pub(crate) async fn open(servers: &Servers, path: &OriginPath) -> Result<Self, OriginError> {
        let options = &servers.router.options;
        let limits = CallLimits::from_now(options);
        let patience = Patience { attempts: options.attempts, deadline: limits.deadline };
        let opened = OpenHandle::open(servers, path, servers.tries(0, patience), limits).await?;
        let state = FileState {
            servers: servers.clone(),
            path: path.clone(),
            identity: opened.identity.clone(),
            current: Mutex::new(Arc::new(opened)),
            has_unverified: AtomicBool::new(false),
            last_failure: tokio::sync::Mutex::default(),
        };
        Ok(Self { state: Arc::new(state) })
    }
}

impl OriginFile for RootFile {
    fn identity(&self) -> FileIdentity {
        self.state.current().identity.clone()
    }

    fn verifies_pages(&self) -> bool {
        !self.state.has_unverified.load(Ordering::Relaxed)
    }

    fn read_many(&self, ranges: &[ByteRange]) -> Vec<Chunks> {
        let (senders, chunks): (Vec<_>, Vec<_>) = ranges.iter().map(|_| Chunks::channel()).unzip();
        let jobs = ranges.iter().zip(senders).map(|(&range, sender)| Job::new(range, sender)).collect();
        let reading = Reading::new(Arc::clone(&self.state), jobs);
        match <[Chunks; 1]>::try_from(chunks) {
            Ok([only]) => vec![only.driven_by(reading.run_at_hand())],
            Err(chunks) => {
                tokio::spawn(reading.run());
                chunks
            }
        }
    }
}

impl FileState {
    fn current(&self) -> Arc<OpenHandle> {
        Arc::clone(&self.current.lock())
    }

    /// Notes that bytes are delivered that came without page checksums.
    fn note_unverified(&self) {
        self.has_unverified.store(true, Ordering::Relaxed);
    }

    /// The present handle, unless it is known to be of no use.
    pub(crate) fn usable(&self, bad: Option<&Bad>) -> Option<Arc<OpenHandle>> {
        let current = self.current();
        let is_bad = bad.is_some_and(|bad| Arc::ptr_eq(&bad.handle, &current));
        (!is_bad && current.connection.broken().is_none()).then_some(current)
    }

    /// A handle that is not known to be `bad`: the present one, or one opened anew. Several askers share one open, and
    /// its failure.
    ///
    /// # Errors
    /// As [`OpenHandle::open`]; `Changed` when the file has another size, or at the same server another change time.
    pub(crate) async fn handle(&self, bad: Option<&Bad>, deadline: Instant) -> Result<Arc<OpenHandle>, OriginError> {
        let asked_at = Instant::now();
        if let Some(current) = self.usable(bad) {
            return Ok(current);
        }
        let Ok(mut last_failure) = timeout_at(deadline, self.last_failure.lock()).await else {
            let (endpoint, doing) = (self.identity.endpoint.clone(), "opening a file anew");
            return Err(OriginError::Lost { endpoint, doing, reason: "no connection before the deadline".to_owned() });
        };
        if let Some(current) = self.usable(bad) {
            return Ok(current);
        }
        if let Some((_, error)) = last_failure.as_ref().filter(|(failed_at, _)| *failed_at > asked_at) {
            return Err(error.clone());
        }
        match self.open_anew(bad, deadline).await {
            Ok(opened) => {
                let opened = Arc::new(opened);
                *self.current.lock() = Arc::clone(&opened);
                Ok(opened)
            }
            Err(error) => {
                *last_failure = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Opens the file anew, always by way of the server of the list that knows who has it: a data server that it
    /// redirected to may refuse a second open with the same opaque data.
    async fn open_anew(&self, bad: Option<&Bad>, deadline: Instant) -> Result<OpenHandle, OriginError> {
        let options = &self.servers.router.options;
        let current = self.current();
        let patience = Patience { attempts: options.read_attempts, deadline };
        let mut tries = self.servers.tries(current.server_index, patience);
        if let Some(error) = bad.and_then(|bad| bad.elsewhere.clone()) {
            let behind_redirector = current.is_behind_redirector.then(|| current.identity.endpoint.clone());
            tries.avoid(Failure { error, behind_redirector });
        }
        let limits = CallLimits { deadline, ..CallLimits::from_now(options) };
        let opened = OpenHandle::open(&self.servers, &self.path, tries, limits).await?;
        tracing::debug!(endpoint = %opened.identity.endpoint, "a file was opened anew at its origin");
        let is_same_server = opened.identity.endpoint == self.identity.endpoint;
        let is_changed = opened.identity.size != self.identity.size
            || (is_same_server && opened.identity.validator != self.identity.validator);
        if is_changed { Err(OriginError::Changed { endpoint: opened.identity.endpoint.clone() }) } else { Ok(opened) }
    }
}
